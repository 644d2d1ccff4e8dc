// SPDX-License-Identifier: GPL-2.0
/*
 * Commands of /dev/infiniband/rdma_cm in which each allocation of the kernel fails in turn (faults.h).
 *
 *	faults_ucm ADDRESS
 */
#include "faults.h"
#include "ucm.h"

#define PORT 7900

static int fd, other;
static uint32_t id, listening, asked, group;
static char answer[4096];
static uint8_t option = 1;

static int gone(void) { return ucm_destroy(fd, id, NULL); }
static void undo_gone(void) { gone(); }
/* What the identifier was told of stays in the file until it goes; others' events are not there. */
static int create_tcp(void) { return ucm_create(fd, RDMA_PS_TCP, 7, &id); }
static int create_udp(void) { return ucm_create(fd, RDMA_PS_UDP, 7, &id); }
static int bound(void) { return create_tcp() ?: ucm_bind(fd, id, 0); }
static int bound_udp(void) { return create_udp() ?: ucm_bind(fd, id, 0); }
static int bind_(void) { return ucm_bind(fd, id, 0); }
static int listen_(void) { return ucm_listen(fd, id, 4); }

static int resolve_addr(void) { return ucm_resolve_addr(fd, id, PORT); }
static int resolve_route(void) { return ucm_resolve_route(fd, id); }
static int resolved(void) { return create_tcp() ?: resolve_addr() ?: ucm_told(fd, ADDR_RESOLVED, 5000) ? 0 : EIO; }
static int with_route(void) { return resolved() ?: resolve_route() ?: ucm_told(fd, ROUTE_RESOLVED, 5000) ? 0 : EIO; }

static int listener(void)
{
	return ucm_create(other, RDMA_PS_TCP, 8, &listening) ?: ucm_bind(other, listening, PORT) ?: ucm_listen(other, listening, 8);
}
static int connect_(void) { return ucm_connect(fd, id, "data"); }
static int asked_for(void)
{
	struct rdma_ucm_event_resp event;

	if (with_route() || connect_() || ucm_event(other, &event, 5000) || event.event != CONNECT_REQUEST)
		return EIO;
	asked = event.id;
	return 0;
}
static int accept_(void) { return ucm_accept(other, asked, 9, "data", true); }
static int reject_(void)
{
	struct rdma_ucm_reject reject = { .id = asked };

	return ucm(other, RDMA_USER_CM_CMD_REJECT, &reject, sizeof(reject), 0);
}
/* Whoever was asked, and who has asked. */
static void both_gone(void)
{
	ucm_destroy(other, asked, NULL);
	gone();
}
/* A request that came about is not read: it goes with who listens. */
static void client_gone(void)
{
	struct rdma_ucm_event_resp event;

	gone();
	while (!ucm_event(other, &event, 200))
		if (event.event == CONNECT_REQUEST)
			ucm_destroy(other, event.id, NULL);
}

static int query(uint32_t number, uint32_t kind)
{
	struct rdma_ucm_query query = { .id = id, .option = kind, .response = (uintptr_t)answer };

	return ucm(fd, number, &query, sizeof(query), 1024);
}
static int query_addr(void) { return query(RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_ADDR); }
static int query_path(void) { return query(RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_PATH); }
static int query_gid(void) { return query(RDMA_USER_CM_CMD_QUERY, RDMA_USER_CM_QUERY_GID); }
static int query_route(void) { return query(RDMA_USER_CM_CMD_QUERY_ROUTE, 0); }
static int init_qp_attr(void)
{
	struct rdma_ucm_init_qp_attr init = { .response = (uintptr_t)answer, .id = id, .qp_state = IBV_QPS_INIT };

	return ucm(fd, RDMA_USER_CM_CMD_INIT_QP_ATTR, &init, sizeof(init), sizeof(struct ib_uverbs_qp_attr));
}
static int set_option(void)
{
	struct rdma_ucm_set_option set = { .optval = (uintptr_t)&option, .id = id, .optlen = 1 };

	return ucm(fd, RDMA_USER_CM_CMD_SET_OPTION, &set, sizeof(set), 0);
}
static int write_event(void) { return ucm_write_event(fd, id, USER_EVENT, 1); }
static int get_event(void) { return ucm_told(fd, USER_EVENT, 0) ? 0 : EIO; }
static int written(void) { return create_tcp() ?: write_event(); }
static int join(void) { return ucm_join(fd, id, "239.1.2.6", 0, 5, &group); }
static void leave(void) { ucm_leave(fd, group, NULL); }
static int migrate(void) { return ucm_migrate(other, fd, id, NULL); }
static void come_back(void) { ucm_migrate(fd, other, id, NULL); }
static int open_(void) { return (asked = open("/dev/infiniband/rdma_cm", O_RDWR)) == ~0u ? errno : 0; }
static void close_(void) { close(asked); }

static const struct call calls[] = {
	{ "open", NULL, open_, close_ },
	{ "create_id, TCP", NULL, create_tcp, undo_gone },
	{ "create_id, UDP", NULL, create_udp, undo_gone },
	{ "bind", create_tcp, bind_, NULL, undo_gone },
	{ "listen", bound, listen_, NULL, undo_gone },
	{ "resolve_addr", create_tcp, resolve_addr, NULL, undo_gone },
	{ "resolve_route", resolved, resolve_route, NULL, undo_gone },
	{ "query: addresses", with_route, query_addr, NULL, undo_gone },
	{ "query: paths", with_route, query_path, NULL, undo_gone },
	{ "query: GIDs", with_route, query_gid, NULL, undo_gone },
	{ "query_route", with_route, query_route, NULL, undo_gone },
	{ "init_qp_attr", with_route, init_qp_attr, NULL, undo_gone },
	{ "set_option", create_tcp, set_option, NULL, undo_gone },
	{ "connect", with_route, connect_, NULL, client_gone },
	{ "accept", asked_for, accept_, NULL, both_gone, .costly = true },
	{ "reject", asked_for, reject_, NULL, both_gone, .costly = true },
	{ "write_cm_event", create_tcp, write_event, NULL, undo_gone },
	{ "get_event", written, get_event, NULL, undo_gone },
	{ "join_mcast", bound_udp, join, leave, undo_gone },
	{ "migrate_id", create_tcp, migrate, come_back, undo_gone },
};

int main(int argc, char **argv)
{
	if (argc < 2 || inet_pton(AF_INET, argv[1], &ucm_here.sin_addr) != 1)
		die("usage: ADDRESS");
	faults_init();
	nldev_open();
	fd = ucm_open();
	other = ucm_open();
	ucm_first_qp = getpid() << 12;
	if (listener())
		die("who listens");
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		each_allocation(&calls[i]);
	close(fd);
	close(other);
	faults_done();
	return all_done();
}
