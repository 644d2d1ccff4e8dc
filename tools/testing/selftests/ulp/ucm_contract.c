// SPDX-License-Identifier: GPL-2.0
/*
 * The answers of /dev/infiniband/rdma_cm, line by line: what each command says in each state of an identifier, what it refuses, the
 * numbers of identifiers, addresses and routes, events and their counts. A line is the same on any implementation.
 *
 *   ucm_contract ADDRESS
 */
#define _GNU_SOURCE
#include "ucm.h"
#include <sys/ioctl.h>
#include <sys/wait.h>

#define PORT 7700

static const char *name_of(int error)
{
	return error ? strerrorname_np(error) : "ok";
}

static void line(const char *what, int error)
{
	printf("%s: %s\n", what, name_of(error));
}

/* A call, and the number that it has set. */
#define number_line(what, call, number) do { \
	int error_ = (call); \
	printf("%s: %s %d\n", what, name_of(error_), (int)(number)); \
} while (0)

/* The file
 * ---------------------------------------------------------------------------------------------------------------------- */

/* No program has memory there; the compiler does not know. */
static void *volatile nowhere = (void *)8;

static int raw(int fd, const volatile void *bytes, size_t length)
{
	return write(fd, (const void *)bytes, length) < 0 ? errno : 0;
}

/* A command that ends where memory ends. */
static int at_the_end(int fd, uint32_t number, size_t there)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rdma_ucm_cmd_hdr head = { number, there, 1024 };
	int error;

	mprotect(pages + 4096, 4096, PROT_NONE);
	memcpy(pages + 4096 - there - sizeof(head), &head, sizeof(head));
	error = raw(fd, pages + 4096 - there - sizeof(head), sizeof(head) + there);
	munmap(pages, 8192);
	return error;
}

static int with_other_credentials(int fd)
{
	uint32_t id;
	pid_t child = fork();
	int status;

	if (!child) {
		if (setresuid(65534, 65534, 65534))
			_exit(1);
		_exit(ucm_create(fd, RDMA_PS_TCP, 1, &id));
	}
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}

static void file(void)
{
	int fd = ucm_open();
	struct rdma_ucm_cmd_hdr head = { 0 };
	struct rdma_ucm_event_resp event;
	struct pollfd poll_for = { .fd = fd, .events = POLLIN | POLLOUT };
	char byte = 0, what[64];

	printf("== the file\n");
	printf("poll: %d, %#x\n", poll(&poll_for, 1, 0), poll_for.revents);
	line("no event", ucm_event(fd, &event, 0));
	line("read", read(fd, &byte, 1) < 0 ? errno : 0);
	line("lseek", lseek(fd, 0, SEEK_SET) < 0 ? errno : 0);
	line("pread", pread(fd, &byte, 1, 0) < 0 ? errno : 0);
	line("mmap", mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED ? errno : 0);
	line("ioctl", ioctl(fd, 0x1b01, &byte) < 0 ? errno : 0);
	for (size_t length = 0; length <= sizeof(head); length += 4) {
		snprintf(what, sizeof(what), "%zu bytes", length);
		line(what, raw(fd, &head, length));
	}
	line("a head that cannot be read", raw(fd, nowhere, 8));
	line("with other credentials", with_other_credentials(fd));
	head.in = 1;
	line("less than it says", raw(fd, &head, sizeof(head)));
	for (uint32_t number = 0; number < UCM_COMMANDS + 2; number++) {
		snprintf(what, sizeof(what), "command %u without its structure", number);
		line(what, at_the_end(fd, number, 0));
		if (number >= UCM_COMMANDS)
			continue;
		snprintf(what, sizeof(what), "command %u, one byte short", number);
		line(what, at_the_end(fd, number, ucm_sizes[number] - 1));
	}
	close(fd);
}

/* States
 * ---------------------------------------------------------------------------------------------------------------------- */

/* Where the number of the identifier is in each command. */
static const uint16_t id_at[UCM_COMMANDS] = {
	[RDMA_USER_CM_CMD_DESTROY_ID] = 8, [RDMA_USER_CM_CMD_BIND_IP] = 36, [RDMA_USER_CM_CMD_RESOLVE_IP] = 56,
	[RDMA_USER_CM_CMD_QUERY_ROUTE] = 8, [RDMA_USER_CM_CMD_CONNECT] = 272, [RDMA_USER_CM_CMD_ACCEPT] = 280,
	[RDMA_USER_CM_CMD_INIT_QP_ATTR] = 8, [RDMA_USER_CM_CMD_SET_OPTION] = 8, [RDMA_USER_CM_CMD_JOIN_IP_MCAST] = 44,
	[RDMA_USER_CM_CMD_LEAVE_MCAST] = 8, [RDMA_USER_CM_CMD_MIGRATE_ID] = 8, [RDMA_USER_CM_CMD_QUERY] = 8,
	[RDMA_USER_CM_CMD_JOIN_MCAST] = 16,
};

static const char *const states[] = {
	"no identifier", "of another file", "new", "new, of datagrams", "bound", "bound, of datagrams", "resolved", "with a route", "listening",
};

static uint32_t in_state(int fd, int other, size_t state)
{
	uint32_t id = 4000;

	if (!state)
		return id;
	ucm_create(state == 1 ? other : fd, state == 3 || state == 5 ? RDMA_PS_UDP : RDMA_PS_TCP, 5, &id);
	if (state == 4 || state == 5 || state == 8)
		ucm_bind(fd, id, PORT);
	if (state == 8)
		ucm_listen(fd, id, 2);
	if (state == 6 || state == 7) {
		ucm_resolve_addr(fd, id, PORT);
		ucm_told(fd, ADDR_RESOLVED, 5000);
	}
	if (state == 7) {
		ucm_resolve_route(fd, id);
		ucm_told(fd, ROUTE_RESOLVED, 5000);
	}
	return id;
}

/* What is written is zero but for the number, where the answer goes, and what makes the rest valid. */
static int try(int fd, uint32_t number, uint32_t id, uint16_t room)
{
	static char answer[4096];
	static uint8_t value;
	char body[1024] = { 0 };
	struct sockaddr_in address = ucm_at(PORT);
	uint64_t to = (uintptr_t)answer;

	memcpy(body, &to, sizeof(to));
	switch (number) {
	case RDMA_USER_CM_CMD_CREATE_ID: {
		struct rdma_ucm_create_id create = { .response = to, .ps = RDMA_PS_TCP };
		memcpy(body, &create, sizeof(create));
		break;
	}
	case RDMA_USER_CM_CMD_BIND_IP: memcpy(body + 8, &address, sizeof(address)); break;
	case RDMA_USER_CM_CMD_BIND: {
		struct rdma_ucm_bind bind = { .addr_size = sizeof(address) };
		memcpy(&bind.addr, &address, sizeof(address));
		memcpy(body, &bind, sizeof(bind));
		break;
	}
	case RDMA_USER_CM_CMD_RESOLVE_IP: memset(body, 0, 8); memcpy(body + 28, &address, sizeof(address)); break;
	case RDMA_USER_CM_CMD_RESOLVE_ADDR: {
		struct rdma_ucm_resolve_addr resolve = { .dst_size = sizeof(address), .timeout_ms = 2000 };
		memcpy(&resolve.dst_addr, &address, sizeof(address));
		memcpy(body, &resolve, sizeof(resolve));
		break;
	}
	case RDMA_USER_CM_CMD_CONNECT: {
		struct rdma_ucm_connect connect = { .conn_param = ucm_param(NULL) };
		memcpy(body, &connect, sizeof(connect));
		break;
	}
	case RDMA_USER_CM_CMD_ACCEPT: {
		struct rdma_ucm_accept accept = { .uid = 6, .conn_param = ucm_param(NULL) };
		memcpy(body, &accept, sizeof(accept));
		break;
	}
	case RDMA_USER_CM_CMD_SET_OPTION: {
		struct rdma_ucm_set_option option = { .optval = (uintptr_t)&value, .optlen = 1 };
		memcpy(body, &option, sizeof(option));
		break;
	}
	case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
	case RDMA_USER_CM_CMD_JOIN_MCAST: {
		size_t at = number == RDMA_USER_CM_CMD_JOIN_MCAST ? 24 : 16;
		inet_pton(AF_INET, "239.1.2.9", &address.sin_addr);
		memcpy(body + at, &address, sizeof(address));
		body[20] = sizeof(address) * (at == 24);
		if (at == 16)
			memcpy(body + 16, &address, sizeof(address));
		break;
	}
	case RDMA_USER_CM_CMD_MIGRATE_ID: memcpy(body + 12, &fd, sizeof(fd)); break;
	case UCM_WRITE_CM_EVENT: body[8] = USER_EVENT; break;
	case RDMA_USER_CM_CMD_GET_EVENT:
	case RDMA_USER_CM_CMD_INIT_QP_ATTR:
	case RDMA_USER_CM_CMD_QUERY:
	case RDMA_USER_CM_CMD_QUERY_ROUTE:
	case RDMA_USER_CM_CMD_LEAVE_MCAST:
	case RDMA_USER_CM_CMD_DESTROY_ID: break;
	default: memset(body, 0, 8);
	}
	if (number != RDMA_USER_CM_CMD_CREATE_ID && number != RDMA_USER_CM_CMD_GET_EVENT)
		memcpy(body + id_at[number], &id, sizeof(id));
	return ucm(fd, number, body, ucm_sizes[number], room);
}

static void all_states(void)
{
	for (size_t state = 0; state < ARRAY_SIZE(states); state++) {
		printf("== commands: %s\n", states[state]);
		for (uint32_t number = 0; number < UCM_COMMANDS; number++) {
			for (int room = 1; room >= 0; room--) {
				int fd = ucm_open(), other = ucm_open();
				uint32_t id = in_state(fd, other, state);

				printf("%u%s: %s\n", number, room ? "" : ", no room", name_of(try(fd, number, id, room ? 4096 : 0)));
				close(fd);
				close(other);
			}
		}
	}
}

/* What commands refuse
 * ---------------------------------------------------------------------------------------------------------------------- */

static void creations(int fd)
{
	static const uint16_t spaces[] = { 0, RDMA_PS_IPOIB, RDMA_PS_IB, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_TCP + 1, 0xffff };
	struct rdma_ucm_create_id create = { .uid = 1, .response = 8, .ps = RDMA_PS_TCP };
	uint32_t id, ids[3], events;
	char what[64];

	printf("== identifiers\n");
	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++) {
		int error = ucm_create(fd, spaces[i], 1, &id);

		snprintf(what, sizeof(what), "port space %#x", spaces[i]);
		line(what, error);
		if (!error)
			ucm_destroy(fd, id, NULL);
	}
	line("an answer that cannot be written", ucm(fd, RDMA_USER_CM_CMD_CREATE_ID, &create, sizeof(create), 4));
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		ucm_create(fd, RDMA_PS_TCP, 1, &ids[i]);
	printf("numbers: %u %u %u\n", ids[0], ids[1], ids[2]);
	number_line("the middle one goes", ucm_destroy(fd, ids[1], &events), events);
	line("and is gone", ucm_destroy(fd, ids[1], NULL));
	number_line("a new one has its number", ucm_create(fd, RDMA_PS_UDP, 1, &id), id);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		ucm_destroy(fd, ids[i], NULL);
}

/* How often a process has gone to sleep. */
static long sleeps(pid_t pid)
{
	char name[64], text[64];
	long count = -1;
	FILE *status;

	snprintf(name, sizeof(name), "/proc/%d/status", pid);
	status = fopen(name, "r");
	if (!status)
		die(name);
	while (fgets(text, sizeof(text), status))
		sscanf(text, "voluntary_ctxt_switches: %ld", &count);
	fclose(status);
	return count;
}

/* Identifiers that come and go are no events: who waits for one sleeps on. */
static void sleeper(int fd)
{
	struct pollfd poll_for = { .fd = fd, .events = POLLIN };
	pid_t child = fork();
	uint32_t id;
	long before;

	if (!child)
		_exit(poll(&poll_for, 1, 30000));
	do {
		before = sleeps(child);
		usleep(200000);
	} while (before < 1 || sleeps(child) != before);
	for (int i = 0; i < 20; i++) {
		ucm_create(fd, RDMA_PS_TCP, 1, &id);
		usleep(1000);
		ucm_destroy(fd, id, NULL);
	}
	usleep(100000);
	printf("a reader has been woken: %ld\n", sleeps(child) - before);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void bindings(int fd)
{
	struct rdma_ucm_bind_ip ip = { 0 };
	struct rdma_ucm_bind bind = { 0 };
	struct sockaddr_in address = ucm_at(0);
	uint32_t id;
	char what[64];

	printf("== addresses that are refused\n");
	ucm_create(fd, RDMA_PS_TCP, 1, &id);
	for (int family = 0; family < 32; family += family == 2 ? 8 : family == 10 ? 17 : 2) {
		memset(&ip, 0, sizeof(ip));
		ip.id = id;
		ip.addr.sin6_family = family;
		snprintf(what, sizeof(what), "bind_ip, family %d", family);
		line(what, ucm(fd, RDMA_USER_CM_CMD_BIND_IP, &ip, sizeof(ip), 0));
		ucm_destroy(fd, id, NULL);
		ucm_create(fd, RDMA_PS_TCP, 1, &id);
	}
	for (int size = 0; size < 140; size += size == 16 ? 12 : 8) {
		bind = (struct rdma_ucm_bind){ .id = id, .addr_size = size };
		memcpy(&bind.addr, &address, sizeof(address));
		snprintf(what, sizeof(what), "bind, %d bytes", size);
		line(what, ucm(fd, RDMA_USER_CM_CMD_BIND, &bind, sizeof(bind), 0));
		ucm_destroy(fd, id, NULL);
		ucm_create(fd, RDMA_PS_TCP, 1, &id);
	}
	bind.addr_size = 16;
	bind.reserved = 1;
	line("bind, reserved", ucm(fd, RDMA_USER_CM_CMD_BIND, &bind, sizeof(bind), 0));
	for (int sizes = 0; sizes < 6; sizes++) {
		struct rdma_ucm_resolve_addr resolve = { .id = id, .timeout_ms = 100 };

		resolve.src_size = sizes == 1 ? 16 : sizes == 2 ? 28 : 0;
		resolve.dst_size = sizes == 3 ? 0 : sizes == 4 ? 28 : 16;
		resolve.reserved = sizes == 5;
		memcpy(&resolve.dst_addr, &address, sizeof(address));
		if (sizes != 1)
			memcpy(&resolve.src_addr, &address, sizeof(address));
		snprintf(what, sizeof(what), "resolve_addr, sizes %u and %u%s", resolve.src_size, resolve.dst_size, sizes == 5 ? ", reserved" : "");
		line(what, ucm(fd, RDMA_USER_CM_CMD_RESOLVE_ADDR, &resolve, sizeof(resolve), 0));
		ucm_destroy(fd, id, NULL);
		ucm_create(fd, RDMA_PS_TCP, 1, &id);
	}
	ucm_destroy(fd, id, NULL);
}

static void options(int fd)
{
	static char value[4 << 20];
	uint32_t id;
	char what[64];

	printf("== options\n");
	for (uint32_t space = 0; space < 2; space++) {
		for (uint32_t level = 0; level < 3; level++)
			for (uint32_t option = 0; option < 5; option++)
				for (uint32_t size = 0; size < 146; size += size < 4 ? 1 : size == 4 ? 68 : 1) {
					struct rdma_ucm_set_option set = { .level = level, .optname = option, .optlen = size };

					if (size > 73 && size < 144)
						continue;
					ucm_create(fd, space ? RDMA_PS_UDP : RDMA_PS_TCP, 1, &id);
					set.id = id;
					set.optval = (uintptr_t)value;
					snprintf(what, sizeof(what), "%s: level %u, option %u, %u bytes", space ? "UDP" : "TCP", level, option, size);
					line(what, ucm(fd, RDMA_USER_CM_CMD_SET_OPTION, &set, sizeof(set), 0));
					ucm_destroy(fd, id, NULL);
				}
	}
	ucm_create(fd, RDMA_PS_TCP, 1, &id);
	for (int size = 0; size < 3; size++) {
		struct rdma_ucm_set_option set = { .id = id, .level = 9, .optlen = size == 2 ? (4 << 20) + 1 : size ? 4 << 20 : 0 };

		set.optval = (uintptr_t)value;
		snprintf(what, sizeof(what), "%u bytes", set.optlen);
		line(what, ucm(fd, RDMA_USER_CM_CMD_SET_OPTION, &set, sizeof(set), 0));
		set.optval = 8;
		snprintf(what, sizeof(what), "%u bytes that cannot be read", set.optlen);
		line(what, ucm(fd, RDMA_USER_CM_CMD_SET_OPTION, &set, sizeof(set), 0));
	}
	ucm_destroy(fd, id, NULL);
}

static void values(int fd)
{
	uint32_t id;
	char what[64];

	printf("== values\n");
	id = in_state(fd, fd, 6);
	for (uint32_t state = 0; state < 9; state++) {
		struct ib_uverbs_qp_attr attr;
		struct rdma_ucm_init_qp_attr init = { .id = id, .qp_state = state, .response = (uintptr_t)&attr };

		memset(&attr, 0xff, sizeof(attr));
		snprintf(what, sizeof(what), "init_qp_attr, state %u", state);
		line(what, ucm(fd, RDMA_USER_CM_CMD_INIT_QP_ATTR, &init, sizeof(init), sizeof(attr)));
		printf("mask %#x, state %u, port %u, access %#x\n", attr.qp_attr_mask, attr.qp_state, attr.port_num, attr.qp_access_flags);
		init.response = 8;
		line("an answer that cannot be written", ucm(fd, RDMA_USER_CM_CMD_INIT_QP_ATTR, &init, sizeof(init), sizeof(attr)));
	}
	for (uint32_t reason = 0; reason < 40; reason++) {
		struct rdma_ucm_reject reject = { .id = id, .reason = reason };

		snprintf(what, sizeof(what), "reject, reason %u", reason);
		line(what, ucm(fd, RDMA_USER_CM_CMD_REJECT, &reject, sizeof(reject), 0));
	}
	for (uint32_t event = 0; event < 22; event++) {
		struct rdma_ucm_notify notify = { .id = id, .event = event };

		snprintf(what, sizeof(what), "notify and write_cm_event, %u", event);
		printf("%s: %s %s\n", what, name_of(ucm(fd, RDMA_USER_CM_CMD_NOTIFY, &notify, sizeof(notify), 0)),
		       name_of(ucm_write_event(fd, id, event, 0)));
	}
	for (size_t size = 270; size < 290; size += 2) {
		struct rdma_ucm_connect connect = { .id = id, .conn_param = ucm_param(NULL) };

		snprintf(what, sizeof(what), "connect and accept, %zu bytes", size);
		printf("%s: %s %s\n", what, name_of(ucm(fd, RDMA_USER_CM_CMD_CONNECT, &connect, size, 0)),
		       name_of(ucm(fd, RDMA_USER_CM_CMD_ACCEPT, &connect, size, 0)));
	}
	ucm_destroy(fd, id, NULL);
	ucm_create(fd, RDMA_PS_TCP, 0, &id);
	line("write_cm_event of who has no name", ucm_write_event(fd, id, USER_EVENT, 0));
	ucm_destroy(fd, id, NULL);
}

/* Questions
 * ---------------------------------------------------------------------------------------------------------------------- */

static void hex(const char *what, const void *from, size_t size)
{
	const uint8_t *bytes = from;

	printf("%s:", what);
	for (size_t i = 0; i < size; i++)
		printf("%s%02x", i % 4 ? "" : " ", bytes[i]);
	printf("\n");
}

/* Ports that the kernel has chosen, GUIDs and indices of devices differ. */
static void print_addresses(const char *what, struct rdma_ucm_query_addr_resp *got)
{
	bool is_gid = ((struct sockaddr *)&got->src_addr)->sa_family == 27;

	printf("%s: port %u, P_Key %#x, sizes %u and %u, a GUID %d, an index %d\n", what, got->port_num, ntohs(got->pkey), got->src_size, got->dst_size,
	       !!got->node_guid, got->ibdev_index != ~0u);
	if (!is_gid)
		((struct sockaddr_in *)&got->src_addr)->sin_port = 0;
	else
		memset((char *)&got->src_addr + 30, 0, 2);
	hex("source", &got->src_addr, 48);
	hex("destination", &got->dst_addr, 48);
}

static void questions(int fd, size_t state)
{
	struct rdma_ucm_query_addr_resp addresses;
	struct rdma_ucm_query_route_resp route;
	static uint8_t list[1024];
	uint32_t id = in_state(fd, fd, state);
	char what[64];

	printf("== questions: %s\n", states[state]);
	for (uint32_t option = 0; option < 6; option++) {
		for (uint32_t room = 0; room < 1024; room += room < 16 ? 8 : room < 280 ? 24 : 200) {
			struct rdma_ucm_query query = { .id = id, .option = option, .response = (uintptr_t)list };
			int error, last = -1;

			memset(list, 0xee, sizeof(list));
			error = ucm(fd, RDMA_USER_CM_CMD_QUERY, &query, sizeof(query), room);
			for (size_t i = 0; i < sizeof(list); i++)
				if (list[i] != 0xee)
					last = i;
			snprintf(what, sizeof(what), "option %u, room for %u", option, room);
			printf("%s: %s, up to %d\n", what, name_of(error), last);
			query.response = 8;
			if (!error)
				line("an answer that cannot be written", ucm(fd, RDMA_USER_CM_CMD_QUERY, &query, sizeof(query), room));
		}
	}
	for (uint32_t option = 0; option < 3; option += 2) {
		struct rdma_ucm_query query = { .id = id, .option = option, .response = (uintptr_t)&addresses };

		addresses.ibdev_index = ~0u;
		ucm(fd, RDMA_USER_CM_CMD_QUERY, &query, sizeof(query), sizeof(addresses));
		print_addresses(option ? "as GIDs" : "addresses", &addresses);
	}
	struct rdma_ucm_query query = { .id = id, .option = RDMA_USER_CM_QUERY_PATH, .response = (uintptr_t)list };

	memset(list, 0, sizeof(list));
	ucm(fd, RDMA_USER_CM_CMD_QUERY, &query, sizeof(query), sizeof(list));
	/* What depends on hardware addresses and on ports. */
	memset(list + 56, 0, 7);
	hex("paths", list, 80);
	query.response = (uintptr_t)&route;
	for (uint32_t room = 192; room <= sizeof(route); room += 4) {
		snprintf(what, sizeof(what), "query_route, room for %u", room);
		line(what, ucm(fd, RDMA_USER_CM_CMD_QUERY_ROUTE, &query, sizeof(query), room));
	}
	memset(&route, 0, sizeof(route));
	ucm(fd, RDMA_USER_CM_CMD_QUERY_ROUTE, &query, sizeof(query), sizeof(route));
	printf("paths %u, port %u, a GUID %d\n", route.num_paths, route.port_num, !!route.node_guid);
	route.src_addr.sin6_port = 0;
	route.ib_route[0].flow_label = 0;
	hex("path", &route.ib_route[0], sizeof(route.ib_route[0]));
	hex("another", &route.ib_route[1], sizeof(route.ib_route[1]));
	hex("source", &route.src_addr, sizeof(route.src_addr));
	hex("destination", &route.dst_addr, sizeof(route.dst_addr));
	ucm_destroy(fd, id, NULL);
}

/* Events
 * ---------------------------------------------------------------------------------------------------------------------- */

static uint32_t print_event(const char *whose, int fd, int ms, bool is_ud)
{
	struct rdma_ucm_event_resp event;
	int error = ucm_event(fd, &event, ms);

	if (error) {
		line(whose, error);
		return ~0u;
	}
	printf("%s: event %u, uid %llu, status %d, ECE %#x %#x\n", whose, event.event, (unsigned long long)event.uid, (int)event.status,
	       event.ece.vendor_id, event.ece.attr_mod);
	if ((event.event == CONNECT_REQUEST || event.event == CONNECT_RESPONSE) && !is_ud)
		event.param.conn.qp_num = (event.param.conn.qp_num - ucm_first_qp) & 0xffffff;
	if (is_ud)
		printf("  datagrams: QP %#x, Q_Key %#x, %u bytes, global %u, port %u\n", event.param.ud.qp_num, event.param.ud.qkey,
		       event.param.ud.private_data_len, event.param.ud.ah_attr.is_global, event.param.ud.ah_attr.port_num);
	else
		printf("  connection: QP %#x, %u bytes \"%.8s\", resources %u and %u, retries %u and %u, flow %u, SRQ %u\n",
		       event.param.conn.qp_num, event.param.conn.private_data_len, event.param.conn.private_data,
		       event.param.conn.responder_resources, event.param.conn.initiator_depth, event.param.conn.retry_count,
		       event.param.conn.rnr_retry_count, event.param.conn.flow_control, event.param.conn.srq);
	return event.id;
}

/* An identifier of a client that may connect. */
static uint32_t client(int fd, uint64_t uid)
{
	uint32_t id;

	ucm_create(fd, RDMA_PS_TCP, uid, &id);
	ucm_resolve_addr(fd, id, PORT);
	ucm_told(fd, ADDR_RESOLVED, 5000);
	ucm_resolve_route(fd, id);
	ucm_told(fd, ROUTE_RESOLVED, 5000);
	return id;
}

static uint32_t listener(int fd, uint64_t uid, uint32_t backlog)
{
	uint32_t id;

	ucm_create(fd, RDMA_PS_TCP, uid, &id);
	ucm_bind(fd, id, PORT);
	ucm_listen(fd, id, backlog);
	return id;
}

static void connection(int fd, int server)
{
	uint32_t listening = listener(server, 11, 4), id = client(fd, 12), accepted, events;

	printf("== a connection\n");
	line("connect", ucm_connect(fd, id, "question"));
	line("connect again", ucm_connect(fd, id, "question"));
	accepted = print_event("server", server, 5000, false);
	line("accept", ucm_accept(server, accepted, 13, "answer", true));
	print_event("client", fd, 5000, false);
	line("confirm", ucm_accept(fd, id, 99, NULL, false));
	print_event("client", fd, 200, false);
	print_event("server", server, 5000, false);
	line("disconnect", ucm_disconnect(fd, id));
	print_event("server", server, 5000, false);
	line("disconnect too", ucm_disconnect(server, accepted));
	print_event("client", fd, 5000, false);
	number_line("the client goes", ucm_destroy(fd, id, &events), events);
	number_line("the accepted one goes", ucm_destroy(server, accepted, &events), events);
	number_line("the listener goes", ucm_destroy(server, listening, &events), events);
}

/* The program tells that data has come before the confirmation. */
static void notification(int fd, int server)
{
	uint32_t listening = listener(server, 11, 4), id = client(fd, 12), accepted;
	struct rdma_ucm_notify notify = { .event = IBV_EVENT_COMM_EST };

	printf("== data before the confirmation\n");
	ucm_connect(fd, id, NULL);
	accepted = print_event("server", server, 5000, false);
	notify.id = accepted;
	line("notify before the answer", ucm(server, RDMA_USER_CM_CMD_NOTIFY, &notify, sizeof(notify), 0));
	ucm_accept(server, accepted, 13, NULL, true);
	print_event("client", fd, 5000, false);
	line("notify", ucm(server, RDMA_USER_CM_CMD_NOTIFY, &notify, sizeof(notify), 0));
	print_event("server", server, 5000, false);
	line("notify again", ucm(server, RDMA_USER_CM_CMD_NOTIFY, &notify, sizeof(notify), 0));
	line("confirm", ucm_accept(fd, id, 99, NULL, false));
	print_event("server", server, 200, false);
	ucm_destroy(fd, id, NULL);
	ucm_destroy(server, accepted, NULL);
	ucm_destroy(server, listening, NULL);
	while (!ucm_event(fd, &(struct rdma_ucm_event_resp){}, 0) || !ucm_event(server, &(struct rdma_ucm_event_resp){}, 0));
}

/* One identifier goes the way that another one has found. */
static void path(int fd, int server)
{
	static uint32_t list[256];
	uint32_t listening = listener(server, 11, 4), found = client(fd, 12), id;
	struct rdma_ucm_query query = { .id = found, .option = RDMA_USER_CM_QUERY_PATH, .response = (uintptr_t)list };
	struct rdma_ucm_set_option set = { .level = RDMA_OPTION_IB, .optname = RDMA_OPTION_IB_PATH, .optlen = 72 };

	printf("== a path that the program sets\n");
	ucm_create(fd, RDMA_PS_TCP, 14, &id);
	set.id = id;
	set.optval = (uintptr_t)(list + 2);
	line("the path of another", ucm(fd, RDMA_USER_CM_CMD_QUERY, &query, sizeof(query), sizeof(list)));
	line("without a device", ucm(fd, RDMA_USER_CM_CMD_SET_OPTION, &set, sizeof(set), 0));
	ucm_resolve_addr(fd, id, PORT);
	print_event("its address", fd, 5000, false);
	set.optlen = 71;
	line("a part of it", ucm(fd, RDMA_USER_CM_CMD_SET_OPTION, &set, sizeof(set), 0));
	set.optlen = 72;
	list[2] ^= 1;
	line("other flags", ucm(fd, RDMA_USER_CM_CMD_SET_OPTION, &set, sizeof(set), 0));
	list[2] ^= 1;
	line("set", ucm(fd, RDMA_USER_CM_CMD_SET_OPTION, &set, sizeof(set), 0));
	print_event("its route", fd, 5000, false);
	line("set again", ucm(fd, RDMA_USER_CM_CMD_SET_OPTION, &set, sizeof(set), 0));
	line("connect", ucm_connect(fd, id, "question"));
	print_event("server", server, 5000, false);
	ucm_destroy(fd, id, NULL);
	ucm_destroy(fd, found, NULL);
	ucm_destroy(server, listening, NULL);
	while (!ucm_event(server, &(struct rdma_ucm_event_resp){}, 0));
}

static void rejection(int fd, int server)
{
	uint32_t listening = listener(server, 11, 4), id = client(fd, 12), asked, events;
	struct rdma_ucm_reject reject = { .private_data_len = 3, .private_data = "no" };

	printf("== a rejection\n");
	ucm_connect(fd, id, NULL);
	asked = print_event("server", server, 5000, false);
	reject.id = asked;
	line("reject", ucm(server, RDMA_USER_CM_CMD_REJECT, &reject, sizeof(reject), 0));
	print_event("client", fd, 5000, false);
	number_line("the client goes", ucm_destroy(fd, id, &events), events);
	number_line("the rejected one goes", ucm_destroy(server, asked, &events), events);
	id = client(fd, 12);
	ucm_connect(fd, id, NULL);
	asked = print_event("server", server, 5000, false);
	number_line("who is asked goes", ucm_destroy(server, asked, &events), events);
	print_event("client", fd, 5000, false);
	ucm_destroy(fd, id, NULL);
	number_line("the listener goes", ucm_destroy(server, listening, &events), events);
}

/* Requests that nobody takes. */
static void backlog(int fd, int server)
{
	uint32_t listening = listener(server, 11, 2), ids[3], events;
	int waiting = 0;

	printf("== a backlog\n");
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		ids[i] = client(fd, 20 + i);
		ucm_connect(fd, ids[i], NULL);
	}
	usleep(300000);
	number_line("the listener goes with its requests", ucm_destroy(server, listening, &events), events);
	line("which are gone", ucm_event(server, &(struct rdma_ucm_event_resp){}, 0));
	for (size_t i = 0; i < 2; i++)
		waiting += ucm_told(fd, REJECTED, 5000);
	printf("clients that were told: %d\n", waiting);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		ucm_destroy(fd, ids[i], NULL);
	while (!ucm_event(fd, &(struct rdma_ucm_event_resp){}, 0));
}

static void event_sizes(int fd)
{
	static const uint16_t rooms[] = { 0, 8, 292, 296, 323, 324, 325, 328, 336, 400 };
	uint8_t event[512];
	uint32_t id, events;

	printf("== room for events\n");
	ucm_create(fd, RDMA_PS_TCP, 0x1122334455667788, &id);
	for (size_t i = 0; i < ARRAY_SIZE(rooms); i++) {
		struct rdma_ucm_get_event get = { .response = (uintptr_t)event };
		int last = -1, error;

		ucm_write_event(fd, id, USER_EVENT, 0xa1a2a3a4a5a6a7a8);
		memset(event, 0xee, sizeof(event));
		error = ucm(fd, RDMA_USER_CM_CMD_GET_EVENT, &get, sizeof(get), rooms[i]);
		for (size_t at = 0; at < sizeof(event); at++)
			if (event[at] != 0xee)
				last = at;
		printf("%u: %s, up to %d\n", rooms[i], name_of(error), last);
		memset(event + 8, 0, 4);
		hex("its beginning", event, 32);
	}
	line("an event that cannot be written", ucm(fd, RDMA_USER_CM_CMD_GET_EVENT, &(struct rdma_ucm_get_event){ 8 }, 8, 336));
	printf("readable: %d\n", poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0));
	number_line("destroyed with what was not read", ucm_destroy(fd, id, &events), events);
	printf("readable: %d\n", poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0));
}

static void migration(int fd, int other)
{
	uint32_t id, events;
	int null = open("/dev/null", O_RDONLY);

	printf("== migration\n");
	ucm_create(fd, RDMA_PS_TCP, 31, &id);
	line("a file that is not open", ucm_migrate(other, 999, id, NULL));
	line("a file of another kind", ucm_migrate(other, null, id, NULL));
	line("an identifier that there is not", ucm_migrate(other, fd, 4000, NULL));
	line("the wrong file", ucm_migrate(fd, other, id, NULL));
	for (int i = 0; i < 3; i++)
		ucm_write_event(fd, id, USER_EVENT, i);
	print_event("before", fd, 0, false);
	number_line("it moves", ucm_migrate(other, fd, id, &events), events);
	print_event("the old file", fd, 0, false);
	line("its old file knows it no more", ucm_bind(fd, id, 0));
	print_event("the new file", other, 0, false);
	ucm_write_event(other, id, INTERNAL_EVENT, 9);
	print_event("the new file", other, 0, false);
	number_line("it stays where it is", ucm_migrate(other, other, id, &events), events);
	print_event("the new file", other, 0, false);
	number_line("destroyed", ucm_destroy(other, id, &events), events);
	close(null);
}

static void multicast(int fd, int other)
{
	uint32_t id, groups[3], events;

	printf("== multicast\n");
	ucm_create(fd, RDMA_PS_UDP, 41, &id);
	ucm_bind(fd, id, 0);
	number_line("join", ucm_join(fd, id, "239.1.2.7", 0, 42, &groups[0]), groups[0]);
	print_event("joined", fd, 5000, true);
	number_line("join to send only", ucm_join(fd, id, "239.1.2.8", 1, 43, &groups[1]), groups[1]);
	print_event("joined", fd, 5000, true);
	number_line("the same once more", ucm_join(fd, id, "239.1.2.7", 0, 44, &groups[2]), groups[2]);
	print_event("joined", fd, 5000, true);
	line("flags that there are not", ucm_join(fd, id, "239.1.2.7", 2, 44, &events));
	line("another file leaves", ucm_leave(other, groups[0], NULL));
	number_line("leave", ucm_leave(fd, groups[1], &events), events);
	line("leave again", ucm_leave(fd, groups[1], NULL));
	number_line("a number is used again", ucm_join(fd, id, "239.1.2.9", 0, 45, &groups[1]), groups[1]);
	usleep(200000);
	number_line("leave before the event is read", ucm_leave(fd, groups[1], &events), events);
	print_event("none", fd, 0, true);
	number_line("the identifier goes with its groups", ucm_destroy(fd, id, &events), events);
	line("which are gone", ucm_leave(fd, groups[0], NULL));
}

int main(int argc, char **argv)
{
	int fd, other;

	if (argc < 2 || inet_pton(AF_INET, argv[1], &ucm_here.sin_addr) != 1)
		die("usage: ADDRESS");
	ucm_first_qp = getpid() << 12;
	fd = ucm_open();
	other = ucm_open();
	file();
	all_states();
	creations(fd);
	sleeper(fd);
	bindings(fd);
	options(fd);
	values(fd);
	for (size_t state = 2; state < 9; state++)
		questions(fd, state);
	connection(fd, other);
	notification(fd, other);
	path(fd, other);
	rejection(fd, other);
	backlog(fd, other);
	event_sizes(fd);
	migration(fd, other);
	multicast(fd, other);
	printf("== the end\nreached\n");
	return 0;
}
