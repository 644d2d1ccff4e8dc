/* SPDX-License-Identifier: GPL-2.0 */
/* Tests of the client of the subnet administrator: what their files share. */
#ifndef MAD_TEST_SA_H
#define MAD_TEST_SA_H

#include <linux/completion.h>
#include <rdma/ib_sa.h>
#include "mad_test.h"

/* A query, and what its owner was called with. */
struct mt_query {
	struct completion done;
	struct ib_sa_query *query;
	int id, status;
	unsigned int count, wrong;
	atomic_t calls;
	struct sa_path_rec path;
	struct ib_sa_guidinfo_rec guids;
};

extern struct ib_sa_client mt_sa_client;

void mt_ask(struct mt_query *query);
bool mt_answered(struct mt_query *query);
void mt_path(struct sa_path_rec *path);
/* From port 1 to port 2; 0 or an error. The second one waits as long as the error is EAGAIN. */
int mt_query_path(struct mt_query *query, unsigned int timeout_ms);
int mt_query_path_soon(struct mt_query *query, unsigned int timeout_ms);

/* What port 1 has sent. */
struct fake_ib_packet *mt_sa_request(u16 attribute, u8 method, int nth);
int mt_sa_requests(u16 attribute, u8 method);
bool mt_wait_request(u16 attribute, u8 method, int count, unsigned int ms);
void mt_check_request(struct fake_ib_packet *sent, u16 attribute, u8 method, u64 mask, const char *name);

#endif
