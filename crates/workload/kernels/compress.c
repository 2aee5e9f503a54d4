/* Compression by a dictionary of the strings seen so far (Lempel, Ziv and Welch; Welch 1984), and back again.
 *
 * compress [BYTES]: words of a small vocabulary. Prints the bytes and the codes of 16 bits. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CODES 65536u
#define SLOTS 131072u
#define NONE UINT32_MAX

/* Of each slot: the string so far and the byte after it, and the code of both together. */
static uint32_t keys[SLOTS], codes[SLOTS];
/* Of each code: the code before its last byte, and that byte. */
static uint32_t prefix[CODES];
static unsigned char last[CODES];

static uint32_t slot_of(uint32_t key)
{
	uint32_t slot = key * 2654435761u >> 15;
	while (keys[slot] != NONE && keys[slot] != key)
		slot = (slot + 1) % SLOTS;
	return slot;
}

int main(int argc, char **argv)
{
	size_t bytes = argc > 1 ? strtoul(argv[1], 0, 10) : 200000;
	if (bytes < 1)
		return 2;
	unsigned char *text = calloc(bytes, 1), *back = malloc(bytes);
	uint16_t *out = malloc(bytes * sizeof *out);
	if (!text || !back || !out)
		return 2;
	static const char *const words[] = { "rank ", "bank ", "row ", "column ", "refresh ", "open ", "close ", "wait " };
	uint32_t state = 1;
	for (size_t at = 0; at < bytes;) {
		state = state * 1664525u + 1013904223u;
		const char *word = words[state >> 29];
		while (*word && at < bytes)
			text[at++] = (unsigned char)*word++;
	}

	memset(keys, 0xff, sizeof keys);
	uint32_t next = 256, string = text[0];
	size_t count = 0;
	for (size_t at = 1; at < bytes; at++) {
		uint32_t key = string << 8 | text[at], slot = slot_of(key);
		if (keys[slot] == key) {
			string = codes[slot];
			continue;
		}
		out[count++] = (uint16_t)string;
		if (next < CODES) {
			keys[slot] = key;
			codes[slot] = next;
			prefix[next] = string;
			last[next++] = text[at];
		}
		string = text[at];
	}
	out[count++] = (uint16_t)string;

	size_t length = 0;
	for (size_t at = 0; at < count; at++) {
		size_t of_code = 1;
		for (uint32_t code = out[at]; code >= 256; code = prefix[code])
			of_code++;
		size_t end = length + of_code, place = end;
		uint32_t code = out[at];
		if (end > bytes)
			return 1;
		for (; code >= 256; code = prefix[code])
			back[--place] = last[code];
		back[--place] = (unsigned char)code;
		length = end;
	}
	printf("%zu bytes, %zu codes\n", bytes, count);
	return length == bytes && !memcmp(text, back, bytes) ? 0 : 1;
}
