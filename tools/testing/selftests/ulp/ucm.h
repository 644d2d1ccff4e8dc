/* SPDX-License-Identifier: GPL-2.0 */
/* What the ucm_*.c programs share: the commands of /dev/infiniband/rdma_cm without librdmacm. Each returns an errno value. */
#ifndef UCM_H
#define UCM_H

#include "verbs.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rdma_user_cm.h>
#include <sys/mman.h>

/* What the headers of rdma-core 56 do not have yet. */
enum { UCM_RESOLVE_IB_SERVICE = RDMA_USER_CM_CMD_JOIN_MCAST + 1, UCM_WRITE_CM_EVENT, UCM_COMMANDS };
enum { UCM_QUERY_IB_SERVICE = RDMA_USER_CM_QUERY_GID + 1 };

/* Types of events: enum rdma_cm_event_type. */
enum { ADDR_RESOLVED, ADDR_ERROR, ROUTE_RESOLVED, ROUTE_ERROR, CONNECT_REQUEST, CONNECT_RESPONSE, CONNECT_ERROR, UNREACHABLE, REJECTED,
       ESTABLISHED, DISCONNECTED, DEVICE_REMOVAL, MULTICAST_JOIN, MULTICAST_ERROR, ADDR_CHANGE, TIMEWAIT_EXIT, ADDRINFO_RESOLVED,
       ADDRINFO_ERROR, USER_EVENT, INTERNAL_EVENT };

struct ucm_ib_service {
	uint64_t service_id;
	uint8_t service_name[64];
	uint32_t flags, reserved;
};

struct ucm_resolve_ib_service {
	uint32_t id, reserved;
	struct ucm_ib_service ibs;
};

struct ucm_write_event {
	uint32_t id, reserved, event, status;
	union {
		struct rdma_ucm_conn_param conn;
		struct rdma_ucm_ud_param ud;
		uint64_t arg;
	} param;
};

/* The size of each command, by number. */
static const uint16_t ucm_sizes[UCM_COMMANDS] = {
	sizeof(struct rdma_ucm_create_id), sizeof(struct rdma_ucm_destroy_id), sizeof(struct rdma_ucm_bind_ip),
	sizeof(struct rdma_ucm_resolve_ip), sizeof(struct rdma_ucm_resolve_route), sizeof(struct rdma_ucm_query),
	sizeof(struct rdma_ucm_connect), sizeof(struct rdma_ucm_listen), sizeof(struct rdma_ucm_accept), sizeof(struct rdma_ucm_reject),
	sizeof(struct rdma_ucm_disconnect), sizeof(struct rdma_ucm_init_qp_attr), sizeof(struct rdma_ucm_get_event), 16,
	sizeof(struct rdma_ucm_set_option), sizeof(struct rdma_ucm_notify), sizeof(struct rdma_ucm_join_ip_mcast),
	sizeof(struct rdma_ucm_destroy_id), sizeof(struct rdma_ucm_migrate_id), sizeof(struct rdma_ucm_query),
	sizeof(struct rdma_ucm_bind), sizeof(struct rdma_ucm_resolve_addr), sizeof(struct rdma_ucm_join_mcast),
	sizeof(struct ucm_resolve_ib_service), sizeof(struct ucm_write_event),
};

static inline int ucm_open(void)
{
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		die("/dev/infiniband/rdma_cm");
	return fd;
}

/* A command as it is. */
static inline int ucm(int fd, uint32_t number, const void *in, uint16_t in_size, uint16_t out_size)
{
	struct { struct rdma_ucm_cmd_hdr head; char body[1024]; } request = { { number, in_size, out_size } };

	memcpy(request.body, in, in_size);
	return write(fd, &request, sizeof(request.head) + in_size) < 0 ? errno : 0;
}

/* The address that identifiers are bound to, and that they connect to. */
static struct sockaddr_in ucm_here;

static inline struct sockaddr_in ucm_at(uint16_t port)
{
	struct sockaddr_in address = ucm_here;

	address.sin_family = AF_INET;
	address.sin_port = htons(port);
	return address;
}

static inline int ucm_create(int fd, uint16_t space, uint64_t uid, uint32_t *id)
{
	struct rdma_ucm_create_id_resp made = { ~0u };
	struct rdma_ucm_create_id create = { .uid = uid, .response = (uintptr_t)&made, .ps = space, .qp_type = IBV_QPT_RC };
	int error = ucm(fd, RDMA_USER_CM_CMD_CREATE_ID, &create, sizeof(create), sizeof(made));

	*id = made.id;
	return error;
}

static inline int ucm_destroy(int fd, uint32_t id, uint32_t *events)
{
	struct rdma_ucm_destroy_id_resp gone = { ~0u };
	struct rdma_ucm_destroy_id destroy = { .id = id, .response = (uintptr_t)&gone };
	int error = ucm(fd, RDMA_USER_CM_CMD_DESTROY_ID, &destroy, sizeof(destroy), sizeof(gone));

	if (events)
		*events = gone.events_reported;
	return error;
}

static inline int ucm_bind(int fd, uint32_t id, uint16_t port)
{
	struct rdma_ucm_bind bind = { .id = id, .addr_size = sizeof(struct sockaddr_in) };
	struct sockaddr_in address = ucm_at(port);

	memcpy(&bind.addr, &address, sizeof(address));
	return ucm(fd, RDMA_USER_CM_CMD_BIND, &bind, sizeof(bind), 0);
}

static inline int ucm_listen(int fd, uint32_t id, uint32_t backlog)
{
	struct rdma_ucm_listen listen = { .id = id, .backlog = backlog };

	return ucm(fd, RDMA_USER_CM_CMD_LISTEN, &listen, sizeof(listen), 0);
}

static inline int ucm_resolve_addr(int fd, uint32_t id, uint16_t port)
{
	struct rdma_ucm_resolve_addr resolve = { .id = id, .timeout_ms = 2000, .dst_size = sizeof(struct sockaddr_in) };
	struct sockaddr_in address = ucm_at(port);

	memcpy(&resolve.dst_addr, &address, sizeof(address));
	return ucm(fd, RDMA_USER_CM_CMD_RESOLVE_ADDR, &resolve, sizeof(resolve), 0);
}

static inline int ucm_resolve_route(int fd, uint32_t id)
{
	struct rdma_ucm_resolve_route resolve = { .id = id, .timeout_ms = 2000 };

	return ucm(fd, RDMA_USER_CM_CMD_RESOLVE_ROUTE, &resolve, sizeof(resolve), 0);
}

/* Numbers of queue pairs that nobody has: each connection has its own, or the connection manager takes it for a stale one. */
static uint32_t ucm_first_qp, ucm_qps;

static inline struct rdma_ucm_conn_param ucm_param(const char *text)
{
	struct rdma_ucm_conn_param param = {
		.qp_num = (ucm_first_qp + ++ucm_qps) & 0xffffff, .private_data_len = text ? strlen(text) : 0, .responder_resources = 3, .initiator_depth = 2,
		.flow_control = 1, .retry_count = 5, .rnr_retry_count = 6, .valid = 1,
	};

	if (text)
		memcpy(param.private_data, text, param.private_data_len);
	return param;
}

static inline int ucm_connect(int fd, uint32_t id, const char *text)
{
	struct rdma_ucm_connect connect = { .id = id, .conn_param = ucm_param(text), .ece = { 0x11, 0x22 } };

	return ucm(fd, RDMA_USER_CM_CMD_CONNECT, &connect, sizeof(connect), 0);
}

static inline int ucm_accept(int fd, uint32_t id, uint64_t uid, const char *text, bool valid)
{
	struct rdma_ucm_accept accept = { .id = id, .uid = uid, .conn_param = ucm_param(text), .ece = { 0x11, 0x33 } };

	accept.conn_param.valid = valid;
	return ucm(fd, RDMA_USER_CM_CMD_ACCEPT, &accept, sizeof(accept), 0);
}

static inline int ucm_disconnect(int fd, uint32_t id)
{
	struct rdma_ucm_disconnect disconnect = { id };

	return ucm(fd, RDMA_USER_CM_CMD_DISCONNECT, &disconnect, sizeof(disconnect), 0);
}

/* The next event within so many milliseconds. */
static inline int ucm_event(int fd, struct rdma_ucm_event_resp *event, int ms)
{
	struct rdma_ucm_get_event get = { .response = (uintptr_t)event };
	struct pollfd poll_for = { .fd = fd, .events = POLLIN };

	memset(event, 0, sizeof(*event));
	event->event = ~0u;
	if (poll(&poll_for, 1, ms) < 0)
		return errno;
	return ucm(fd, RDMA_USER_CM_CMD_GET_EVENT, &get, sizeof(get), sizeof(*event));
}

static inline bool ucm_told(int fd, uint32_t type, int ms)
{
	struct rdma_ucm_event_resp event;

	return !ucm_event(fd, &event, ms) && event.event == type;
}

static inline int ucm_migrate(int to, int from, uint32_t id, uint32_t *events)
{
	struct rdma_ucm_migrate_resp moved = { ~0u };
	struct rdma_ucm_migrate_id migrate = { .id = id, .fd = from, .response = (uintptr_t)&moved };
	int error = ucm(to, RDMA_USER_CM_CMD_MIGRATE_ID, &migrate, sizeof(migrate), sizeof(moved));

	if (events)
		*events = moved.events_reported;
	return error;
}

static inline int ucm_join(int fd, uint32_t id, const char *group, uint16_t flags, uint64_t uid, uint32_t *number)
{
	struct rdma_ucm_create_id_resp made = { ~0u };
	struct rdma_ucm_join_mcast join = {
		.id = id, .uid = uid, .response = (uintptr_t)&made, .addr_size = sizeof(struct sockaddr_in), .join_flags = flags,
	};
	struct sockaddr_in address = { .sin_family = AF_INET };
	int error;

	inet_pton(AF_INET, group, &address.sin_addr);
	memcpy(&join.addr, &address, sizeof(address));
	error = ucm(fd, RDMA_USER_CM_CMD_JOIN_MCAST, &join, sizeof(join), sizeof(made));
	*number = made.id;
	return error;
}

static inline int ucm_leave(int fd, uint32_t number, uint32_t *events)
{
	struct rdma_ucm_destroy_id_resp left = { ~0u };
	struct rdma_ucm_destroy_id leave = { .id = number, .response = (uintptr_t)&left };
	int error = ucm(fd, RDMA_USER_CM_CMD_LEAVE_MCAST, &leave, sizeof(leave), sizeof(left));

	if (events)
		*events = left.events_reported;
	return error;
}

static inline int ucm_write_event(int fd, uint32_t id, uint32_t type, uint64_t argument)
{
	struct ucm_write_event event = { .id = id, .event = type, .status = 7, .param.arg = argument };

	return ucm(fd, UCM_WRITE_CM_EVENT, &event, sizeof(event), 0);
}

#endif
