/* Statistics of two series: sums, means, variances, standard deviations, and the coefficient of correlation.
 *
 * st [NUMBERS]: the second series is the first, halved and turned over, so that they are correlated with -1. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Newton's method. */
static double root(double square)
{
	double guess = square > 1 ? square : 1;
	for (int step = 0; step < 60; step++)
		guess = (guess + square / guess) / 2;
	return guess;
}

static double mean(const double *series, size_t count)
{
	double sum = 0;
	for (size_t at = 0; at < count; at++)
		sum += series[at];
	return sum / count;
}

static double variance(const double *series, size_t count, double mean)
{
	double sum = 0;
	for (size_t at = 0; at < count; at++)
		sum += (series[at] - mean) * (series[at] - mean);
	return sum / count;
}

int main(int argc, char **argv)
{
	size_t count = argc > 1 ? strtoul(argv[1], 0, 10) : 100000;
	if (count < 2)
		return 2;
	double *a = malloc(count * sizeof *a), *b = malloc(count * sizeof *b);
	if (!a || !b)
		return 2;
	uint32_t state = 1;
	for (size_t at = 0; at < count; at++) {
		state = state * 1664525u + 1013904223u;
		a[at] = (state >> 16) / 65536.0;
		b[at] = 3 - a[at] / 2;
	}
	double mean_a = mean(a, count), mean_b = mean(b, count);
	double deviation_a = root(variance(a, count, mean_a)), deviation_b = root(variance(b, count, mean_b));
	double together = 0;
	for (size_t at = 0; at < count; at++)
		together += (a[at] - mean_a) * (b[at] - mean_b);
	double correlation = together / count / (deviation_a * deviation_b);
	printf("correlation %.6f\n", correlation);
	return correlation < -0.999999 && correlation > -1.000001 ? 0 : 1;
}
