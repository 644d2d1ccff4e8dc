// SPDX-License-Identifier: GPL-2.0
/*
 * More user MADs at once than a port's queue of sends has room for, and than an agent may have under way.
 *
 *   umad_many DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX
 *
 * The network should be slow (netem), so that the first is still under way when the last is written.
 */
#define _GNU_SOURCE
#include "umad.h"

#define MANY 400
#define SOME 50		/* requests of subnet administration */
#define AT_ONCE 16	/* of these of an agent for that class */

static struct node client, server;

static void write_all(int id, uint8_t class, uint32_t count, uint32_t timeout, uint32_t retries)
{
	struct message request;
	int good = 0;

	for (uint32_t tid = 0; tid < count; tid++) {
		request = message(id, &client, &server, GET, tid);
		request.mad.mgmt_class = class;
		request.mad.class_version = class == SUBN_ADM ? 2 : 1;
		request.hdr.timeout_ms = timeout;
		request.hdr.retries = retries;
		good += !put_message(client.fd, &request);
	}
	equal("all are taken", count, good);
}

/* Answers up to so many of those that come, until none comes for so long. */
static uint32_t answer_some(uint32_t limit, int ms)
{
	static struct message got;
	uint32_t count = 0;

	while (count < limit && take_message(server.fd, &got, paced(ms)) == WHOLE) {
		answer_to(&got, got.hdr.id);
		got.mad.data[11] = low(&got.mad) * 7;
		put_message(server.fd, &got);
		count++;
	}
	return count;
}

/* How many different requests got their answers, or the other thing. */
static uint32_t ended(uint32_t count, uint32_t status, int ms)
{
	static bool seen[MANY];
	static struct message got;
	uint32_t good = 0;

	memset(seen, 0, sizeof(seen));
	for (uint32_t i = 0; i < count; i++) {
		int size = take_message(client.fd, &got, paced(ms));

		if (size < (int)(HEADER + MAD_HEADER) || got.hdr.status != status || low(&got.mad) >= count || seen[low(&got.mad)])
			continue;
		seen[low(&got.mad)] = true;
		good += status || got.mad.data[11] == (uint8_t)(low(&got.mad) * 7);
	}
	return good;
}

static void queue(int id)
{
	write_all(id, VENDOR, MANY, paced(20000), 0);
	equal("400 requests at once arrive", MANY, answer_some(MANY, 3000));
	equal("and are answered", MANY, ended(MANY, 0, 3000));
	is("once", silent(client.fd) && silent(server.fd), "more often");
	write_all(id, VENDOR, MANY, paced(200), 0);
	equal("400 time out", MANY, ended(MANY, ETIMEDOUT, 5000));
	poll(NULL, 0, paced(1000));
	drain(server.fd);
}

/* An agent for subnet administration has no more than a 32nd of the receive queue under way; the rest waits. */
static void backlog(void)
{
	int id = agent(client.fd, (struct wish){ .mgmt_class = SUBN_ADM, .version = 2 });
	int late = agent(server.fd, (struct wish){ .mgmt_class = SUBN_ADM, .version = 2, .methods = { METHOD(GET) } });
	static struct message got[AT_ONCE + 1];
	uint32_t count = 0;
	long began;

	write_all(id, SUBN_ADM, SOME, paced(20000), 0);
	while (count <= AT_ONCE && take_message(server.fd, &got[count], paced(1000)) == WHOLE)
		count++;
	equal("16 of them are sent", AT_ONCE, count);
	for (uint32_t i = 0; i < AT_ONCE; i++) {
		answer_to(&got[i], late);
		got[i].mad.data[11] = low(&got[i].mad) * 7;
		put_message(server.fd, &got[i]);
	}
	equal("the others follow as these are answered", SOME - AT_ONCE, answer_some(SOME, 2000));
	equal("all are answered", SOME, ended(SOME, 0, 2000));
	began = now_ms();
	write_all(id, SUBN_ADM, SOME, paced(200), 0);
	equal("all time out", SOME, ended(SOME, ETIMEDOUT, 5000));
	is("each in its turn", now_ms() - began >= 4 * paced(200) - 50, "too early");
	poll(NULL, 0, paced(500));
	equal("and each was sent", SOME, drain(server.fd));
	write_all(id, SUBN_ADM, SOME, 100000, 0);
	began = now_ms();
	agent_gone(client.fd, id);
	is("the agent goes with all that waits", now_ms() - began < paced(3000), "it waits");
	poll(NULL, 0, paced(500));
	agent_gone(server.fd, late);
	drain(server.fd);
}

/* One that is for no class has a quarter of it. */
static void send_only(void)
{
	int id = agent(client.fd, (struct wish){ .send_only = true });
	int other = agent(server.fd, (struct wish){ .mgmt_class = SUBN_ADM, .version = 2, .methods = { METHOD(GET) } });

	write_all(id, SUBN_ADM, 200, 100000, 0);
	poll(NULL, 0, paced(1500));
	equal("128 of an agent for no class", 128, drain(server.fd));
	agent_gone(client.fd, id);
	agent_gone(server.fd, other);
}

int main(int argc, char **argv)
{
	if (argc < 5)
		die("usage: DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX");
	node_open(&client, argv[1], argv[2]);
	node_open(&server, argv[3], argv[4]);
	agent(server.fd, (struct wish){ .methods = { METHOD(GET) } });
	queue(agent(client.fd, (struct wish){ .version = 2 }));
	backlog();
	send_only();
	return all_done();
}
