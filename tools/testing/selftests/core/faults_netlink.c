// SPDX-License-Identifier: GPL-2.0
/*
 * Commands of RDMA netlink in which each allocation of the kernel fails in turn (faults.h).
 *
 *	faults_netlink DEVICE queries		queries about DEVICE, and its name
 *	faults_netlink DEVICE link NETDEV	a link is added on NETDEV and deleted
 *	faults_netlink DEVICE netdev NETDEV	NETDEV, that of DEVICE, gets another name
 *	faults_netlink DEVICE NAMESPACE		DEVICE is moved to the namespace of that file, and back
 *	faults_netlink DEVICE			the mode of namespaces is changed
 */
#include "faults.h"
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

static const char *device, *netdev;
static uint32_t device_index, spare_index;
static int other_namespace, own_namespace;

#define SPARE "spare0"
#define RENAMED "spare1"
#define RENAMED_NETDEV "renamed0"

/* Devices
 * ------------------------------------------------------------------------------------------------------------------ */

struct wanted {
	const char *name;
	uint32_t index;
};

static void find(const struct nlmsghdr *header, void *argument)
{
	struct wanted *wanted = argument;
	uint32_t index = 0;
	bool is = false;

	attr_each(attr, NLMSG_DATA(header), header->nlmsg_len - NLMSG_HDRLEN) {
		if (attr_type(attr) == RDMA_NLDEV_ATTR_DEV_NAME)
			is = !strcmp(attr_data(attr), wanted->name);
		if (attr_type(attr) == RDMA_NLDEV_ATTR_DEV_INDEX)
			memcpy(&index, attr_data(attr), sizeof(index));
	}
	if (is)
		wanted->index = index + 1;
}

/* The index of a device plus one, or zero. */
static uint32_t index_of(const char *name)
{
	struct wanted wanted = { name, 0 };
	struct message message;

	message_init(&message, RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
	return ask(&message, find, &wanted) ? 0 : wanted.index;
}

static void say_entries(struct state *state, const char *path, const char *name)
{
	char full[300];

	snprintf(full, sizeof(full), path, name);
	say_directory(state, full);
}

/* The device has what a device has: a port, GIDs, user space's file, a file for management datagrams. */
static void say_device(struct state *state, const char *name)
{
	char path[300], gid[64];
	FILE *file;

	state->length = 0;
	say_entries(state, "/sys/class/infiniband/%s", name);
	say_entries(state, "/sys/class/infiniband/%s/ports/1", name);
	say_entries(state, "/sys/class/infiniband/%s/ports/1/hw_counters", name);
	say_entries(state, "/sys/class/infiniband/%s/device/infiniband_mad", name);
	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/gids/%d", name, i);
		file = fopen(path, "r");
		say(state, "gid %d: %s", i, file && fgets(gid, sizeof(gid), file) ? gid : "none\n");
		if (file)
			fclose(file);
	}
}

/* Links
 * ------------------------------------------------------------------------------------------------------------------ */

static int add_link(void)
{
	struct message message;

	message_init(&message, RDMA_NLDEV_CMD_NEWLINK, NLM_F_ACK);
	message_text(&message, RDMA_NLDEV_ATTR_DEV_NAME, SPARE);
	message_text(&message, RDMA_NLDEV_ATTR_LINK_TYPE, "rxe");
	message_text(&message, RDMA_NLDEV_ATTR_NDEV_NAME, netdev);
	return ask(&message, NULL, NULL);
}

static int delete_device(uint32_t index)
{
	struct message message;

	message_init(&message, RDMA_NLDEV_CMD_DELLINK, NLM_F_ACK);
	message_u32(&message, RDMA_NLDEV_ATTR_DEV_INDEX, index - 1);
	return ask(&message, NULL, NULL);
}

/* What a link has that was made without a fault. */
static struct state whole;

static void link_gone(void)
{
	uint32_t index = index_of(SPARE);

	if (index)
		delete_device(index);
}

/* A link that is there despite a fault must be a whole one, too. GIDs may come a little later. */
static void whole_link_gone(void)
{
	struct state now;

	for (int i = 0; i < 40; i++) {
		say_device(&now, SPARE);
		if (!strcmp(whole.text, now.text))
			break;
		usleep(i * 5000);
	}
	if (strcmp(whole.text, now.text))
		printf("fail|link add|it succeeded, but made a part only\n%s\n%s\n", whole.text, now.text);
	link_gone();
}

static int spare_link(void)
{
	int error = add_link();

	spare_index = index_of(SPARE);
	return error ?: spare_index ? 0 : ENODEV;
}

static int delete_link(void) { return delete_device(spare_index); }

/* The answer may be what could not be allocated: a link that is there despite an error must be a whole one. */
static int add_link_or_lose_answer(void)
{
	int error = add_link();

	return error == ENOBUFS && index_of(SPARE) ? 0 : error;
}
static int delete_link_or_lose_answer(void)
{
	int error = delete_link();

	return error == ENOBUFS && !index_of(SPARE) ? 0 : error;
}

/* Changes of a device
 * ------------------------------------------------------------------------------------------------------------------ */

static int rename_to(const char *name)
{
	struct message message;

	message_init(&message, RDMA_NLDEV_CMD_SET, NLM_F_ACK);
	message_u32(&message, RDMA_NLDEV_ATTR_DEV_INDEX, device_index - 1);
	message_text(&message, RDMA_NLDEV_ATTR_DEV_NAME, name);
	return ask(&message, NULL, NULL);
}
static int rename_device(void)
{
	int error = rename_to(RENAMED);

	return error == ENOBUFS && index_of(RENAMED) ? 0 : error;
}
static void rename_back(void) { rename_to(device); }

static int netdev_name(const char *from, const char *to)
{
	struct ifreq request = { 0 };
	int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int error;

	if (any < 0)
		return errno;
	strncpy(request.ifr_name, from, IFNAMSIZ - 1);
	strncpy(request.ifr_newname, to, IFNAMSIZ - 1);
	error = ioctl(any, SIOCSIFNAME, &request) ? errno : 0;
	close(any);
	return error;
}
static int rename_netdev(void) { return netdev_name(netdev, RENAMED_NETDEV); }
static void rename_netdev_back(void) { netdev_name(RENAMED_NETDEV, netdev); }

static int move_to(int namespace)
{
	struct message message;

	message_init(&message, RDMA_NLDEV_CMD_SET, NLM_F_ACK);
	message_u32(&message, RDMA_NLDEV_ATTR_DEV_INDEX, device_index - 1);
	message_u32(&message, RDMA_NLDEV_NET_NS_FD, namespace);
	return ask(&message, NULL, NULL);
}

/* The kernel socket of this thread's namespace answers, so to come back means to go there. */
static int in_other(int (*what)(void))
{
	int back = nldev, error;

	if (setns(other_namespace, 0))
		return errno;
	nldev = -1;
	nldev_open();
	error = nldev < 0 ? errno : what();
	close(nldev);
	nldev = back;
	return setns(own_namespace, 0) ? errno : error;
}
static int come_back(void)
{
	device_index = index_of(device);
	return device_index ? move_to(own_namespace) : ENODEV;
}
static void back(void)
{
	int error = in_other(come_back);

	if (error)
		printf("the device does not come back: %s\n", strerrorname_np(error));
	device_index = index_of(device);
}
static int move_away(void)
{
	int error = move_to(other_namespace);

	return error == ENOBUFS && !index_of(device) ? 0 : error;
}

static int set_mode(int command, int attribute, uint8_t value)
{
	struct message message;

	message_init(&message, command, NLM_F_ACK);
	message_add(&message, attribute, &value, sizeof(value));
	return ask(&message, NULL, NULL);
}
static int shared(void) { return set_mode(RDMA_NLDEV_CMD_SYS_SET, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1); }
static int exclusive(void) { return set_mode(RDMA_NLDEV_CMD_SYS_SET, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 0); }
static void shared_again(void) { shared(); }

/* Queries
 * ------------------------------------------------------------------------------------------------------------------ */

static int dump(int command, bool of_device, bool of_port)
{
	struct message message;

	message_init(&message, command, NLM_F_DUMP);
	if (of_device)
		message_u32(&message, RDMA_NLDEV_ATTR_DEV_INDEX, device_index - 1);
	if (of_port)
		message_u32(&message, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	return ask(&message, NULL, NULL);
}
static int get(int command, int attribute, uint32_t value)
{
	struct message message;

	message_init(&message, command, NLM_F_ACK);
	if (command != RDMA_NLDEV_CMD_SYS_GET)
		message_u32(&message, RDMA_NLDEV_ATTR_DEV_INDEX, device_index - 1);
	if (attribute)
		message_u32(&message, attribute, value);
	return ask(&message, NULL, NULL);
}
#define DUMP(name, command) \
	static int dump_##name(void) { return dump(RDMA_NLDEV_CMD_##command, true, false); }
DUMP(port, PORT_GET)
DUMP(qp, RES_QP_GET)
DUMP(cq, RES_CQ_GET)
DUMP(mr, RES_MR_GET)
DUMP(pd, RES_PD_GET)
DUMP(cm_id, RES_CM_ID_GET)
DUMP(ctx, RES_CTX_GET)
DUMP(srq, RES_SRQ_GET)
static int dump_devices(void) { return dump(RDMA_NLDEV_CMD_GET, false, false); }
static int dump_summary(void) { return dump(RDMA_NLDEV_CMD_RES_GET, false, false); }
static int get_device(void) { return get(RDMA_NLDEV_CMD_GET, 0, 0); }
static int get_port(void) { return get(RDMA_NLDEV_CMD_PORT_GET, RDMA_NLDEV_ATTR_PORT_INDEX, 1); }
static int get_summary(void) { return get(RDMA_NLDEV_CMD_RES_GET, 0, 0); }
static int get_system(void) { return get(RDMA_NLDEV_CMD_SYS_GET, 0, 0); }
static int get_statistics(void) { return get(RDMA_NLDEV_CMD_STAT_GET, RDMA_NLDEV_ATTR_PORT_INDEX, 1); }
static int get_file(void)
{
	struct message message;

	message_init(&message, RDMA_NLDEV_CMD_GET_CHARDEV, NLM_F_ACK);
	message_u32(&message, RDMA_NLDEV_ATTR_DEV_INDEX, device_index - 1);
	message_text(&message, RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs");
	return ask(&message, NULL, NULL);
}

static int counter_mode(uint32_t mode)
{
	struct message message;

	message_init(&message, RDMA_NLDEV_CMD_STAT_SET, NLM_F_ACK);
	message_u32(&message, RDMA_NLDEV_ATTR_DEV_INDEX, device_index - 1);
	message_u32(&message, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
	message_u32(&message, RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP);
	message_u32(&message, RDMA_NLDEV_ATTR_STAT_MODE, mode);
	return ask(&message, NULL, NULL);
}
static int count_none(void) { return counter_mode(0); }

static const struct call calls[] = {
	{ "devices, dumped", NULL, dump_devices },
	{ "a device", NULL, get_device },
	{ "ports, dumped", NULL, dump_port },
	{ "a port", NULL, get_port },
	{ "the system", NULL, get_system },
	{ "a character device", NULL, get_file },
	{ "summaries of resources, dumped", NULL, dump_summary },
	{ "a summary of resources", NULL, get_summary },
	{ "QPs, dumped", NULL, dump_qp },
	{ "CQs, dumped", NULL, dump_cq },
	{ "MRs, dumped", NULL, dump_mr },
	{ "PDs, dumped", NULL, dump_pd },
	{ "CM ids, dumped", NULL, dump_cm_id },
	{ "contexts, dumped", NULL, dump_ctx },
	{ "SRQs, dumped", NULL, dump_srq },
	{ "statistics of a port", NULL, get_statistics },
	{ "the mode of QP counters", NULL, count_none },
	{ "rename", NULL, rename_device, rename_back },
};

/* They make and remove thousands of files: see faults_in of faults_lib.sh. */
static const struct call links[] = {
	{ "link add", NULL, add_link_or_lose_answer, whole_link_gone, .slow = 12, .costly = true },
	{ "link delete", spare_link, delete_link_or_lose_answer, .slow = 2 },
};

/* In the exclusive mode. */
static const struct call moves[] = { { "move to another namespace", NULL, move_away, back, .slow = 16 } };

/* RDMA's part is to tell of it, and which device now has the name. */
static const struct call netdevs[] = { { "another name of the net device", NULL, rename_netdev, rename_netdev_back } };

/* While there is one namespace only. */
static const struct call modes[] = {
	{ "namespaces: exclusive", NULL, exclusive, shared_again },
	{ "namespaces: shared", exclusive, shared },
};

#define EACH(calls) \
	do { \
		for (size_t i = 0; i < sizeof(calls) / sizeof((calls)[0]); i++) \
			each_allocation(&(calls)[i]); \
	} while (0)

/* What a link has, made anew. */
static int spare_has(struct state *state)
{
	int error = spare_link();

	sleep(1);
	say_device(state, SPARE);
	link_gone();
	return error;
}

static void compare(const char *what, const struct state *before, const struct state *now)
{
	bool same = !strcmp(before->text, now->text);

	if (!same)
		printf("%s\n%s\n", before->text, now->text);
	printf("%s|%s|see above\n", same ? "pass" : "fail", what);
}

int main(int argc, char **argv)
{
	static struct state now;
	int error;

	if (argc < 2)
		return 2;
	device = argv[1];
	faults_init();
	nldev_open();
	directories[0] = "/sys/class/infiniband";
	directories[1] = "/sys/class/infiniband_verbs";
	mlockall(MCL_CURRENT | MCL_FUTURE);
	device_index = index_of(device);
	if (argc == 2)
		EACH(modes);
	if (argc == 3 && !strcmp(argv[2], "queries")) {
		EACH(calls);
	} else if (argc == 3) {
		own_namespace = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
		other_namespace = open(argv[2], O_RDONLY | O_CLOEXEC);
		EACH(moves);
	}
	if (argc == 4)
		netdev = argv[3];
	if (argc == 4 && !strcmp(argv[2], "netdev")) {
		say_device(&whole, device);
		EACH(netdevs);
		say_device(&now, device);
		compare("the device is what it was", &whole, &now);
	} else if (argc == 4) {
		error = spare_has(&whole);
		EACH(links);
		error = error ?: spare_has(&now);
		if (error)
			printf("fail|a link without a fault|%s\n", strerrorname_np(error));
		compare("a link that is added afterwards has all that it had before", &whole, &now);
	}
	faults_done();
	return all_done();
}
