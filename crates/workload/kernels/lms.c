/* An adaptive filter that learns by least mean squares (Widrow and Hoff, 1960): it predicts a tone in noise.
 *
 * lms [SAMPLES [TAPS]]: y = w.x, e = d - y, w += 2 mu e x. Prints whether the error has become smaller. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t state = 1;

/* Noise in -1 to 1. */
static double noise(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (double)(int64_t)state / 9223372036854775808.0;
}

int main(int argc, char **argv)
{
	size_t samples = argc > 1 ? strtoul(argv[1], 0, 10) : 20000;
	size_t taps = argc > 2 ? strtoul(argv[2], 0, 10) : 64;
	if (taps < 1 || samples < 4 * taps)
		return 2;
	double *x = malloc(samples * sizeof *x), *w = calloc(taps, sizeof *w);
	if (!x || !w)
		return 2;
	/* A tone without a library: s[n] = 2 cos(f) s[n-1] - s[n-2]. */
	double older = 0, old = 0.5;
	for (size_t n = 0; n < samples; n++) {
		double tone = 1.6 * old - older;
		older = old;
		old = tone;
		x[n] = tone + 0.1 * noise();
	}
	double mu = 0.1 / taps, before = 0, after = 0;
	for (size_t n = taps; n < samples; n++) {
		double y = 0;
		for (size_t k = 0; k < taps; k++)
			y += w[k] * x[n - 1 - k];
		double e = x[n] - y;
		for (size_t k = 0; k < taps; k++)
			w[k] += 2 * mu * e * x[n - 1 - k];
		if (n < 2 * taps)
			before += e * e;
		if (n >= samples - taps)
			after += e * e;
	}
	puts(after < before ? "learnt" : "not learnt");
	return after < before ? 0 : 1;
}
