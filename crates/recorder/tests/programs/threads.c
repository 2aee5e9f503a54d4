/* Forty threads, four at a time; thread i writes 1000 * (i + 1) words of its own. */
#include <pthread.h>
#include <stdlib.h>

static void *walk(void *number)
{
	long count = 1000 * ((long)number + 1);
	volatile long *array = malloc(count * sizeof(long));

	for (long i = 0; i < count; i++)
		array[i] = i;
	free((void *)array);
	return NULL;
}

int main(void)
{
	for (long first = 0; first < 40; first += 4) {
		pthread_t threads[4];

		for (long i = 0; i < 4; i++)
			if (pthread_create(&threads[i], NULL, walk, (void *)(first + i)))
				return 1;
		for (long i = 0; i < 4; i++)
			if (pthread_join(threads[i], NULL))
				return 1;
	}
	return 0;
}
