/* Multiplies two square matrices by the definition: each element is a row times a column.
 *
 * matmult [SIDE]: the second matrix turns the columns of the first around, so that the result is known. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	size_t side = argc > 1 ? strtoul(argv[1], 0, 10) : 128;
	if (side < 1)
		return 2;
	double *a = malloc(side * side * sizeof *a), *b = calloc(side * side, sizeof *b), *c = malloc(side * side * sizeof *c);
	if (!a || !b || !c)
		return 2;
	for (size_t at = 0; at < side * side; at++)
		a[at] = at % 1009;
	for (size_t row = 0; row < side; row++)
		b[row * side + side - 1 - row] = 1;
	for (size_t row = 0; row < side; row++)
		for (size_t column = 0; column < side; column++) {
			double sum = 0;
			for (size_t k = 0; k < side; k++)
				sum += a[row * side + k] * b[k * side + column];
			c[row * side + column] = sum;
		}
	for (size_t row = 0; row < side; row++)
		for (size_t column = 0; column < side; column++)
			if (c[row * side + column] != a[row * side + side - 1 - column])
				return 1;
	puts("as defined");
	return 0;
}
