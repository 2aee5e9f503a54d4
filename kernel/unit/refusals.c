// SPDX-License-Identifier: GPL-2.0-only
/*
 * refusals: each text is refused on its line with its reason, and the text that
 * they are made from is accepted.
 */
#include "read.h"

#define HEAD "memtint-map 1\ngranule 4096\n"
#define BANKS "bank 0x22000\nbank 0x44000\n"

struct refusal {
	const char *text;
	unsigned int line;
	const char *reason;	/* a part of it */
};

static const struct refusal refusals[] = {
	{ "", 1, "line feed" },
	{ HEAD "region 0x0-0x800000 node 0\n" BANKS "end", 1, "line feed" },
	{ "memtint-map 2\n", 1, "memtint-map 1" },
	{ " memtint-map 1\n", 1, "memtint-map 1" },
	{ "memtint-map 1\nregion 0x0-0x800000 node 0\n", 2, "granule" },
	{ "memtint-map 1\ngranule 0x1000\n", 2, "granule" },
	{ "memtint-map 1\ngranule 2048\n", 2, "power of two" },
	{ "memtint-map 1\ngranule 12288\n", 2, "power of two" },
	{ "memtint-map 1\ngranule 8388608\n", 2, "power of two" },
	{ HEAD "end\n", 3, "at least one region" },
	{ HEAD "region 0x0-0x800000 node 0\n" BANKS "end\nend\n", 7, "nothing follows" },
	{ HEAD "region 0x0-0x800000 node 0\n" BANKS, 6, "in this order" },
	{ HEAD "region 0x0-0x800000 node 0\n" BANKS "offset 0x400000\nend\n", 6, "in this order" },
	{ HEAD "region 0x0-0x800000 node 0\n# bank\n" BANKS "end\n", 4, "in this order" },
	{ HEAD "region 0x0-0x800000\n" BANKS "end\n", 3, "region 0xFIRST-0xEND node N" },
	{ HEAD "region 0-0x800000 node 0\n" BANKS "end\n", 3, "region 0xFIRST-0xEND node N" },
	{ HEAD "region 0x0-0x80000A node 0\n" BANKS "end\n", 3, "region 0xFIRST-0xEND node N" },
	{ HEAD "region 0x0-0x0800000 node 0\n" BANKS "end\n", 3, "region 0xFIRST-0xEND node N" },
	{ HEAD "region 0x0-0x10000000000000 node 0\n" BANKS "end\n", 3, "region 0xFIRST-0xEND node N" },
	{ HEAD "region 0x0-0x800000 node -1\n" BANKS "end\n", 3, "region 0xFIRST-0xEND node N" },
	{ HEAD "region 0x0-0x800000 node 0 \n" BANKS "end\n", 3, "region 0xFIRST-0xEND node N" },
	{ HEAD "region 0x0-0x800800 node 0\n" BANKS "end\n", 3, "at a page" },
	{ HEAD "region 0x800000-0x800000 node 0\n" BANKS "end\n", 3, "after it starts" },
	{ HEAD "region 0x0-0x800000 node 1024\n" BANKS "end\n", 3, "below 1024" },
	{ HEAD "region 0x0-0x800000 node 0\n" BANKS "region 0x400000-0xc00000 node 1\n" BANKS "end\n", 6, "overlap" },
	{ HEAD "region 0x800000-0xc00000 node 0\n" BANKS "region 0x0-0x400000 node 0\n" BANKS "end\n", 6, "ascend" },
	{ HEAD "region 0x800000-0xc00000 node 0\noffset 0x1000\n" BANKS "end\n", 4, "largest free block" },
	{ HEAD "region 0x800000-0xc00000 node 0\noffset 0x400800\n" BANKS "end\n", 4, "page size" },
	{ HEAD "region 0x800000-0xc00000 node 0\noffset 0xc00000\n" BANKS "end\n", 4, "first address" },
	{ HEAD "region 0x800000-0xc00000 node 0\noffset 4194304\n" BANKS "end\n", 4, "0x..." },
	{ HEAD "region 0x800000-0xc00000 node 0\noffset 0x0\n" BANKS "end\n", 4, "0x..." },
	{ HEAD "region 0x800000-0xc00000 node 0\noffset -0x0\n" BANKS "end\n", 4, "0x..." },
	{ HEAD "region 0x800000-0xc00000 node 0\noffset -0xfffffffc00000\n" BANKS "end\n", 4, "2^52" },
	{ HEAD "region 0x0-0x400000 node 0\n" BANKS "region 0x800000-0xc00000 node 0\noffset 0x800000\n" BANKS "end\n",
	  6, "same DRAM" },
	{ HEAD "region 0x0-0x800000 node 0\nbank 0x0\nend\n", 4, "not zero" },
	{ HEAD "region 0x0-0x800000 node 0\nbank 22000\nend\n", 4, "one mask" },
	{ HEAD "region 0x0-0x800000 node 0\nbank 0x22000 \nend\n", 4, "the line ends" },
	{ HEAD "region 0x0-0x800000 node 0\n" BANKS "bank 0x66000\nend\n", 6, "XOR of earlier" },
	{ HEAD "region 0x0-0x800000 node 0\n" BANKS "set 0x1000\nset 0x1000\nend\n", 7, "XOR of earlier" },
	{ HEAD "region 0x0-0x800000 node 0\n" BANKS "region 0x800000-0xc00000 node 1\nbank 0x22000\nend\n", 8,
	  "fewer functions" },
	{ HEAD "region 0x0-0x800000 node 0\n" BANKS "region 0x800000-0xc00000 node 1\n" BANKS "bank 0x88000\nend\n", 9,
	  "all regions have the same" },
	{ HEAD "region 0x0-0x800000 node 0\n" BANKS "region 0x800000-0xc00000 node 1\nbank 0x22000\nbank 0x4000\nend\n",
	  8, "all regions have the same" },
	{ HEAD "region 0x0-0x800000 node 0\nend\n", 4, "cannot isolate" },
	/* Each page has every value of these functions. */
	{ HEAD "region 0x0-0x800000 node 0\nbank 0x2040\nbank 0x4080\nend\n", 6, "cannot isolate" },
	{ HEAD "region 0x0-0x800000 node 0\nset 0x1000\nset 0x2000\nset 0x4000\nset 0x8000\nset 0x10000\nset 0x20000\n"
	  "set 0x40000\nset 0x80000\nset 0x100000\nset 0x200000\nset 0x400000\nend\n", 15, "1024 colors" },
};

static void check(const struct refusal *refusal)
{
	static struct memtint_map map;
	struct memtint_fault fault = { 0 };

	if (!memtint_map_parse(&map, refusal->text, strlen(refusal->text), &geometry, &fault))
		errx(1, "accepted:\n%s", refusal->text);
	if (fault.line != refusal->line || !strstr(fault.reason, refusal->reason))
		errx(1, "line %u: %s, instead of line %u: %s, for:\n%s", fault.line, fault.reason, refusal->line,
		     refusal->reason, refusal->text);
}

int main(void)
{
	static const char accepted[] = HEAD "region 0x0-0x800000 node 0\n" BANKS
		"region 0x1000000-0x1400000 node 3\noffset 0x400000\n" BANKS
		"region 0x1400000-0x1800000 node 3\noffset -0x400000\n" BANKS "end\n";
	static struct memtint_map map;
	struct memtint_fault fault;

	if (memtint_map_parse(&map, accepted, sizeof(accepted) - 1, &geometry, &fault))
		errx(1, "line %u: %s", fault.line, fault.reason);
	for (unsigned int i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		check(&refusals[i]);
	return 0;
}
