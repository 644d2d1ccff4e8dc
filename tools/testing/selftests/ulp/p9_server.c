// SPDX-License-Identifier: GPL-2.0
/*
 * The smallest server of 9P2000.L over RDMA: a directory with one file, "data", of the size that it has; one client.
 *
 *	p9_server ADDRESS PORT FILE
 *
 * It ends when the client has gone.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH 64
#define MSIZE (64 << 10)
#define FIDS 4096

/* What it answers is the type plus one. */
enum {
	RLERROR = 7, TSTATFS = 8, TLOPEN = 12, TGETATTR = 24, TSETATTR = 26, TREADDIR = 40, TFSYNC = 50, TVERSION = 100, TATTACH = 104,
	TFLUSH = 108, TWALK = 110, TREAD = 116, TWRITE = 118, TCLUNK = 120,
};
enum { NONE, ROOT, DATA };

static unsigned char *file;
static uint64_t size;
static unsigned char fids[FIDS];
static unsigned char requests[DEPTH][MSIZE], answer[MSIZE];
static struct ibv_mr *requests_mr, *answer_mr;
static struct rdma_cm_id *id;

/* A message, from front to end; all numbers are little-endian, as the machine's. */
struct cursor {
	unsigned char *at, *end;
};

static uint64_t get(struct cursor *in, unsigned int bytes)
{
	uint64_t value = 0;

	if (in->end - in->at < bytes)
		errx(1, "a request is too short");
	memcpy(&value, in->at, bytes);
	in->at += bytes;
	return value;
}

static void put(struct cursor *out, uint64_t value, unsigned int bytes)
{
	if (out->end - out->at < bytes)
		errx(1, "an answer is too long");
	memcpy(out->at, &value, bytes);
	out->at += bytes;
}

static void put_text(struct cursor *out, const char *text)
{
	put(out, strlen(text), 2);
	for (; *text; text++)
		put(out, *text, 1);
}

static void put_qid(struct cursor *out, int what)
{
	put(out, what == ROOT ? 0x80 : 0, 1);
	put(out, 0, 4);
	put(out, what, 8);
}

static unsigned char *fid(struct cursor *in)
{
	uint32_t number = get(in, 4);

	if (number >= FIDS)
		errx(1, "fid %u", number);
	return &fids[number];
}

static int walk(struct cursor *in, struct cursor *out)
{
	unsigned char *from = fid(in), *to = fid(in);
	unsigned int names = get(in, 2), length;

	if (names > 1 || (names && *from != ROOT))
		return ENOENT;
	if (names) {
		length = get(in, 2);
		if (length != 4 || in->end - in->at < 4 || memcmp(in->at, "data", 4))
			return ENOENT;
	}
	*to = names ? DATA : *from;
	put(out, names, 2);
	if (names)
		put_qid(out, DATA);
	return 0;
}

static void getattr(struct cursor *in, struct cursor *out)
{
	int what = *fid(in);

	put(out, 0x7ff, 8); /* all basic ones */
	put_qid(out, what);
	put(out, what == ROOT ? S_IFDIR | 0755 : S_IFREG | 0644, 4);
	put(out, 0, 8); /* owner and group */
	put(out, 1, 8);
	put(out, 0, 8);
	put(out, what == ROOT ? 0 : size, 8);
	put(out, 4096, 8);
	put(out, size / 512, 8);
	for (int i = 0; i < 10; i++) /* four times, generation, version */
		put(out, 0, 8);
}

static void statfs(struct cursor *out)
{
	put(out, 0x01021997, 4);
	put(out, 4096, 4);
	for (int i = 0; i < 6; i++)
		put(out, 1, 8);
	put(out, 255, 4);
}

static void readdir(struct cursor *in, struct cursor *out)
{
	fid(in);
	if (get(in, 8)) {
		put(out, 0, 4);
		return;
	}
	put(out, 13 + 8 + 1 + 2 + 4, 4);
	put_qid(out, DATA);
	put(out, 1, 8);
	put(out, 8, 1);
	put_text(out, "data");
}

static int read_write(struct cursor *in, struct cursor *out, bool write)
{
	int what = *fid(in);
	uint64_t offset = get(in, 8);
	uint32_t count = get(in, 4);

	if (what != DATA)
		return EISDIR;
	if (write && (offset > size || count > size - offset))
		return ENOSPC;
	if (offset > size)
		offset = size;
	if (count > size - offset)
		count = size - offset;
	put(out, count, 4);
	if (write ? in->end - in->at < count : out->end - out->at < count)
		return EINVAL;
	if (write) {
		memcpy(file + offset, in->at, count);
	} else {
		memcpy(out->at, file + offset, count);
		out->at += count;
	}
	return 0;
}

/* Puts the answer behind the header; returns an errno. */
static int answer_to(int type, struct cursor *in, struct cursor *out)
{
	unsigned char *what;

	switch (type) {
	case TVERSION:
		put(out, get(in, 4) < MSIZE ? *(uint32_t *)(in->at - 4) : MSIZE, 4);
		put_text(out, "9P2000.L");
		return 0;
	case TATTACH:
		*fid(in) = ROOT;
		put_qid(out, ROOT);
		return 0;
	case TWALK:
		return walk(in, out);
	case TLOPEN:
		what = fid(in);
		put_qid(out, *what);
		put(out, 0, 4);
		return 0;
	case TGETATTR:
		getattr(in, out);
		return 0;
	case TSTATFS:
		statfs(out);
		return 0;
	case TREADDIR:
		readdir(in, out);
		return 0;
	case TREAD:
	case TWRITE:
		return read_write(in, out, type == TWRITE);
	case TCLUNK:
		*fid(in) = NONE;
		return 0;
	case TSETATTR:
	case TFSYNC:
	case TFLUSH:
		return 0;
	default:
		return EOPNOTSUPP;
	}
}

static void serve(struct ibv_wc *wc)
{
	unsigned char *request = requests[wc->wr_id];
	struct cursor in = { request + 4, request + wc->byte_len }, out = { answer + 7, answer + MSIZE };
	int type = get(&in, 1), tag = get(&in, 2), error = answer_to(type, &in, &out);
	struct ibv_wc done;

	if (error) {
		out.at = answer + 7;
		put(&out, error, 4);
	}
	in.at = answer;
	in.end = answer + 7;
	put(&in, out.at - answer, 4);
	put(&in, error ? RLERROR : type + 1, 1);
	put(&in, tag, 2);
	if (rdma_post_recv(id, (void *)wc->wr_id, request, MSIZE, requests_mr))
		err(1, "post receive");
	if (rdma_post_send(id, NULL, answer, out.at - answer, answer_mr, IBV_SEND_SIGNALED))
		err(1, "post send");
	if (rdma_get_send_comp(id, &done) != 1 || done.status != IBV_WC_SUCCESS)
		errx(1, "send: %s", ibv_wc_status_str(done.status));
}

/* The client has gone: an event says so. */
static bool gone(void)
{
	struct rdma_cm_event *event;
	bool end;

	if (rdma_get_cm_event(id->channel, &event))
		err(1, "event");
	end = event->event == RDMA_CM_EVENT_DISCONNECTED;
	rdma_ack_cm_event(event);
	return end;
}

static void serve_all(void)
{
	struct pollfd files[] = { { .fd = id->recv_cq_channel->fd, .events = POLLIN }, { .fd = id->channel->fd, .events = POLLIN } };
	unsigned long served = 0;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	for (;;) {
		if (ibv_req_notify_cq(id->recv_cq, 0))
			err(1, "notify");
		while (ibv_poll_cq(id->recv_cq, 1, &wc) == 1) {
			if (wc.status == IBV_WC_SUCCESS)
				serve(&wc);
			else if (wc.status != IBV_WC_WR_FLUSH_ERR)
				errx(1, "receive: %s", ibv_wc_status_str(wc.status));
			served++;
		}
		if (poll(files, 2, -1) < 0)
			err(1, "poll");
		if (files[0].revents && !ibv_get_cq_event(id->recv_cq_channel, &cq, &context))
			ibv_ack_cq_events(cq, 1);
		if (files[1].revents && gone())
			break;
	}
	printf("%lu requests\n", served);
}

static void open_file(const char *path)
{
	int fd = open(path, O_RDWR);
	struct stat about;

	if (fd < 0 || fstat(fd, &about))
		err(1, "%s", path);
	size = about.st_size;
	file = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		err(1, "map %s", path);
}

static void connected(char *address, char *port)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *found;
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 }, .sq_sig_all = 1,
	};
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	struct rdma_cm_id *listener;

	if (rdma_getaddrinfo(address, port, &hints, &found) || rdma_create_ep(&listener, found, NULL, &attr) || rdma_listen(listener, 1))
		err(1, "listen");
	if (rdma_get_request(listener, &id))
		err(1, "request");
	requests_mr = rdma_reg_msgs(id, requests, sizeof(requests));
	answer_mr = rdma_reg_msgs(id, answer, sizeof(answer));
	if (!requests_mr || !answer_mr)
		err(1, "register");
	for (uintptr_t i = 0; i < DEPTH; i++)
		if (rdma_post_recv(id, (void *)i, requests[i], MSIZE, requests_mr))
			err(1, "post receive");
	if (rdma_accept(id, &param))
		err(1, "accept");
	rdma_destroy_ep(listener);
	rdma_freeaddrinfo(found);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		errx(2, "usage: p9_server ADDRESS PORT FILE");
	open_file(argv[3]);
	connected(argv[1], argv[2]);
	serve_all();
	rdma_dereg_mr(requests_mr);
	rdma_dereg_mr(answer_mr);
	rdma_destroy_ep(id);
	return 0;
}
