// SPDX-License-Identifier: GPL-2.0
/*
 * The files of user verbs: device files, completion channels, asynchronous events; and what becomes of them when the
 * device goes.
 *
 *   uverbs_files DEVICE GID_INDEX NETDEV     the files
 *   uverbs_files DEVICE GID_INDEX unplug     waits, says "ready", and expects the device to go
 */
#define _GNU_SOURCE
#include "verbs.h"

#include <fcntl.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

static struct end one, two;
static const struct setup usual;
static char node[256];
static void *volatile nowhere = (void *)8;

/* A case: fails with the errno and the line. */
#define TELL(name, good) do {						\
	int _errno = (errno = 0, !(good)) ? errno : -1;			\
	char _why[64];							\
	snprintf(_why, sizeof(_why), "line %d: %s", __LINE__, _errno > 0 ? strerror(_errno) : "wrong");	\
	verdict(name, _errno == -1, false, _why);			\
} while (0)

/* A system call fails in a certain way. */
static bool says(int wanted, long ret)
{
	return ret == -1 && errno == wanted;
}

static int ready_for(int fd, int ms)
{
	struct pollfd poller = { .fd = fd, .events = POLLIN };

	return poll(&poller, 1, ms) == 1 ? poller.revents : 0;
}

static void blocking(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, on ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

static int run(const char *format, const char *argument, int number)
{
	char command[256];

	snprintf(command, sizeof(command), format, number, argument);
	return system(command);
}

/* Device files
 * ------------------------------------------------------------------------------------------------------------------ */

static int alloc_pd(int fd, uint32_t *handle)
{
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_alloc_pd alloc;
	} command = { .header = { IB_USER_VERBS_CMD_ALLOC_PD, sizeof(command) / 4, sizeof(struct ib_uverbs_alloc_pd_resp) / 4 } };
	struct ib_uverbs_alloc_pd_resp answer = { 0 };
	int ret;

	command.alloc.response = (uintptr_t)&answer;
	ret = write(fd, &command, sizeof(command));
	if (handle)
		*handle = answer.pd_handle;
	return ret;
}

static int dealloc_pd(int fd, uint32_t handle)
{
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_dealloc_pd dealloc;
	} command = { .header = { IB_USER_VERBS_CMD_DEALLOC_PD, sizeof(command) / 4, 0 }, .dealloc = { handle } };

	return write(fd, &command, sizeof(command));
}

/* The number of the file of asynchronous events, or -1. */
static int get_context(int fd)
{
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_get_context get;
	} command = {
		.header = { IB_USER_VERBS_CMD_GET_CONTEXT, sizeof(command) / 4, sizeof(struct ib_uverbs_get_context_resp) / 4 },
	};
	struct ib_uverbs_get_context_resp answer = { 0 };

	command.get.response = (uintptr_t)&answer;
	return write(fd, &command, sizeof(command)) == sizeof(command) ? (int)answer.async_fd : -1;
}

static int create_channel(int fd)
{
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_create_comp_channel create;
	} command = {
		.header = { IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, sizeof(command) / 4,
			    sizeof(struct ib_uverbs_create_comp_channel_resp) / 4 },
	};
	struct ib_uverbs_create_comp_channel_resp answer = { 0 };

	command.create.response = (uintptr_t)&answer;
	return write(fd, &command, sizeof(command)) == sizeof(command) ? (int)answer.fd : -1;
}

static void device_files(void)
{
	int fd = open(node, O_RDWR | O_CLOEXEC), async;
	struct stat stat;
	char word[64];
	uint32_t pds[3];
	bool good;

	TELL("a node: a character device of major number 231, for everybody",
	     !fstat(fd, &stat) && S_ISCHR(stat.st_mode) && (stat.st_mode & 0777) == 0666 && major(stat.st_rdev) == 231);
	TELL("a device file has no position", says(ESPIPE, lseek(fd, 0, SEEK_SET)) && says(ESPIPE, pwrite(fd, word, 8, 0)));
	TELL("a device file is not read", says(EINVAL, read(fd, word, 8)));
	TELL("an unknown ioctl", says(ENOTTY, ioctl(fd, _IO('x', 1), 0)));
	TELL("a write of less than a header", says(EINVAL, write(fd, word, 4)));
	TELL("a write from nowhere", says(EFAULT, write(fd, nowhere, 64)));
	TELL("no object without a context", says(EINVAL, alloc_pd(fd, NULL)));
	TELL("no mapping without a context",
	     mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == EINVAL);

	async = get_context(fd);
	TELL("a context", async >= 0 && (fcntl(async, F_GETFD) & FD_CLOEXEC) && (fcntl(async, F_GETFL) & O_ACCMODE) == O_RDONLY);
	TELL("one context only", get_context(fd) == -1 && errno == EINVAL);
	TELL("no mapping at an offset that nobody gave",
	     mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 1 << 30) == MAP_FAILED && errno == EINVAL);
	good = alloc_pd(fd, &pds[0]) > 0 && alloc_pd(fd, &pds[1]) > 0;
	TELL("handles count up from 0", good && pds[0] == 0 && pds[1] == 1);
	TELL("a handle is used again", dealloc_pd(fd, 0) > 0 && alloc_pd(fd, &pds[2]) > 0 && pds[2] == 0);
	TELL("a handle that is none", says(ENOENT, dealloc_pd(fd, 77)));

	good = close(async) == 0 && alloc_pd(fd, NULL) > 0;
	TELL("the asynchronous events are not wanted any more", good);
	TELL("it closes", close(fd) == 0);
	good = true;
	for (int i = 0; i < 64; i++) {
		fd = open(node, O_RDWR);
		async = get_context(fd);
		/* Half of them with objects and events left, and in both orders. */
		if (i & 1)
			alloc_pd(fd, NULL);
		good = good && async >= 0 && !close(i & 2 ? fd : async) && !close(i & 2 ? async : fd);
	}
	TELL("open and close, 64 times", good);
}

static void contexts(void)
{
	int a = open(node, O_RDWR), b = open(node, O_RDWR);
	int async_a = get_context(a), async_b = get_context(b);
	uint32_t pd_a, pd_b;

	TELL("two files of a process: handles of their own",
	     alloc_pd(a, &pd_a) > 0 && alloc_pd(b, &pd_b) > 0 && pd_a == pd_b && dealloc_pd(a, pd_a) > 0 &&
	     says(ENOENT, dealloc_pd(a, pd_a)) && dealloc_pd(b, pd_b) > 0);
	close(a);
	TELL("closing one leaves the other", alloc_pd(b, &pd_b) > 0);
	close(async_a);
	close(async_b);
	close(b);
}

static void fork_and_credentials(void)
{
	int fd = open(node, O_RDWR), async = get_context(fd), status = -1;
	uint32_t handle;
	pid_t child;

	alloc_pd(fd, &handle);
	child = fork();
	if (!child)
		_exit(alloc_pd(fd, NULL) == -1 ? errno : 0);
	waitpid(child, &status, 0);
	TELL("a child does not write commands: its credentials are its own", WIFEXITED(status) && WEXITSTATUS(status) == EACCES);
	TELL("the file outlives the child", dealloc_pd(fd, handle) > 0);
	child = fork();
	if (!child) {
		if (setgid(65534) || setuid(65534))
			_exit(99);
		_exit(alloc_pd(fd, NULL) == -1 ? errno : 0);
	}
	waitpid(child, &status, 0);
	TELL("a write with other credentials than those of open", WIFEXITED(status) && WEXITSTATUS(status) == EACCES);
	child = fork();
	if (!child) {
		int own;

		if (setgid(65534) || setuid(65534))
			_exit(99);
		own = open(node, O_RDWR);
		_exit(own >= 0 && get_context(own) >= 0 && alloc_pd(own, NULL) > 0 ? 0 : 1);
	}
	waitpid(child, &status, 0);
	TELL("anybody opens a device", status == 0);
	close(async);
	close(fd);
}

struct reader {
	int fd;
	long ret;
	int error;
};

static void *read_one(void *argument)
{
	struct reader *reader = argument;
	char event[16];

	reader->ret = read(reader->fd, event, sizeof(event));
	reader->error = errno;
	return NULL;
}

static void close_under_a_reader(void)
{
	int fd = open(node, O_RDWR), async = get_context(fd);
	struct reader reader = { .fd = create_channel(fd) };
	struct timespec until;
	pthread_t thread;
	int joined;

	if (reader.fd < 0 || pthread_create(&thread, NULL, read_one, &reader))
		die("a reader");
	usleep(100000);
	close(fd);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 10;
	joined = pthread_timedjoin_np(thread, NULL, &until);
	TELL("the device file is closed under who reads a channel: EIO", !joined && reader.ret == -1 && reader.error == EIO);
	TELL("a channel of a file that was closed", (ready_for(reader.fd, 1000) & POLLERR) && says(EIO, read(reader.fd, &until, 8)));
	blocking(async, false);
	TELL("asynchronous events of a file that was closed: none", says(EAGAIN, read(async, &until, 16)));
	close(reader.fd);
	close(async);
}

static volatile bool stop;

static void *storm(void *argument)
{
	int fd = *(int *)argument;
	uint32_t handle;

	while (!stop)
		if (alloc_pd(fd, &handle) > 0)
			dealloc_pd(fd, handle);
	return NULL;
}

static void close_inside(void)
{
	bool good = true;

	for (int round = 0; round < 30; round++) {
		int fd = open(node, O_RDWR), async = get_context(fd);
		pthread_t threads[3];

		stop = false;
		for (int i = 0; i < 3; i++)
			good = good && !pthread_create(&threads[i], NULL, storm, &fd);
		usleep(2000);
		good = good && !close(fd);
		usleep(1000);
		stop = true;
		for (int i = 0; i < 3; i++)
			pthread_join(threads[i], NULL);
		close(async);
	}
	TELL("closed while other threads are inside, 30 times", good);
}

/* Completion channels
 * ------------------------------------------------------------------------------------------------------------------ */

/* A completion on the queue of `from`. */
static bool complete(struct end *from, struct end *to)
{
	struct ibv_sge sge = { .length = 8 };
	struct ibv_send_wr wr = request(from, to, IBV_WR_RDMA_WRITE, &sge);

	return !post(from, &wr);
}

/* An event of the queue of `from`, which takes its completion out. */
static bool event_of(struct end *from, struct end *to)
{
	return !ibv_req_notify_cq(from->cq, 0) && complete(from, to) && wait_wc(from, 5000).status == IBV_WC_SUCCESS;
}

static volatile sig_atomic_t signals;

static void count_signal(int signal)
{
	(void)signal;
	signals++;
}

static void channels(void)
{
	int fd = one.channel->fd, epoll = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN };
	uint64_t handle = 0, room[8] = { 0 };
	struct ibv_cq *cq;
	void *cq_context;
	bool good;

	blocking(fd, false);
	TELL("a channel: nothing at first", ready_for(fd, 0) == 0 && says(EAGAIN, read(fd, &handle, 8)));
	TELL("a channel is not written", says(EBADF, write(fd, &handle, 8)));
	good = event_of(&one, &two) && ready_for(fd, 5000) == POLLIN;
	TELL("a completion event: poll", good);
	TELL("a completion event: epoll", !epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) && epoll_wait(epoll, &event, 1, 1000) == 1);
	TELL("too little room: it stays", says(EINVAL, read(fd, &handle, 4)) && ready_for(fd, 0) == POLLIN);
	TELL("to nowhere: it is gone", says(EFAULT, read(fd, nowhere, 8)) && ready_for(fd, 0) == 0);
	/* The one that was lost was counted: destroying the queue would wait for it. */
	ibv_ack_cq_events(one.cq, 1);
	good = event_of(&one, &two) && ready_for(fd, 5000) && read(fd, room, sizeof(room)) == 8;
	TELL("it is 8 bytes: what the queue is called", good && room[0] == (uintptr_t)one.cq);
	ibv_ack_cq_events(one.cq, 1);
	good = complete(&one, &two) && wait_wc(&one, 5000).status == IBV_WC_SUCCESS;
	TELL("armed once, one event", good && ready_for(fd, 200) == 0);

	good = event_of(&two, &one) && event_of(&one, &two);
	TELL("each channel has its own", good && ready_for(two.channel->fd, 5000) && ready_for(fd, 5000) &&
	     !ibv_get_cq_event(one.channel, &cq, &cq_context) && cq == one.cq &&
	     !ibv_get_cq_event(two.channel, &cq, &cq_context) && cq == two.cq);
	ibv_ack_cq_events(one.cq, 1);
	ibv_ack_cq_events(two.cq, 1);

	signal(SIGIO, count_signal);
	fcntl(fd, F_SETOWN, getpid());
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC);
	good = event_of(&one, &two) && ready_for(fd, 5000);
	usleep(10000);
	TELL("O_ASYNC: a signal", good && signals >= 1);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_ASYNC);
	good = !ibv_get_cq_event(one.channel, &cq, &cq_context);
	ibv_ack_cq_events(one.cq, 1);
	signals = 0;
	good = good && event_of(&one, &two) && ready_for(fd, 5000) && !ibv_get_cq_event(one.channel, &cq, &cq_context);
	TELL("without O_ASYNC: none", good && signals == 0);
	ibv_ack_cq_events(one.cq, 1);
	close(epoll);
}

static void interrupted(void)
{
	struct sigaction action = { .sa_handler = count_signal };
	int fd = one.channel->fd;
	char event[8];

	blocking(fd, true);
	sigaction(SIGALRM, &action, NULL);
	alarm(1);
	TELL("a signal interrupts who waits", says(EINTR, read(fd, event, 8)));
	action.sa_flags = SA_RESTART;
	sigaction(SIGALRM, &action, NULL);
	blocking(fd, false);
}

/* Several queues on a channel: in the order of the completions. Destroying a queue takes its events along. */
static void ordered(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *queues[4], *got[3] = { 0 };
	struct end ends[4];
	void *cq_context;
	bool good = true;

	for (int i = 0; i < 4; i++) {
		end_init(&ends[i], &usual);
		ibv_destroy_qp(ends[i].qp);
		queues[i] = ibv_create_cq(context, 16, NULL, channel, 0);
		ends[i].qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){
			.qp_type = IBV_QPT_RC, .send_cq = queues[i], .recv_cq = queues[i], .cap = { 4, 4, 1, 1 } });
		if (!ends[i].qp || climb(ends[i].qp, IBV_QPS_RTS, &usual, ends[i].qp->qp_num))
			die("queues on a channel");
	}
	blocking(channel->fd, false);
	for (int i = 3; i >= 0; i--) {
		struct ibv_wc wc;
		long until = now_ms() + 5000;

		good = good && !ibv_req_notify_cq(queues[i], 0) && complete(&ends[i], &ends[i]);
		while (ibv_poll_cq(queues[i], 1, &wc) == 0 && now_ms() < until)
			usleep(200);
		usleep(20000);
	}
	ibv_destroy_qp(ends[1].qp);
	good = good && !ibv_destroy_cq(queues[1]);
	TELL("a queue that is destroyed takes its events along", good);
	for (int i = 0; i < 3; i++)
		if (ready_for(channel->fd, 1000))
			ibv_get_cq_event(channel, &got[i], &cq_context);
	TELL("events come in the order of the completions",
	     got[0] == queues[3] && got[1] == queues[2] && got[2] == queues[0] && ready_for(channel->fd, 0) == 0);
	for (int i = 0; i < 4; i++) {
		if (i != 1) {
			ibv_destroy_qp(ends[i].qp);
			ibv_ack_cq_events(queues[i], 1);
			ibv_destroy_cq(queues[i]);
		}
		ibv_destroy_cq(ends[i].cq);
		ibv_destroy_comp_channel(ends[i].channel);
		ibv_dereg_mr(ends[i].mr);
		free(ends[i].buffer);
	}
	ibv_destroy_comp_channel(channel);
}

/* A queue keeps working when its channel's file is closed; its events are nobody's. */
static void channel_goes_first(void)
{
	struct end end;
	bool good;
	int kept;

	end_init(&end, &usual);
	if (climb(end.qp, IBV_QPS_RTS, &usual, end.qp->qp_num))
		die("a queue pair");
	kept = end.channel->fd;
	end.channel->fd = -1;
	good = event_of(&end, &end) && !ibv_req_notify_cq(end.cq, 0) && !close(kept);
	good = good && complete(&end, &end) && wait_wc(&end, 5000).status == IBV_WC_SUCCESS && event_of(&end, &end);
	TELL("a channel is closed before its queue", good);
	end_destroy(&end);
}

/* Asynchronous events
 * ------------------------------------------------------------------------------------------------------------------ */

static int drain(int fd)
{
	struct ib_uverbs_async_event_desc event;
	int count = 0;

	while (read(fd, &event, sizeof(event)) == sizeof(event))
		count++;
	return count;
}

/* The library has not seen an event that was read. It must be told of one of a queue pair, for whose destruction it waits else. */
static void dropped(const struct ib_uverbs_async_event_desc *event)
{
	struct ibv_async_event told = { .element.qp = (struct ibv_qp *)(uintptr_t)event->element, .event_type = IBV_EVENT_QP_FATAL };

	if (event->event_type == IBV_EVENT_QP_FATAL)
		ibv_ack_async_event(&told);
}

/* An event of a type; those before it are dropped. */
static bool event_read(int fd, uint32_t type, uint64_t element, int ms)
{
	struct ib_uverbs_async_event_desc event;
	long until = now_ms() + ms;

	while (ready_for(fd, until > now_ms() ? until - now_ms() : 0)) {
		if (read(fd, &event, sizeof(event)) != sizeof(event))
			continue;
		if (event.event_type == type)
			return event.element == element && !event.reserved;
		dropped(&event);
	}
	return false;
}

static void port_events(const char *netdev)
{
	int other = open(node, O_RDWR), async = get_context(other), fd = context->async_fd;
	bool good;

	blocking(fd, false);
	blocking(async, false);
	drain(fd);
	drain(async);
	TELL("asynchronous events: nothing at first", says(EAGAIN, read(fd, node, 16)) && ready_for(fd, 0) == 0);
	good = !run("ip address add 10.0.0.%d/24 dev %s", netdev, 77);
	TELL("an address comes: every context hears of it",
	     good && event_read(fd, IBV_EVENT_GID_CHANGE, 1, 5000) && event_read(async, IBV_EVENT_GID_CHANGE, 1, 5000));
	run("ip address del 10.0.0.%d/24 dev %s", netdev, 77);
	event_read(fd, IBV_EVENT_GID_CHANGE, 1, 5000);
	usleep(100000);
	drain(fd);
	drain(async);
	good = !run("ip link set mtu %d dev %s down", netdev, 4200) && !run("ip link set mtu %d dev %s up", netdev, 4200);
	TELL("a port goes down and up, in order",
	     good && event_read(fd, IBV_EVENT_PORT_ERR, 1, 5000) && event_read(fd, IBV_EVENT_PORT_ACTIVE, 1, 5000));
	TELL("too little room: the event stays", ready_for(async, 1000) && says(EINVAL, read(async, node + 128, 8)) &&
	     event_read(async, IBV_EVENT_PORT_ERR, 1, 5000));
	close(async);
	close(other);
	sleep(1);
	drain(fd);
}

struct count {
	int fd;
	int count;
};

static void *count_events(void *argument)
{
	struct ib_uverbs_async_event_desc event;
	struct count *count = argument;

	while (!stop)
		if (ready_for(count->fd, 100) && read(count->fd, &event, sizeof(event)) == sizeof(event))
			count->count++;
	return NULL;
}

/* Eight readers of a file together see what one reader of another file sees. */
static void readers(const char *netdev)
{
	int first = open(node, O_RDWR), second = open(node, O_RDWR);
	int many = get_context(first), alone = get_context(second), sum = 0;
	struct count counts[9];
	pthread_t threads[9];

	blocking(many, false);
	blocking(alone, false);
	stop = false;
	for (int i = 0; i < 9; i++) {
		counts[i] = (struct count){ i < 8 ? many : alone };
		pthread_create(&threads[i], NULL, count_events, &counts[i]);
	}
	for (int i = 0; i < 10; i++) {
		run("ip address add 10.0.0.%d/24 dev %s", netdev, 100 + i);
		run("ip address del 10.0.0.%d/24 dev %s", netdev, 100 + i);
	}
	sleep(1);
	stop = true;
	for (int i = 0; i < 9; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 8; i++)
		sum += counts[i].count;
	TELL("eight readers: each event goes to one", sum == counts[8].count && sum >= 20);
	close(many);
	close(alone);
	close(first);
	close(second);
}

/* More completions than a queue has room for: an event of the queue, for its own context. */
static struct ibv_cq *overflow(struct end *end, struct ibv_qp **qp)
{
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .cap = { 64, 4, 1, 1 } };
	struct ibv_qp *kept = end->qp;

	*qp = cq ? ibv_create_qp(pd, &init) : NULL;
	if (!*qp || climb(*qp, IBV_QPS_RTS, &usual, (*qp)->qp_num))
		die("a small queue");
	end->qp = *qp;
	for (int i = 0; i < cq->cqe + 8; i++)
		complete(end, end);
	end->qp = kept;
	return cq;
}

static void object_events(void)
{
	int other = open(node, O_RDWR), async = get_context(other), fd = context->async_fd;
	struct ibv_async_event event;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	bool good;

	blocking(async, false);
	drain(fd);
	cq = overflow(&one, &qp);
	TELL("an overflow: an event of the queue", event_read(fd, IBV_EVENT_CQ_ERR, (uintptr_t)cq, 10000));
	TELL("of another context: none", drain(async) == 0);
	ibv_destroy_qp(qp);
	/* The library has not seen the event that was read, so it must be told that it was. */
	event = (struct ibv_async_event){ .element.cq = cq, .event_type = IBV_EVENT_CQ_ERR };
	ibv_ack_async_event(&event);
	TELL("what was read was counted: destroying does not wait", !ibv_destroy_cq(cq));
	usleep(100000);
	drain(fd);

	cq = overflow(&one, &qp);
	good = ready_for(fd, 10000);
	usleep(200000);
	ibv_destroy_qp(qp);
	good = good && !ibv_destroy_cq(cq);
	TELL("unread events go with their object", good && !event_read(fd, IBV_EVENT_CQ_ERR, (uintptr_t)cq, 300));
	close(async);
	close(other);
}

/* The device goes
 * ------------------------------------------------------------------------------------------------------------------ */

static void unplugged(void)
{
	struct reader reader = { .fd = two.channel->fd };
	struct ib_uverbs_async_event_desc event = { 0 };
	struct ibv_port_attr port;
	struct timespec until;
	pthread_t thread;
	bool good;
	int idle = open(node, O_RDWR), fd = context->async_fd;

	blocking(fd, false);
	blocking(one.channel->fd, false);
	drain(fd);
	good = event_of(&one, &two) && ready_for(one.channel->fd, 5000);
	if (pthread_create(&thread, NULL, read_one, &reader))
		die("a reader");
	printf("ready\n");
	fflush(stdout);

	do {
		event.event_type = 0;
	} while (ready_for(fd, 30000) && read(fd, &event, sizeof(event)) == sizeof(event) &&
		 event.event_type != IBV_EVENT_DEVICE_FATAL);
	TELL("the device goes: an event says so", event.event_type == IBV_EVENT_DEVICE_FATAL && event.element == 0);
	TELL("it is the last", says(EAGAIN, read(fd, &event, sizeof(event))));
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 10;
	good = good && !pthread_timedjoin_np(thread, NULL, &until);
	TELL("who waits on a channel: EIO", good && reader.ret == -1 && reader.error == EIO);
	TELL("a channel: an error", (ready_for(one.channel->fd, 1000) & POLLERR) && says(EIO, read(one.channel->fd, &event, 8)));
	TELL("write: EIO", says(EIO, alloc_pd(context->cmd_fd, NULL)));
	TELL("write of a file without a context: EIO", get_context(idle) == -1 && errno == EIO);
	TELL("verbs: EIO", ibv_query_port(context, 1, &port) == EIO && !ibv_alloc_pd(context) && errno == EIO);
	TELL("mmap: EIO", mmap(NULL, 4096, PROT_READ, MAP_SHARED, context->cmd_fd, 0) == MAP_FAILED && errno == EIO);
	good = ibv_poll_cq(one.cq, 1, &(struct ibv_wc){ 0 }) >= 0;
	complete(&one, &two);
	TELL("the queues can be touched", good);
	TELL("the node is gone", open(node, O_RDWR) == -1 && (errno == ENOENT || errno == ENXIO));
	close(idle);
	end_destroy(&one);
	end_destroy(&two);
	ibv_dealloc_pd(pd);
	TELL("the context closes", !ibv_close_device(context));
}

int main(int argc, char **argv)
{
	open_device(argc, argv);
	snprintf(node, sizeof(node), "/dev/infiniband/%s", context->device->dev_name);
	pair_init(&one, &two, &usual);
	if (argc > 3 && !strcmp(argv[3], "unplug")) {
		unplugged();
		return all_done();
	}
	device_files();
	contexts();
	fork_and_credentials();
	close_under_a_reader();
	close_inside();
	channels();
	interrupted();
	ordered();
	channel_goes_first();
	if (argc > 3) {
		port_events(argv[3]);
		snprintf(node, sizeof(node), "/dev/infiniband/%s", context->device->dev_name);
		readers(argv[3]);
	}
	object_events();
	/* The rest goes with the process. */
	return all_done();
}
