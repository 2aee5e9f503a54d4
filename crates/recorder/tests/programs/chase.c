/* Links 1000 nodes of 64 bytes to a ring and follows it ten times. */
#include <stdlib.h>

struct node {
	struct node *next;
	char rest[56];
};

#define NODES 1000

int main(void)
{
	struct node *nodes = aligned_alloc(64, NODES * sizeof(*nodes));
	struct node *volatile end;
	struct node *node;

	for (int i = 0; i < NODES; i++)
		nodes[i].next = &nodes[(i + 7) % NODES];
	node = nodes;
	for (int i = 0; i < 10 * NODES; i++) {
		node = node->next;
		__asm__ volatile("" : "+r"(node));
	}
	end = node;
	return end == nodes ? 0 : 1;
}
