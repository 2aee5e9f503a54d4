// SPDX-License-Identifier: GPL-2.0-only
#include "mapping.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t values_at(const struct functions *functions, uint64_t address)
{
	uint64_t values = 0;

	for (unsigned int i = 0; i < functions->count; i++)
		values |= (uint64_t)__builtin_parityll(address & functions->mask[i]) << i;
	return values;
}

static void number_cosets(struct functions *functions, uint64_t granule)
{
	uint32_t vectors = 1U << functions->count;
	uint32_t *queue = calloc(vectors, sizeof(*queue));

	functions->coset = malloc(vectors * sizeof(*functions->coset));
	if (!queue || !functions->coset)
		err(2, "cosets");
	memset(functions->coset, 0xff, vectors * sizeof(*functions->coset));
	for (uint32_t smallest = 0; smallest < vectors; smallest++) {
		uint32_t queued = 0;

		if (functions->coset[smallest] != UINT32_MAX)
			continue;
		queue[queued++] = smallest;
		functions->coset[smallest] = functions->cosets;
		for (uint32_t next = 0; next < queued; next++) {
			for (uint64_t inside = 1; inside < granule; inside <<= 1) {
				uint32_t neighbour = queue[next] ^ values_at(functions, inside);

				if (functions->coset[neighbour] != UINT32_MAX)
					continue;
				functions->coset[neighbour] = functions->cosets;
				queue[queued++] = neighbour;
			}
		}
		functions->cosets++;
	}
	free(queue);
}

static void add_function(struct functions *functions, uint64_t mask, const char *path)
{
	if (functions->count == sizeof(functions->mask) / sizeof(functions->mask[0]))
		errx(2, "%s: too many functions", path);
	functions->mask[functions->count++] = mask;
}

struct mapping mapping_read(const char *path)
{
	struct mapping mapping = { 0 };
	char line[256], sign[2];
	bool ended = false;
	FILE *file = fopen(path, "r");

	if (!file || !fgets(line, sizeof(line), file) || strcmp(line, "memtint-map 1\n"))
		err(2, "%s is no mapping", path);
	while (fgets(line, sizeof(line), file)) {
		struct region *region = mapping.regions ? &mapping.region[mapping.regions - 1] : NULL;
		uint64_t a, b;
		unsigned int node;

		if (sscanf(line, "granule %lu", &a) == 1) {
			mapping.granule = a;
		} else if (sscanf(line, "region 0x%lx-0x%lx node %u", &a, &b, &node) == 3) {
			if (mapping.regions == sizeof(mapping.region) / sizeof(mapping.region[0]))
				errx(2, "%s: too many regions", path);
			mapping.region[mapping.regions++] = (struct region){ a, b, 0, node };
		} else if (region && sscanf(line, "offset 0x%lx", &a) == 1) {
			region->offset = a;
		} else if (region && sscanf(line, "offset %1[-]0x%lx", sign, &a) == 2) {
			region->offset = -a;
		} else if (sscanf(line, "bank 0x%lx", &a) == 1) {
			/* Every region repeats the functions of the first. */
			if (mapping.regions == 1)
				add_function(&mapping.bank, a, path);
		} else if (sscanf(line, "set 0x%lx", &a) == 1) {
			if (mapping.regions == 1)
				add_function(&mapping.set, a, path);
		} else if (!strcmp(line, "end\n")) {
			ended = true;
		} else {
			errx(2, "%s: %s", path, line);
		}
	}
	if (!ended || mapping.granule < PAGE_BYTES)
		errx(2, "%s ends too early", path);
	fclose(file);
	number_cosets(&mapping.bank, mapping.granule);
	number_cosets(&mapping.set, mapping.granule);
	return mapping;
}

/* Counts the nodes of the mapping that are below this one. */
static unsigned int nodes_below(const struct mapping *mapping, unsigned int node)
{
	unsigned int below = 0;

	for (unsigned int other = 0; other < node; other++) {
		bool found = false;

		for (unsigned int i = 0; i < mapping->regions; i++)
			found |= mapping->region[i].node == other;
		below += found;
	}
	return below;
}

uint32_t mapping_classes(const struct mapping *mapping)
{
	unsigned int nodes = 0;

	for (unsigned int i = 0; i < mapping->regions; i++) {
		unsigned int below = nodes_below(mapping, mapping->region[i].node);

		nodes = below >= nodes ? below + 1 : nodes;
	}
	return nodes * mapping->bank.cosets;
}

bool mapping_color(const struct mapping *mapping, uint64_t pfn, struct color *color)
{
	uint64_t address = pfn << PAGE_SHIFT;

	for (unsigned int i = 0; i < mapping->regions; i++) {
		const struct region *region = &mapping->region[i];

		if (address < region->first || address >= region->end)
			continue;
		color->node = region->node;
		color->bank_class = nodes_below(mapping, region->node) * mapping->bank.cosets +
			mapping->bank.coset[values_at(&mapping->bank, address - region->offset)];
		color->set_color = mapping->set.coset[values_at(&mapping->set, address)];
		return true;
	}
	return false;
}
