// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs that do what they are told: a command a line, and a line as the answer to each. For qp_counters.sh.
 *
 *   verbs_counters DEVICE GID_INDEX PEER    PEER: the IP address that they connect to
 *
 *   create rc|uc|ud          a queue pair in INIT, the next one from 0 on: its number
 *   new rc|uc|ud             the same in RESET
 *   connect NTH QPN          to a queue pair of the peer
 *   receive NTH COUNT        posts receives
 *   post NTH COUNT SIZE      posts sends
 *   send NTH COUNT SIZE      the same, and waits for them: the status of the last completion
 *   wait NTH COUNT           waits for sends or receives: the status of the last completion
 *   destroy NTH
 *   quit                     without an answer
 */
#include <arpa/inet.h>
#include "verbs.h"

#define QPS 32
#define WAIT 20000

static struct end ends[QPS];
static struct setup setups[QPS];

static enum ibv_qp_type type_of(const char *name)
{
	return !strcmp(name, "ud") ? IBV_QPT_UD : !strcmp(name, "uc") ? IBV_QPT_UC : IBV_QPT_RC;
}

static void peer_is(const char *address)
{
	char mapped[64];

	snprintf(mapped, sizeof(mapped), "::ffff:%s", address);
	if (inet_pton(AF_INET6, mapped, &gid) != 1)
		die("the peer's address");
}

/* The status of the last of so many completions, or of the first that is an error. */
static int completed(struct end *end, int count)
{
	int status = 0;

	while (count-- > 0 && !status)
		status = wait_wc(end, WAIT).status;
	return status;
}

static int post_all(struct end *end, int count, int size)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(end, end, IBV_WR_SEND, &sge);

	sge.length = size;
	for (int i = 0; i < count; i++)
		if (post(end, &wr))
			return -2;
	return 0;
}

static int receive_all(struct end *end, int count)
{
	int error = 0;

	for (int i = 0; i < count && !error; i++)
		error = post_receive(end, i, 0, BUFFER);
	return error;
}

int main(int argc, char **argv)
{
	char line[200], word[20], type[20] = "";
	int created = 0, first, second, third;

	open_device(argc, argv);
	if (argc < 4)
		die("usage: DEVICE GID_INDEX PEER");
	peer_is(argv[3]);
	setlinebuf(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		int answer = -3;

		if (sscanf(line, "%19s %19s", word, type) < 1 || !strcmp(word, "quit"))
			return 0;
		first = second = third = 0;
		sscanf(line, "%*s %d %d %d", &first, &second, &third);
		if (first < 0 || first >= QPS || created == QPS)
			die(line);
		if (!strcmp(word, "create") || !strcmp(word, "new")) {
			setups[created] = (struct setup){ .type = type_of(type), .rnr_retry_zero = 1, .timeout = 16 };
			end_init(&ends[created], &setups[created]);
			answer = ends[created].qp->qp_num;
			if (*word == 'c' && climb(ends[created].qp, IBV_QPS_INIT, &setups[created], 0))
				die(line);
			created++;
		} else if (!strcmp(word, "connect")) {
			move(ends[first].qp, IBV_QPS_RESET);
			answer = climb(ends[first].qp, IBV_QPS_RTS, &setups[first], second);
		} else if (!strcmp(word, "receive")) {
			answer = receive_all(&ends[first], second);
		} else if (!strcmp(word, "send")) {
			answer = post_all(&ends[first], second, third);
			answer = answer ? answer : completed(&ends[first], second);
		} else if (!strcmp(word, "post")) {
			answer = post_all(&ends[first], second, third);
		} else if (!strcmp(word, "wait")) {
			answer = completed(&ends[first], second);
		} else if (!strcmp(word, "destroy")) {
			answer = 0;
			end_destroy(&ends[first]);
		}
		printf("%d\n", answer);
	}
	return 1;
}
