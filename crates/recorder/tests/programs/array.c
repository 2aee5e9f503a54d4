/* Writes an array of N longs, reads it back K times, and ends with the sum modulo 100; K = 0: kills itself instead. */
#include <signal.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 1000;
	long rounds = argc > 2 ? atol(argv[2]) : 1;
	volatile long *array = malloc(count * sizeof(long));
	long sum = 0;

	for (long i = 0; i < count; i++)
		array[i] = i;
	if (rounds == 0)
		raise(SIGKILL);
	for (long round = 0; round < rounds; round++)
		for (long i = 0; i < count; i++)
			sum += array[i];
	return sum % 100;
}
