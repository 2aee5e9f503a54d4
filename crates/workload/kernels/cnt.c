/* Counts and adds up the positive numbers of a matrix, and the others.
 *
 * cnt [SIDE [ROUNDS]]: numbers at random. Prints the two counts of the last round. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	size_t side = argc > 1 ? strtoul(argv[1], 0, 10) : 400;
	unsigned long rounds = argc > 2 ? strtoul(argv[2], 0, 10) : 2;
	if (side < 1 || rounds < 1)
		return 2;
	int32_t *matrix = malloc(side * side * sizeof *matrix);
	if (!matrix)
		return 2;
	uint32_t state = 1;
	size_t positive = 0, others = 0;
	int64_t positive_sum = 0, other_sum = 0, sum = 0;
	for (unsigned long round = 0; round < rounds; round++) {
		sum = 0;
		for (size_t at = 0; at < side * side; at++) {
			state = state * 1664525u + 1013904223u;
			matrix[at] = (int32_t)(state >> 16) - 32768;
			sum += matrix[at];
		}
		positive = others = 0;
		positive_sum = other_sum = 0;
		for (size_t row = 0; row < side; row++)
			for (size_t column = 0; column < side; column++) {
				int32_t value = matrix[row * side + column];
				if (value > 0) {
					positive++;
					positive_sum += value;
				} else {
					others++;
					other_sum += value;
				}
			}
	}
	printf("%zu positive, %zu others\n", positive, others);
	return positive + others == side * side && positive_sum + other_sum == sum ? 0 : 1;
}
