/* A child writes 100000 words and ends with 7; the parent writes 1000 before and ends as its child did. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void walk(long count)
{
	volatile long *array = malloc(count * sizeof(long));

	for (long i = 0; i < count; i++)
		array[i] = i;
}

int main(void)
{
	int status;

	walk(1000);
	if (fork() == 0) {
		walk(100000);
		_exit(7);
	}
	wait(&status);
	return WEXITSTATUS(status);
}
