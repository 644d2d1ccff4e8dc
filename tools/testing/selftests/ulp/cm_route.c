// SPDX-License-Identifier: GPL-2.0
/*
 * How the resolution of a route ends on InfiniBand, by what the subnet administrator of fake_ib answers: commands of
 * /dev/infiniband/rdma_cm, with addresses of the family AF_IB, from one port of a device to its other one.
 *
 *   cm_route COMMANDS GID		the file of fake_ib for its commands, and the GID to resolve, as sysfs shows it
 */
#include "verbs.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/ib.h>
#include <rdma/rdma_user_cm.h>

/* Types of events (enum rdma_cm_event_type of librdmacm). */
enum { ADDR_RESOLVED, ADDR_ERROR, ROUTE_RESOLVED, ROUTE_ERROR };
/* An identifier has events once it has this. */
enum { UID = 77 };

static int file;
static const char *commands;
static union ibv_gid target;

/* Writes a command; an errno value. */
static int command(uint32_t number, void *in, uint16_t in_size, uint16_t out_size)
{
	struct { struct rdma_ucm_cmd_hdr head; char body[512]; } request = { { number, in_size, out_size } };

	memcpy(request.body, in, in_size);
	return write(file, &request, sizeof(request.head) + in_size) < 0 ? errno : 0;
}

/* The subnet does something else from now on. */
static void subnet(const char *what)
{
	int fd = open(commands, O_WRONLY);

	if (fd < 0 || write(fd, what, strlen(what)) != (ssize_t)strlen(what))
		die(what);
	close(fd);
}

/* The next event is of this type, and has this status. */
static void comes(const char *name, uint32_t type, int status)
{
	struct rdma_ucm_event_resp event = { 0 };
	struct rdma_ucm_get_event get = { .response = (uintptr_t)&event };
	struct pollfd fd = { .fd = file, .events = POLLIN };
	int error = poll(&fd, 1, 20000) == 1 ? command(RDMA_USER_CM_CMD_GET_EVENT, &get, sizeof(get), sizeof(event)) : ETIMEDOUT;
	char why[80];

	snprintf(why, sizeof(why), "%s, event %u with status %d", strerror(error), event.event, (int)event.status);
	verdict(name, !error && event.event == type && (int)event.status == status && event.uid == UID, false, why);
}

/* An identifier whose address is resolved. */
static uint32_t resolved(void)
{
	struct rdma_ucm_create_id_resp made;
	struct rdma_ucm_create_id create = { .uid = UID, .response = (uintptr_t)&made, .ps = RDMA_PS_IB, .qp_type = IBV_QPT_RC };
	struct rdma_ucm_resolve_addr resolve = { .timeout_ms = 2000, .dst_size = sizeof(struct sockaddr_ib) };
	struct sockaddr_ib to = { .sib_family = AF_IB, .sib_pkey = htons(0xffff), .sib_sid = htobe64(0x13f0000 | 7), .sib_sid_mask = ~0ull };

	memcpy(&to.sib_addr, &target, sizeof(target));
	memcpy(&resolve.dst_addr, &to, sizeof(to));
	if (command(RDMA_USER_CM_CMD_CREATE_ID, &create, sizeof(create), sizeof(made)))
		die("CREATE_ID");
	resolve.id = made.id;
	if (command(RDMA_USER_CM_CMD_RESOLVE_ADDR, &resolve, sizeof(resolve), 0))
		die("RESOLVE_ADDR");
	comes("the address is resolved", ADDR_RESOLVED, 0);
	return made.id;
}

static void ask(uint32_t id, uint32_t ms)
{
	struct rdma_ucm_resolve_route route = { .id = id, .timeout_ms = ms };

	if (command(RDMA_USER_CM_CMD_RESOLVE_ROUTE, &route, sizeof(route), 0))
		die("RESOLVE_ROUTE");
}

static void forget(uint32_t id, const char *name, uint32_t events)
{
	struct rdma_ucm_destroy_id_resp gone = { 0 };
	struct rdma_ucm_destroy_id destroy = { .id = id, .response = (uintptr_t)&gone };

	verdict(name, !command(RDMA_USER_CM_CMD_DESTROY_ID, &destroy, sizeof(destroy), sizeof(gone)) && gone.events_reported == events, false, "not so");
}

int main(int argc, char **argv)
{
	uint32_t id;

	if (argc < 3 || inet_pton(AF_INET6, argv[2], &target) != 1)
		die("usage: COMMANDS GID");
	commands = argv[1];
	file = open("/dev/infiniband/rdma_cm", O_RDWR);
	if (file < 0)
		die("/dev/infiniband/rdma_cm");

	id = resolved();
	ask(id, 2000);
	comes("the administrator knows a route", ROUTE_RESOLVED, 0);
	forget(id, "two events were taken", 2);

	id = resolved();
	subnet("sastatus 0x300");
	ask(id, 2000);
	comes("it has no record of one: ROUTE_ERROR", ROUTE_ERROR, -EINVAL);
	subnet("sastatus 0");
	ask(id, 2000);
	comes("the same identifier, when it has one", ROUTE_RESOLVED, 0);
	forget(id, "three events were taken", 3);

	id = resolved();
	subnet("sa 0");
	ask(id, 500);
	comes("it does not answer: ROUTE_ERROR", ROUTE_ERROR, -ETIMEDOUT);
	forget(id, "two were taken again", 2);
	/* It goes while it asks. */
	id = resolved();
	ask(id, 60000);
	forget(id, "an identifier that waits for its route can go", 1);
	subnet("sa 1");
	id = resolved();
	ask(id, 2000);
	comes("it answers again", ROUTE_RESOLVED, 0);
	close(file);
	return all_done();
}
