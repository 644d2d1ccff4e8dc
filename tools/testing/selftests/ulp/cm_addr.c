// SPDX-License-Identifier: GPL-2.0
/*
 * The hardware address of a bond changes under identifiers that have it: they are told so.
 *
 *   cm_addr ADDRESS COMMAND		the command lets the bond fail over
 */
#define _GNU_SOURCE
#include "cm.h"
#include <arpa/inet.h>

int main(int argc, char **argv)
{
	struct sockaddr_in here = { .sin_family = AF_INET };
	struct rdma_cm_id *bound, *elsewhere;
	struct rdma_cm_event *event;

	if (argc < 3 || inet_pton(AF_INET, argv[1], &here.sin_addr) != 1)
		die("usage: ADDRESS COMMAND");
	clients = rdma_create_event_channel();
	servers = rdma_create_event_channel();
	if (!clients || !servers)
		die("rdma_create_event_channel");
	bound = new_id(clients, RDMA_PS_TCP);
	elsewhere = new_id(servers, RDMA_PS_TCP);
	is("an identifier on the bond", !rdma_bind_addr(bound, (struct sockaddr *)&here) && bound->verbs);
	is("no event before", !next(clients, 300));
	is("the bond fails over", !system(argv[2]));
	event = next(clients, 10000);
	is("ADDR_CHANGE", event && event->event == RDMA_CM_EVENT_ADDR_CHANGE && event->id == bound && !event->status);
	if (event)
		rdma_ack_cm_event(event);
	is("not of an identifier without the address", !next(servers, 300));
	is("both can be destroyed", !rdma_destroy_id(bound) && !rdma_destroy_id(elsewhere));
	return all_done();
}
