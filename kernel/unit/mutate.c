// SPDX-License-Identifier: GPL-2.0-only
/*
 * mutate SEED COUNT MAPPING...: feeds COUNT mutations of the mappings to the fuzz
 * target, for machines without LLVM's fuzzer. Equal arguments give equal input.
 * Prints how many of them were accepted and refused.
 */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "color.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ROOM (MEMTINT_TEXT_MAX + 4096)

struct text {
	char bytes[ROOM];
	size_t length;
};

static const char *const words[] = {
	"0", "1", "f", "0x", "-", " ", "\n", "node", "region ", "offset 0x400000\n", "offset -0x400000\n", "bank ",
	"set ", "bank 0x1000\n", "set 0x2000\n", "end\n", "granule ", "4096", "2097152", "18446744073709551616",
	"fffffffffffff", "10000000000000", "node 1023\n", "node 1024\n", "region 0x0-0x1000 node 0\n", "A", "\t", "\r",
};

static uint64_t state;

static uint64_t random_below(uint64_t limit)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 0x2545f4914f6cdd1d >> 16) % limit;
}

/* Replaces `length` bytes by others, as far as there is room. */
static void replace(struct text *text, size_t at, size_t length, const char *by, size_t size)
{
	if (text->length - length + size > ROOM)
		return;
	memmove(text->bytes + at + size, text->bytes + at + length, text->length - at - length);
	memcpy(text->bytes + at, by, size);
	text->length += size - length;
}

static size_t line_start(const struct text *text, size_t at)
{
	while (at && text->bytes[at - 1] != '\n')
		at--;
	return at;
}

static size_t line_length(const struct text *text, size_t start)
{
	const char *end = memchr(text->bytes + start, '\n', text->length - start);

	return end ? (size_t)(end - text->bytes) + 1 - start : text->length - start;
}

static void mutate_once(struct text *text)
{
	size_t at = random_below(text->length + 1);
	size_t length = random_below(12);
	size_t start = line_start(text, at);
	char line[256];

	if (length > text->length - at)
		length = text->length - at;
	size_t whole = line_length(text, start);

	switch (random_below(7)) {
	case 0:
		replace(text, at, length, "", 0);
		return;
	case 1:
		replace(text, start, whole, "", 0);
		return;
	case 2:
		/* A line twice, or moved. */
		if (whole > sizeof(line))
			return;
		memcpy(line, text->bytes + start, whole);
		if (random_below(2))
			replace(text, start, whole, "", 0);
		start = line_start(text, random_below(text->length + 1));
		replace(text, start, 0, line, whole);
		return;
	case 3:
		if (at < text->length)
			text->bytes[at] = random_below(256);
		return;
	case 4:
		if (at < text->length && strchr("0123456789abcdef", text->bytes[at]))
			text->bytes[at] = "0123456789abcdef"[random_below(16)];
		return;
	default: {
		const char *word = words[random_below(sizeof(words) / sizeof(words[0]))];

		replace(text, at, random_below(2) ? length : 0, word, strlen(word));
	}
	}
}

int main(int argc, char **argv)
{
	static struct text texts[256], text;
	static struct memtint_map map;
	const struct memtint_geometry geometry = { .page_shift = 12, .max_order = 10 };
	struct memtint_fault fault;
	unsigned long accepted = 0, count;
	int mappings = argc - 3;

	if (mappings < 1 || mappings > 256)
		errx(2, "usage: mutate SEED COUNT MAPPING...");
	state = strtoull(argv[1], NULL, 0) | 1;
	count = strtoul(argv[2], NULL, 0);
	for (int i = 0; i < mappings; i++) {
		FILE *file = fopen(argv[3 + i], "r");

		if (!file)
			err(2, "%s", argv[3 + i]);
		texts[i].length = fread(texts[i].bytes, 1, MEMTINT_TEXT_MAX, file);
		fclose(file);
	}
	for (unsigned long number = 0; number < count; number++) {
		const struct text *from = &texts[random_below(mappings)];

		memcpy(text.bytes, from->bytes, from->length);
		text.length = from->length;
		for (unsigned long changes = random_below(4); changes; changes--)
			mutate_once(&text);
		LLVMFuzzerTestOneInput((const uint8_t *)text.bytes, text.length);
		accepted += !memtint_map_parse(&map, text.bytes, text.length, &geometry, &fault);
	}
	printf("%lu accepted %lu refused\n", accepted, count - accepted);
	return 0;
}
