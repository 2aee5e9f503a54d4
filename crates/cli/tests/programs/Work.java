/** Four threads, many objects, a collector: prints what depends on every byte of them. */
import java.util.TreeMap;

public final class Work {
    private static long work(long seed) {
        long state = seed;
        TreeMap<String, byte[]> map = new TreeMap<>();
        for (int i = 0; i < 120_000; i++) {
            state = state * 6364136223846793005L + 1442695040888963407L;
            byte[] value = new byte[(int) (state >>> 56)];
            for (int at = 0; at < value.length; at++) {
                value[at] = (byte) (state >>> (at % 50));
            }
            map.put("key " + (state >>> 33) % 20_000, value);
        }
        long sum = 17;
        for (var entry : map.entrySet()) {
            sum = sum * 31 + entry.getKey().hashCode();
            for (byte one : entry.getValue()) {
                sum = sum * 31 + one;
            }
        }
        return sum;
    }

    public static void main(String[] arguments) throws InterruptedException {
        long[] results = new long[4];
        Thread[] threads = new Thread[4];
        for (int i = 0; i < 4; i++) {
            int own = i;
            threads[i] = new Thread(() -> results[own] = work(own + 1));
            threads[i].start();
        }
        for (int i = 0; i < 4; i++) {
            threads[i].join();
            System.out.println(results[i]);
        }
    }
}
