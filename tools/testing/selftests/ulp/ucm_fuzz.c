// SPDX-License-Identifier: GPL-2.0
/*
 * Commands of /dev/infiniband/rdma_cm at random: by several threads on the same files, which are closed under them; on identifiers of
 * all states, of each other's files; with addresses, lengths, pointers that are right and wrong; while the device may go and come again.
 *
 *   ucm_fuzz ADDRESS CALLS SEED THREADS
 */
#define _GNU_SOURCE
#include "ucm.h"
#include "fuzz.h"
#include "fuzz_storm.h"
#include <stddef.h>

#define FILES 4
#define ERRNOS 140
#define PORTS 6
#define PORT 7800
#define EPISODE 250
#define RECENT 8

static int files[FILES];
static uint64_t seed;
static unsigned long outcomes[UCM_COMMANDS][ERRNOS];
static __thread uint8_t answers[8192];
static uint8_t *value;

/* The last identifiers and groups of each file. */
static struct { uint32_t ids[RECENT], groups[RECENT], made, joined; } recent[FILES];
static __thread unsigned int own;	/* the file of the command */

static void remember(unsigned int file, uint32_t id) { recent[file].ids[recent[file].made++ % RECENT] = id; }
static uint32_t some_id(void)
{
	if (one_in(40))
		return odd_number();
	return recent[one_in(8) ? below(FILES) : own].ids[below(RECENT)];
}
static uint32_t some_group_number(void) { return one_in(10) ? below(16) : recent[own].groups[below(RECENT)]; }
static uint32_t some_file(void) { return one_in(20) ? odd_number() : (uint32_t)files[below(FILES)]; }
static uint64_t some_answer(void) { return one_in(30) ? (one_in(2) ? 8 : any64()) : (uintptr_t)answers; }
static uint16_t some_room(uint16_t right) { return one_in(12) ? odd_number() : one_in(6) ? below(right + 1) : right; }
static uint32_t some_time(void) { return one_in(50) ? odd_number() : below(300); }

/* An address of this host mostly, so that connections come about; `size` is what a program would say. */
static uint16_t some_address(void *to, size_t room, bool may_be_any)
{
	struct sockaddr_in v4 = ucm_at(PORT + below(PORTS));
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(PORT + below(PORTS)), .sin6_addr = in6addr_loopback };
	uint8_t bytes[128];

	memset(to, 0, room);
	switch (below(16)) {
	case 0:
		for (size_t i = 0; i < room; i++)
			((uint8_t *)to)[i] = any();
		return odd_number();
	case 1:
		memset(bytes, any(), sizeof(bytes));
		*(uint16_t *)bytes = 27;	/* AF_IB */
		memcpy(to, bytes, room < 48 ? room : 48);
		return 48;
	case 2:
		memcpy(to, &v6, sizeof(v6));
		return sizeof(v6);
	case 3:
		*(uint16_t *)to = below(40);
		return below(130);
	case 4:
		v4.sin_addr.s_addr = may_be_any ? INADDR_ANY : any();
		break;
	case 5:
		v4.sin_addr.s_addr = htonl(0xef010200 | below(4));
		break;
	case 6:
		v4.sin_port = 0;
	}
	memcpy(to, &v4, sizeof(v4));
	return one_in(20) ? odd_number() : sizeof(v4);
}

static uint16_t some_group(void *to)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xef010200 | below(4)) };

	if (one_in(8))
		return some_address(to, 28, false);
	memcpy(to, &v4, sizeof(v4));
	return sizeof(v4);
}

static void some_bytes(void *to, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((uint8_t *)to)[i] = any();
}

static struct rdma_ucm_conn_param some_param(void)
{
	struct rdma_ucm_conn_param param = ucm_param("data");

	if (one_in(10))
		some_bytes(&param, sizeof(param));
	param.qp_num = any();
	if (one_in(5))
		param.private_data_len = any();
	param.valid = !one_in(6);
	return param;
}

static uint16_t fill(uint32_t number, char *body)
{
	uint16_t size;

	switch (number) {
	case RDMA_USER_CM_CMD_CREATE_ID: {
		static const uint16_t spaces[] = { RDMA_PS_TCP, RDMA_PS_TCP, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_IPOIB, 7 };
		struct rdma_ucm_create_id create = {
			.uid = one_in(8) ? 0 : any64(), .response = some_answer(), .ps = spaces[below(8)], .qp_type = one_in(4) ? any() : IBV_QPT_RC,
		};
		memcpy(body, &create, sizeof(create));
		return some_room(4);
	}
	case RDMA_USER_CM_CMD_DESTROY_ID:
	case RDMA_USER_CM_CMD_LEAVE_MCAST: {
		struct rdma_ucm_destroy_id destroy = {
			.response = some_answer(), .id = number == RDMA_USER_CM_CMD_DESTROY_ID ? some_id() : some_group_number(),
		};
		memcpy(body, &destroy, sizeof(destroy));
		return some_room(4);
	}
	case RDMA_USER_CM_CMD_BIND_IP: {
		struct rdma_ucm_bind_ip bind = { .id = some_id() };
		some_address(&bind.addr, sizeof(bind.addr), true);
		memcpy(body, &bind, sizeof(bind));
		return 0;
	}
	case RDMA_USER_CM_CMD_RESOLVE_IP: {
		struct rdma_ucm_resolve_ip resolve = { .id = some_id(), .timeout_ms = some_time() };
		some_address(&resolve.dst_addr, sizeof(resolve.dst_addr), false);
		if (one_in(3))
			some_address(&resolve.src_addr, sizeof(resolve.src_addr), true);
		memcpy(body, &resolve, sizeof(resolve));
		return 0;
	}
	case RDMA_USER_CM_CMD_QUERY_ROUTE:
	case RDMA_USER_CM_CMD_QUERY: {
		struct rdma_ucm_query query = { .response = some_answer(), .id = some_id(), .option = below(5) };
		memcpy(body, &query, sizeof(query));
		return some_room(number == RDMA_USER_CM_CMD_QUERY ? 280 : sizeof(struct rdma_ucm_query_route_resp));
	}
	case RDMA_USER_CM_CMD_CONNECT: {
		struct rdma_ucm_connect connect = { .conn_param = some_param(), .id = some_id(), .ece = { any(), any() } };
		memcpy(body, &connect, sizeof(connect));
		return 0;
	}
	case RDMA_USER_CM_CMD_ACCEPT: {
		struct rdma_ucm_accept accept = { .uid = any64(), .conn_param = some_param(), .id = some_id(), .ece = { any(), any() } };
		memcpy(body, &accept, sizeof(accept));
		return 0;
	}
	case RDMA_USER_CM_CMD_REJECT: {
		struct rdma_ucm_reject reject = { .id = some_id(), .private_data_len = any(), .reason = one_in(3) ? any() : 28 };
		memcpy(body, &reject, sizeof(reject));
		return 0;
	}
	case RDMA_USER_CM_CMD_INIT_QP_ATTR: {
		struct rdma_ucm_init_qp_attr init = { .response = some_answer(), .id = some_id(), .qp_state = one_in(8) ? odd_number() : below(7) };
		memcpy(body, &init, sizeof(init));
		return some_room(sizeof(struct ib_uverbs_qp_attr));
	}
	case RDMA_USER_CM_CMD_GET_EVENT: {
		struct rdma_ucm_get_event get = { .response = some_answer() };
		memcpy(body, &get, sizeof(get));
		return some_room(sizeof(struct rdma_ucm_event_resp));
	}
	case RDMA_USER_CM_CMD_SET_OPTION: {
		struct rdma_ucm_set_option set = {
			.optval = one_in(20) ? some_answer() : (uintptr_t)value, .id = some_id(), .level = below(3), .optname = below(5),
			.optlen = one_in(8) ? odd_number() : one_in(2) ? 4 : one_in(3) ? 72 : 1,
		};
		/* The value changes under the reader. */
		some_bytes(value, 80);
		if (one_in(2))
			memcpy(value, &(uint32_t){ 0x2b }, 4);
		memcpy(body, &set, sizeof(set));
		return 0;
	}
	case RDMA_USER_CM_CMD_JOIN_IP_MCAST: {
		struct rdma_ucm_join_ip_mcast join = { .response = some_answer(), .uid = any64(), .id = some_id() };
		some_group(&join.addr);
		memcpy(body, &join, sizeof(join));
		return some_room(4);
	}
	case RDMA_USER_CM_CMD_JOIN_MCAST: {
		struct rdma_ucm_join_mcast join = { .response = some_answer(), .uid = any64(), .id = some_id(), .join_flags = below(3) };
		join.addr_size = some_group(&join.addr);
		memcpy(body, &join, sizeof(join));
		return some_room(4);
	}
	case RDMA_USER_CM_CMD_MIGRATE_ID: {
		struct rdma_ucm_migrate_id migrate = { .response = some_answer(), .id = some_id(), .fd = some_file() };
		memcpy(body, &migrate, sizeof(migrate));
		return some_room(4);
	}
	case RDMA_USER_CM_CMD_BIND: {
		struct rdma_ucm_bind bind = { .id = some_id() };
		bind.addr_size = some_address(&bind.addr, sizeof(bind.addr), true);
		memcpy(body, &bind, sizeof(bind));
		return 0;
	}
	case RDMA_USER_CM_CMD_RESOLVE_ADDR: {
		struct rdma_ucm_resolve_addr resolve = { .id = some_id(), .timeout_ms = some_time() };
		resolve.dst_size = some_address(&resolve.dst_addr, sizeof(resolve.dst_addr), false);
		size = some_address(&resolve.src_addr, sizeof(resolve.src_addr), true);
		resolve.src_size = one_in(2) ? size : 0;
		if (!resolve.src_size && one_in(2))
			memset(&resolve.src_addr, 0, sizeof(resolve.src_addr));
		memcpy(body, &resolve, sizeof(resolve));
		return 0;
	}
	case UCM_RESOLVE_IB_SERVICE: {
		struct ucm_resolve_ib_service resolve = { .id = some_id() };
		some_bytes(&resolve.ibs, sizeof(resolve.ibs));
		memcpy(body, &resolve, sizeof(resolve));
		return 0;
	}
	case UCM_WRITE_CM_EVENT: {
		struct ucm_write_event event = { .id = some_id(), .event = one_in(4) ? odd_number() : USER_EVENT + below(2), .status = any() };
		some_bytes(&event.param, sizeof(event.param));
		memcpy(body, &event, sizeof(event));
		return 0;
	}
	default: {	/* an identifier and a number: RESOLVE_ROUTE, LISTEN, DISCONNECT, NOTIFY */
		uint32_t two[] = { some_id(), number == RDMA_USER_CM_CMD_RESOLVE_ROUTE ? some_time() : odd_number() };
		memcpy(body, two, sizeof(two));
		return odd_number();
	}
	}
}

static void counted(uint32_t number, int error)
{
	__atomic_add_fetch(&outcomes[number][error < ERRNOS ? error : 0], 1, __ATOMIC_RELAXED);
}

static void answer(int fd, uint32_t id)
{
	struct rdma_ucm_reject reject = { .id = id };

	if (one_in(4))
		return;
	if (one_in(4))
		counted(RDMA_USER_CM_CMD_REJECT, ucm(fd, RDMA_USER_CM_CMD_REJECT, &reject, sizeof(reject), 0));
	else
		counted(RDMA_USER_CM_CMD_ACCEPT, ucm_accept(fd, id, one_in(8) ? 0 : any64(), "fuzz", true));
}

/* Who has read a request answers it now and then, and who was told of an address goes on. */
static void go_on(int fd)
{
	struct rdma_ucm_event_resp event;

	if (ucm_event(fd, &event, 0))
		return;
	switch (event.event) {
	case ADDR_RESOLVED:
		if (!one_in(3))
			counted(RDMA_USER_CM_CMD_RESOLVE_ROUTE, ucm_resolve_route(fd, event.id));
		break;
	case ROUTE_RESOLVED:
		if (!one_in(3))
			counted(RDMA_USER_CM_CMD_CONNECT, ucm_connect(fd, event.id, "fuzz"));
		break;
	case CONNECT_REQUEST:
		remember(own, event.id);
		answer(fd, event.id);
		break;
	case CONNECT_RESPONSE: ucm_accept(fd, event.id, 0, NULL, false); break;
	case ESTABLISHED:
		if (one_in(2))
			ucm_disconnect(fd, event.id);
		break;
	case DISCONNECTED:
	case REJECTED:
	case UNREACHABLE:
	case DEVICE_REMOVAL: ucm_destroy(fd, event.id, NULL);
	}
}

static void call(void)
{
	static const uint8_t often[] = {
		RDMA_USER_CM_CMD_CREATE_ID, RDMA_USER_CM_CMD_CREATE_ID, RDMA_USER_CM_CMD_BIND, RDMA_USER_CM_CMD_LISTEN, RDMA_USER_CM_CMD_RESOLVE_ADDR,
		RDMA_USER_CM_CMD_RESOLVE_ADDR, RDMA_USER_CM_CMD_GET_EVENT, RDMA_USER_CM_CMD_JOIN_MCAST,
	};
	char body[512] = { 0 };
	uint32_t number, made;
	uint16_t room, size;
	int error, fd;

	own = below(FILES);
	fd = files[own];
	if (one_in(3)) {
		go_on(fd);
		return;
	}
	number = one_in(3) ? often[below(sizeof(often))] : below(UCM_COMMANDS);
	room = fill(number, body);
	size = one_in(30) ? below(sizeof(body)) : ucm_sizes[number];
	if (one_in(30))
		some_bytes(body, sizeof(body));
	error = ucm(fd, number, body, size, room);
	counted(number, error);
	if (error)
		return;
	memcpy(&made, answers, sizeof(made));
	if (number == RDMA_USER_CM_CMD_CREATE_ID)
		remember(own, made);
	else if (number == RDMA_USER_CM_CMD_JOIN_MCAST || number == RDMA_USER_CM_CMD_JOIN_IP_MCAST)
		recent[own].groups[recent[own].joined++ % RECENT] = made;
	else if (number == RDMA_USER_CM_CMD_MIGRATE_ID) {
		memcpy(&made, body + offsetof(struct rdma_ucm_migrate_id, id), sizeof(made));
		remember(own, made);
	}
}

static void start(unsigned int thread) { fuzz_seed(seed, thread); }

/* New files in the places of the old ones. */
static void open_files(void)
{
	for (int i = 0; i < FILES; i++) {
		int fd = ucm_open();

		if (!files[i])
			files[i] = fd;
		else if (dup3(fd, files[i], O_CLOEXEC) < 0 || close(fd))
			die("dup3");
	}
}

static void judge(void)
{
	unsigned int called = 0, good = 0;
	char why[256] = "";

	for (uint32_t number = 0; number < UCM_COMMANDS; number++) {
		unsigned long sum = 0;

		printf("%2u:", number);
		for (int error = 0; error < ERRNOS; error++) {
			sum += outcomes[number][error];
			if (outcomes[number][error])
				printf(" %s %lu", error ? strerrorname_np(error) : "ok", outcomes[number][error]);
		}
		printf("\n");
		called += !!sum;
		good += !!outcomes[number][0];
		if (!outcomes[number][0])
			snprintf(why + strlen(why), sizeof(why) - strlen(why), " %u", number);
	}
	verdict("all commands were called", called == UCM_COMMANDS, false, "one was not");
	/* Never GET_OPTION and RESOLVE_IB_SERVICE, for there is nothing to get, and no fabric; seldom some that need a certain state. */
	verdict("nearly all succeeded at times", good >= UCM_COMMANDS - 7, false, why);
}

int main(int argc, char **argv)
{
	if (argc < 5 || inet_pton(AF_INET, argv[1], &ucm_here.sin_addr) != 1)
		die("usage: ADDRESS CALLS SEED THREADS");
	seed = strtoull(argv[3], NULL, 0);
	value = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	/* ib_cm waits for the messages of an identifier that goes, also where their device is going. */
	storm_run((struct storm){ "commands", strtoull(argv[2], NULL, 0), strtoul(argv[4], NULL, 0), EPISODE, start, open_files, call, true });
	for (int i = 0; i < FILES; i++)
		close(files[i]);
	judge();
	return all_done();
}
