// Goroutines, maps and the collector: prints what depends on every byte of them.
package main

import (
	"crypto/sha256"
	"fmt"
	"sort"
	"sync"
)

func work(seed uint32) string {
	state := seed
	number := func() uint32 {
		state = state*1664525 + 1013904223
		return state
	}
	counts := map[string]int{}
	var garbage [][]byte
	for i := 0; i < 150000; i++ {
		counts[fmt.Sprintf("key %d", number()%30000)] += i
		if i%10 == 0 {
			garbage = append(garbage, make([]byte, number()%4000))
		}
		if len(garbage) > 3000 {
			garbage = nil
		}
	}
	keys := make([]string, 0, len(counts))
	for key := range counts {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	sum := sha256.New()
	for _, key := range keys {
		fmt.Fprintln(sum, key, counts[key])
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

func main() {
	results := make([]string, 8)
	var group sync.WaitGroup
	for i := range results {
		group.Add(1)
		go func() {
			defer group.Done()
			results[i] = work(uint32(i + 1))
		}()
	}
	group.Wait()
	for _, result := range results {
		fmt.Println(result)
	}
}
