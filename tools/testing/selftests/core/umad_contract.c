// SPDX-License-Identifier: GPL-2.0
/*
 * The files of ib_umad by themselves: what they refuse, files that several processes have, 32-bit programs, ioctls of any kind, and
 * the place of a subnet manager.
 *
 *   umad_contract files DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX
 *   umad_contract ioctls DEVICE COUNT SEED	against a model of a file
 *   umad_contract seat FILE			an issm file that nobody has open
 *   umad_contract opens FILE...		opens and closes them, and registers agents, until it is killed
 */
#define _GNU_SOURCE
#include "umad.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static struct node client, server;

static void refused(int fd)
{
	char byte = 0;

	is("lseek: ESPIPE", lseek(fd, 0, SEEK_SET) == -1 && errno == ESPIPE, "no ESPIPE");
	is("pread: ESPIPE", pread(fd, &byte, 1, 0) == -1 && errno == ESPIPE, "no ESPIPE");
	is("mmap: ENODEV", mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == ENODEV, "no ENODEV");
	is("an unknown ioctl: ENOTTY", ioctl(fd, _IO(RDMA_IOCTL_MAGIC, 0x55), 0) && errno == ENOTTY, "no ENOTTY");
	is("a known number of another size: ENOTTY", ioctl(fd, _IOW(RDMA_IOCTL_MAGIC, 2, char), &byte) && errno == ENOTTY, "no ENOTTY");
}

/* A request to the server arrives; whoever has the file may read it. */
static bool arrives(int from, int agent, uint32_t tid)
{
	struct message request = message(agent, &client, &server, GET, tid), got;

	return !put_message(from, &request) && take_message(server.fd, &got, paced(2000)) == WHOLE && low(&got.mad) == tid;
}

static void duplicated(void)
{
	int fd = umad_open(client.device, 0), id = agent(fd, (struct wish){ .version = 2, .methods = { METHOD(SEND) } }), other = dup(fd);
	struct wish same = { .version = 2, .methods = { METHOD(SEND) } };

	close(fd);
	is("a descriptor closes, the file stays", arrives(other, id, 10), "nothing comes");
	fd = umad_open(client.device, 0);
	equal("and has its agent", -EINVAL, agent_new(fd, same));
	close(other);
	is("until the last one closes", agent_new(fd, same) == 0, "it has it still");
	close(fd);
}

static int exit_status(pid_t child)
{
	int status;

	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void forked(void)
{
	int fd = umad_open(client.device, 0), id = agent(fd, (struct wish){ .version = 2, .methods = { METHOD(SEND) } }), other, go[2];
	struct wish same = { .version = 2, .methods = { METHOD(SEND) } };
	char byte;
	pid_t child;

	child = fork();
	if (!child)
		_exit(!arrives(fd, id, 20));
	equal("a child sends by its parent's agent", 0, exit_status(child));
	is("and its end changes nothing", arrives(fd, id, 21), "nothing comes");
	if (pipe(go))
		die("pipe");
	child = fork();
	if (!child) {
		close(go[1]);
		_exit(read(go[0], &byte, 1) == 0 ? 0 : 1);
	}
	close(go[0]);
	close(fd);
	other = umad_open(client.device, 0);
	equal("the file lives on in a child", -EINVAL, agent_new(other, same));
	close(go[1]);
	equal("which ends", 0, exit_status(child));
	equal("and the file with it", 0, agent_new(other, same));
	close(other);
}

/* What one process waits for, another one gives it: an agent that is registered meanwhile. */
static void *reads(void *fd)
{
	struct message got;

	return (void *)(uintptr_t)(read((intptr_t)fd, &got, WHOLE) == WHOLE && got.hdr.id == 1 && low(&got.mad) == 30);
}

static void shared_by_threads(void)
{
	int fd = umad_open(server.device, 0);
	struct message request;
	pthread_t thread;
	void *good;
	int asks = agent(client.fd, (struct wish){ .version = 3 });

	agent(fd, (struct wish){ .send_only = true });
	pthread_create(&thread, NULL, reads, (void *)(intptr_t)fd);
	poll(NULL, 0, paced(100));
	equal("an agent is registered under a reader", 1, agent_new(fd, (struct wish){ .version = 3, .methods = { METHOD(GET) } }));
	equal("another one goes", 0, agent_gone(fd, 0));
	request = message(asks, &client, &server, GET, 30);
	request.mad.class_version = 3;
	put_message(client.fd, &request);
	pthread_join(thread, &good);
	is("the reader gets what comes to the new one", good, "something else");
	agent_gone(client.fd, asks);
	close(fd);
}

/* What was asked, and how long was waited, comes back with the time-out. */
static void unanswered(void)
{
	int fd = umad_open(client.device, 0), id = agent(fd, (struct wish){ .version = 2 });
	struct message request = message(id, &client, &server, GET, 35), got = {};

	request.hdr.timeout_ms = 77;
	request.hdr.length = 0x1234;
	put_message(fd, &request);
	equal("a time-out", HEADER + MAD_HEADER, take_message(fd, &got, paced(3000)));
	request.hdr.status = ETIMEDOUT;
	is("has the header as it was written", !memcmp(&got.hdr, &request.hdr, HEADER), "it differs");
	close(fd);
	drain(server.fd);
}

/* The layouts of headers: which one a file has, from when on. */
static void layouts(void)
{
	int fd = umad_open(client.device, 0);
	struct message short_one = message(0, &client, &server, GET, 40);
	struct ib_user_mad_reg_req old = { .qpn = 1, .mgmt_class = VENDOR, .mgmt_class_version = 4, .oui = { OUI >> 16, OUI >> 8 & 0xff, OUI & 0xff } };

	equal("a new file: less than the short header", -EINVAL, take(fd, &short_one, OLD_HEADER - 1, 0) == -EAGAIN ? read(fd, &short_one, OLD_HEADER - 1) == -1 ? -errno : 0 : 1);
	equal("no agent yet: EIO", -EIO, put(fd, &short_one, OLD_HEADER + RMPP_HEADER));
	equal("less than the short header and RMPP's", -EINVAL, put(fd, &short_one, OLD_HEADER + RMPP_HEADER - 1));
	equal("the long layout is enabled", 0, ioctl(fd, IB_USER_MAD_ENABLE_PKEY));
	equal("the same is too short then", -EINVAL, put(fd, &short_one, OLD_HEADER + RMPP_HEADER));
	equal("its own is not", -EIO, put(fd, &short_one, HEADER + RMPP_HEADER));
	close(fd);

	fd = umad_open(client.device, 0);
	old.qpn = 7;
	is("an agent that is refused", ioctl(fd, IB_USER_MAD_REGISTER_AGENT, &old) && errno == EINVAL, "taken");
	equal("leaves the choice of a layout", 0, ioctl(fd, IB_USER_MAD_ENABLE_PKEY));
	close(fd);

	fd = umad_open(client.device, 0);
	old.qpn = 1;
	ioctl(fd, IB_USER_MAD_REGISTER_AGENT, &old);
	agent_new(fd, (struct wish){ .version = 5 });
	short_one.hdr.id = 9;
	equal("after an agent of version 1 one of version 2 keeps the short layout", -EIO, put(fd, &short_one, OLD_HEADER + RMPP_HEADER));
	close(fd);
}

#ifdef __x86_64__
/* A system call of a 32-bit program. */
static int call32(uint32_t number, uint32_t one, uint32_t two, uint32_t three)
{
	long result;

	asm volatile("int $0x80" : "=a"(result) : "a"(number), "b"(one), "c"(two), "d"(three) : "memory", "r8", "r9", "r10", "r11");
	return (int)result;
}

static int ioctl32(int fd, uint32_t command, uint32_t argument) { return call32(54, fd, command, argument); }

/* Whether the kernel has them: getpid() in a process that may be killed for it. User Mode Linux takes it for another call. */
static bool has_32_bits(void)
{
	pid_t child = fork();

	if (!child)
		_exit(call32(20, -1, 0, 0) != getpid());
	return exit_status(child) == 0;
}

static void of_32_bits(void)
{
	char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	struct ib_user_mad_reg_req *one = (void *)memory;
	struct ib_user_mad_reg_req2 *two = (void *)(memory + 1024);
	uint32_t *id = (void *)(memory + 2048), methods[4] = { METHOD(GET), 1 << 8, 1 << 5, 1 << 3 };
	int fd = umad_open(client.device, 0), other = umad_open(client.device, 0);

	*one = (struct ib_user_mad_reg_req){ .qpn = 1, .mgmt_class = VENDOR, .mgmt_class_version = 6, .oui = { OUI >> 16, OUI >> 8 & 0xff, OUI & 0xff } };
	memcpy(one->method_mask, methods, sizeof(methods));
	*two = (struct ib_user_mad_reg_req2){ .qpn = 1, .mgmt_class = VENDOR, .mgmt_class_version = 7, .oui = OUI, .method_mask = { METHOD(GET), METHOD(9) } };
	equal("32 bits: the long layout", 0, ioctl32(fd, IB_USER_MAD_ENABLE_PKEY, 0));
	is("32 bits: an agent of version 1", !ioctl32(fd, IB_USER_MAD_REGISTER_AGENT, (uintptr_t)one) && one->id == 0, "refused");
	is("32 bits: an agent of version 2", !ioctl32(fd, IB_USER_MAD_REGISTER_AGENT2, (uintptr_t)two) && two->id == 1, "refused");
	for (int bit = 0; bit < 128; bit += bit == 1 ? 39 : bit == 40 ? 29 : bit == 69 ? 30 : 1) {
		bool taken = methods[bit / 32] >> bit % 32 & 1;
		struct wish wish = { .version = 6, .methods = { bit < 64 ? METHOD(bit) : 0, bit < 64 ? 0 : METHOD(bit - 64) } };
		int result = agent_new(other, wish);
		char name[64];

		if (!taken && bit != 0 && bit != 99)
			continue;
		snprintf(name, sizeof(name), "32 bits: method %d is %s", bit, taken ? "taken" : "free");
		is(name, taken ? result == -EINVAL : result >= 0, "it is not");
		if (result >= 0)
			agent_gone(other, result);
	}
	*id = 1;
	equal("32 bits: an agent goes", 0, ioctl32(fd, IB_USER_MAD_UNREGISTER_AGENT, (uintptr_t)id));
	equal("32 bits: once", -EINVAL, ioctl32(fd, IB_USER_MAD_UNREGISTER_AGENT, (uintptr_t)id));
	equal("32 bits: no memory", -EFAULT, ioctl32(fd, IB_USER_MAD_REGISTER_AGENT, 16));
	equal("32 bits: an unknown ioctl", -ENOTTY, ioctl32(fd, _IO(RDMA_IOCTL_MAGIC, 0x55), 0));
	munmap(memory, 4096);
	close(fd);
	close(other);
}
#endif

static void files(void)
{
	refused(client.fd);
	duplicated();
	forked();
	shared_by_threads();
	unanswered();
	layouts();
#ifdef __x86_64__
	if (has_32_bits())
		of_32_bits();
#endif
}

/* A file as it should be. */
static struct {
	bool used[AGENTS], was_used;
} model;

static uint64_t state;

static uint32_t any(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 11) % below;
}

static uint32_t odd_number(void)
{
	switch (any(4)) {
	case 0: return any(4);
	case 1: return ~any(4);
	case 2: return 1u << any(32);
	default: return any(0xffffffff);
	}
}

static int lowest(void)
{
	for (int id = 0; id < AGENTS; id++)
		if (!model.used[id])
			return id;
	return -1;
}

/* What both registrations have in common. `wrong`: what is refused before the core is asked. */
static bool registration_is_right(int result, int wrong, uint32_t id, uint32_t id_before)
{
	bool known = result == -EINVAL || result == -EPROTONOSUPPORT || result == -ENOMEM;

	if (wrong)
		return result == wrong && id == id_before;
	if (lowest() < 0)
		return result == -ENOMEM && id == id_before;
	if (result)
		return known && id == id_before;
	if ((int)id != lowest())
		return false;
	model.used[id] = model.was_used = true;
	return true;
}

static bool register_one(int fd)
{
	struct ib_user_mad_reg_req request;
	uint32_t before;
	int result;

	for (size_t i = 0; i < sizeof(request); i++)
		((uint8_t *)&request)[i] = any(256);
	if (any(4))
		request.qpn = any(3);
	if (any(2))
		request.mgmt_class = any(2) ? 0 : VENDOR + any(8);
	if (any(2))
		request.rmpp_version = any(2);
	before = request.id;
	result = ioctl(fd, IB_USER_MAD_REGISTER_AGENT, &request) ? -errno : 0;
	return registration_is_right(result, request.qpn > 1 ? -EINVAL : 0, request.id, before);
}

static bool register_two(int fd)
{
	struct ib_user_mad_reg_req2 request;
	uint32_t before, flags;
	int result, wrong;

	for (size_t i = 0; i < sizeof(request); i++)
		((uint8_t *)&request)[i] = any(256);
	if (any(4))
		request.qpn = any(3);
	request.flags = any(3) ? any(2) : odd_number();
	if (any(2))
		request.oui &= 0xffffff;
	if (any(2))
		request.mgmt_class = any(2) ? 0 : VENDOR + any(8);
	if (any(2))
		request.rmpp_version = any(2);
	before = request.id;
	flags = request.flags;
	wrong = request.qpn > 1 || flags & ~IB_USER_MAD_REG_FLAGS_CAP ? -EINVAL : 0;
	if (!wrong && lowest() >= 0 && request.mgmt_class && request.oui >> 24)
		wrong = -EINVAL;
	result = ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &request) ? -errno : 0;
	if (request.flags != (request.qpn < 2 && flags & ~IB_USER_MAD_REG_FLAGS_CAP ? IB_USER_MAD_REG_FLAGS_CAP : flags))
		return false;
	return registration_is_right(result, wrong, request.id, before);
}

static bool unregister(int fd)
{
	uint32_t id = any(2) ? any(AGENTS) : odd_number();
	bool there = id < AGENTS && model.used[id];

	if (agent_gone(fd, id) != (there ? 0 : -EINVAL))
		return false;
	if (there)
		model.used[id] = false;
	return true;
}

static bool enable(int fd) { return (ioctl(fd, IB_USER_MAD_ENABLE_PKEY, odd_number()) ? -errno : 0) == (model.was_used ? -EINVAL : 0); }

static bool unknown(int fd)
{
	uint32_t number = 5 + any(250), size = any(64);

	return ioctl(fd, _IOC(any(4), RDMA_IOCTL_MAGIC, number, size), odd_number()) && errno == ENOTTY;
}

static bool no_memory(int fd)
{
	static const unsigned long commands[] = { IB_USER_MAD_REGISTER_AGENT, IB_USER_MAD_REGISTER_AGENT2, IB_USER_MAD_UNREGISTER_AGENT };

	return ioctl(fd, commands[any(3)], any(2) ? (void *)(uintptr_t)any(4000) : (void *)-(uintptr_t)any(4000)) && errno == EFAULT;
}

static void ioctls(const char *device, long count)
{
	static const struct { const char *name; bool (*one)(int fd); } table[] = {
		{ "REGISTER_AGENT", register_one }, { "REGISTER_AGENT2", register_two }, { "UNREGISTER_AGENT", unregister },
		{ "ENABLE_PKEY", enable }, { "an unknown ioctl", unknown }, { "no memory", no_memory },
	};
	int fd = umad_open(device, 0);
	char why[80];

	for (long i = 0; i < count; i++) {
		uint32_t which = any(ARRAY_SIZE(table));

		if (any(200) == 0) {
			close(fd);
			fd = umad_open(device, 0);
			memset(&model, 0, sizeof(model));
		}
		if (table[which].one(fd))
			continue;
		snprintf(why, sizeof(why), "call %ld is answered wrongly: %s", i, strerror(errno));
		is(table[which].name, false, why);
		return;
	}
	is("all are answered as they should be", true, "");
	close(fd);
}

static const char *seat_path;

static void interrupted(int number) { (void)number; }

static void *waits(void *unused)
{
	int fd = open(seat_path, O_RDONLY | O_CLOEXEC);

	(void)unused;
	return (void *)(uintptr_t)(fd < 0 ? errno : 1000 + fd);
}

static void seat(const char *path)
{
	struct sigaction action = { .sa_handler = interrupted };
	int fd = open(path, O_RDWR | O_CLOEXEC), other = dup(fd);
	pthread_t thread;
	char byte = 0;
	void *got;

	seat_path = path;
	is("the place is free", fd >= 0 && other >= 0, strerror(errno));
	is("reading: EINVAL", read(fd, &byte, 1) == -1 && errno == EINVAL, "no EINVAL");
	is("writing: EINVAL", write(fd, &byte, 1) == -1 && errno == EINVAL, "no EINVAL");
	is("lseek: ESPIPE", lseek(fd, 0, SEEK_SET) == -1 && errno == ESPIPE, "no ESPIPE");
	is("an ioctl: ENOTTY", ioctl(fd, IB_USER_MAD_ENABLE_PKEY) && errno == ENOTTY, "no ENOTTY");
	is("another one: EAGAIN", open(path, O_RDONLY | O_NONBLOCK) == -1 && errno == EAGAIN, "no EAGAIN");
	close(fd);
	is("a descriptor closes, the place is taken", open(path, O_RDONLY | O_NONBLOCK) == -1 && errno == EAGAIN, "no EAGAIN");
	sigaction(SIGUSR1, &action, NULL);
	pthread_create(&thread, NULL, waits, NULL);
	poll(NULL, 0, paced(200));
	pthread_kill(thread, SIGUSR1);
	pthread_join(thread, &got);
	equal("a signal ends waiting", EINTR, (uintptr_t)got);
	pthread_create(&thread, NULL, waits, NULL);
	poll(NULL, 0, paced(200));
	close(other);
	pthread_join(thread, &got);
	is("who waits gets it", (uintptr_t)got > 1000, "no");
	is("and has it alone", open(path, O_RDONLY | O_NONBLOCK) == -1 && errno == EAGAIN, "no EAGAIN");
	close((uintptr_t)got - 1000);
	fd = open(path, O_RDONLY | O_NONBLOCK);
	is("then it is free", fd >= 0, strerror(errno));
	close(fd);
}

/* Devices come and go meanwhile. */
static void opens(char **paths, int count)
{
	puts("ready");
	fflush(stdout);
	for (uint32_t i = 0;; i++) {
		int fd = open(paths[i % count], O_RDWR | O_CLOEXEC | O_NONBLOCK);

		if (fd < 0)
			continue;
		agent_new(fd, (struct wish){ .version = 8, .methods = { METHOD(i % 64) } });
		if (i % 3)
			close(fd);
		else
			close(dup2(open("/dev/null", O_RDWR | O_CLOEXEC), fd));
	}
}

int main(int argc, char **argv)
{
	if (argc > 5 && !strcmp(argv[1], "files")) {
		node_open(&client, argv[2], argv[3]);
		node_open(&server, argv[4], argv[5]);
		agent(server.fd, (struct wish){ .methods = { METHOD(GET) } });
		files();
	} else if (argc > 4 && !strcmp(argv[1], "ioctls")) {
		state = atoll(argv[4]) * 2654435761u + 1;
		ioctls(argv[2], atol(argv[3]));
	} else if (argc > 2 && !strcmp(argv[1], "seat")) {
		seat(argv[2]);
	} else if (argc > 2 && !strcmp(argv[1], "opens")) {
		opens(argv + 2, argc - 2);
	} else {
		die("usage: files|ioctls|seat|opens ...");
	}
	return all_done();
}
