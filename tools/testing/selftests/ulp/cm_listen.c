// SPDX-License-Identifier: GPL-2.0
/*
 * rdma_listen, on a host with two devices: a listener on the wildcard address gets requests through each of them, and through one
 * that is added later; as many requests wait as the backlog says, and another one is accepted only when one of these is taken.
 *
 *   cm_listen ADDRESS OF_DEVICE...		(an address, and its device; the last device comes when its address is asked for)
 */
#define _GNU_SOURCE
#include "cm.h"
#include <arpa/inet.h>

#define PORT 7600
#define BACKLOG 2
#define ASKING 5

static struct sockaddr_in at(const char *address)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(PORT) };

	inet_pton(AF_INET, address, &in.sin_addr);
	return in;
}

static void drop(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

/* A client that asks at an address. */
static struct rdma_cm_id *asks(const char *address)
{
	struct sockaddr_in to = at(address);
	struct rdma_cm_id *id = new_id(clients, RDMA_PS_TCP);

	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000) || !comes(clients, RDMA_CM_EVENT_ADDR_RESOLVED) ||
	    rdma_resolve_route(id, 2000) || !comes(clients, RDMA_CM_EVENT_ROUTE_RESOLVED) || !give_qp(id) || rdma_connect(id, NULL))
		die("ask at an address");
	return id;
}

static struct rdma_cm_id *listener(struct rdma_event_channel *channel, const char *address, int backlog)
{
	struct sockaddr_in here = at(address);
	struct rdma_cm_id *id = new_id(channel, RDMA_PS_TCP);

	if (rdma_bind_addr(id, (struct sockaddr *)&here) || rdma_listen(id, backlog))
		die("rdma_listen");
	return id;
}

static void drop_events(void)
{
	struct rdma_cm_event *event;

	while ((event = next(servers, 0)) || (event = next(clients, 0)))
		rdma_ack_cm_event(event);
}

/* A connection to an address, whose server comes through the device that has it. */
static bool comes_through(const char *address, const char *device)
{
	struct rdma_cm_id *client = asks(address);
	struct rdma_cm_event *event = next(servers, 5000);
	struct rdma_cm_id *server = event && event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->id : NULL;
	const char *got = server && server->verbs ? ibv_get_device_name(server->verbs->device) : "nothing";
	bool good = !strcmp(got, device);

	printf("%s: through %s\n", address, got);
	if (event)
		rdma_ack_cm_event(event);
	good = good && give_qp(server) && !rdma_accept(server, NULL) && comes(clients, RDMA_CM_EVENT_ESTABLISHED);
	drop(client);
	if (server)
		drop(server);
	drop_events();
	return good;
}

static void wildcard(int count, char **pairs)
{
	struct rdma_cm_id *listening = listener(servers, "0.0.0.0", 4);
	char command[200];

	is("who listens at the wildcard has no device", !listening->verbs);
	for (int i = 0; i + 2 < count; i += 2)
		is(i ? "and by the other" : "it is asked by one device", comes_through(pairs[i], pairs[i + 1]));
	snprintf(command, sizeof(command), "rdma link add %s type rxe netdev $(ip -o addr show to %s | awk '{ print $2 }')", pairs[count - 1],
		 pairs[count - 2]);
	is("a device comes later", !system(command) && !usleep(500000));
	is("and it is asked by that, too", comes_through(pairs[count - 2], pairs[count - 1]));
	rdma_destroy_id(listening);
}

/* Takes so many requests as there are within a time (milliseconds), and rejects them. */
static int taken(struct rdma_event_channel *channel, int most, int ms)
{
	struct rdma_cm_event *event;
	int count = 0;

	while (count < most && (event = next(channel, ms))) {
		count += event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
		rdma_reject(event->id, NULL, 0);
		rdma_destroy_id(event->id);
		rdma_ack_cm_event(event);
	}
	return count;
}

static int rejected(int most, int ms)
{
	struct rdma_cm_event *event;
	int count = 0;

	while (count < most && (event = next(clients, ms))) {
		count += event->event == RDMA_CM_EVENT_REJECTED;
		rdma_ack_cm_event(event);
	}
	return count;
}

/* A request that finds no room is not answered; its sender asks again after some seconds. */
static void backlog(const char *address)
{
	struct rdma_event_channel *deaf = rdma_create_event_channel();
	struct rdma_cm_id *listening = listener(deaf, address, BACKLOG), *ids[ASKING];
	int first, later;

	for (int i = 0; i < ASKING; i++)
		ids[i] = asks(address);
	is("nobody is answered while nobody takes a request", !next(clients, 1000));
	first = taken(deaf, ASKING, 200);
	is("as many requests wait as the backlog says", first == BACKLOG);
	is("their senders are told", rejected(first, 2000) == first);
	later = taken(deaf, BACKLOG, 15000);
	is("and as many of the others, when they ask again", later == BACKLOG);
	is("whose senders are told, too", rejected(later, 2000) == later);
	for (int i = 0; i < ASKING; i++)
		drop(ids[i]);
	drop_events();
	rdma_destroy_id(listening);
	rdma_destroy_event_channel(deaf);
}

int main(int argc, char **argv)
{
	if (argc < 5 || argc % 2 == 0)
		die("usage: ADDRESS DEVICE ADDRESS DEVICE...");
	clients = rdma_create_event_channel();
	servers = rdma_create_event_channel();
	if (!clients || !servers)
		die("rdma_create_event_channel");
	wildcard(argc - 1, argv + 1);
	backlog(argv[1]);
	return all_done();
}
