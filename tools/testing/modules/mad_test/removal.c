// SPDX-License-Identifier: GPL-2.0
/* The device goes with everything under way, and comes again. */
#include "rmpp_packets.h"
#include "sa.h"

#define GET IB_MGMT_METHOD_GET
#define SEND IB_MGMT_METHOD_SEND
#define LONG_MS 60000
#define MANY 10

static struct mt_agent client, transfers;
static struct mt_query queries[MANY];
static struct ib_sa_multicast *members[2];
static atomic_t joined;

static int on_joined(int status, struct ib_sa_multicast *multicast)
{
	atomic_add(!status, &joined);
	return 0;
}

static void join(int nth)
{
	struct ib_sa_mcmember_rec rec = { .mgid = { .raw = { 0xff, 0x12, 0x40, 0x1b, [15] = 0x70 + nth } }, .join_state = 1 };

	rec.port_gid = fake_ib_ports[1].gids[0];
	members[nth] = ib_sa_join_multicast(&mt_sa_client, mt_device, 1, &rec, IB_SA_MCMEMBER_REC_MGID |
					    IB_SA_MCMEMBER_REC_PORT_GID | IB_SA_MCMEMBER_REC_JOIN_STATE, GFP_KERNEL,
					    on_joined, NULL);
	CHECK(!IS_ERR(members[nth]), "group %d is joined", nth);
}

/* Paths are not answered, and the rest late. */
static enum fake_ib_fate fate(struct fake_ib_packet *packet, int nth)
{
	if (fake_ib_hdr(packet)->attr_id == cpu_to_be16(0x35))
		return FAKE_IB_LOSE;
	packet->delay_ms = nth % 3 * 20;
	return FAKE_IB_PASS;
}

/* As every client has to: what it has of the device goes before it. */
static void on_remove(void)
{
	int nth;

	for (nth = 0; nth < ARRAY_SIZE(members); nth++) {
		if (!IS_ERR_OR_NULL(members[nth]))
			ib_sa_free_multicast(members[nth]);
		members[nth] = NULL;
	}
	mt_unregister(&client);
	mt_unregister(&transfers);
}

static void begin(void)
{
	int nth, ret = 0;

	if (mt_open(&client, &MT_SEND_ONLY(1)) || rmpp_open(&transfers, 2, 0))
		return CHECK(false, "agents are registered");
	mt_wire_begin(fate);
	join(0);
	while (!atomic_read(&joined))
		usleep_range(500, 1000);
	for (nth = 0; nth < MANY; nth++) {
		ret = ret ?: mt_query_path(&queries[nth], LONG_MS);
		ret = ret ?: mt_post(mt_mad(&client, MT_FAR_LID, MT_CLASS, GET, LONG_MS, 3));
		ret = ret ?: mt_post(rmpp_send(&transfers, MT_FAR_LID, SEND, 10000, 1, 0, 3));
	}
	CHECK_EQ(0, ret, "queries, requests and transfers are under way");
	join(1);
	/* Something is to be done in a second. */
	fake_ib_event(1, IB_EVENT_SM_CHANGE);
	fake_ib_event(2, IB_EVENT_CLIENT_REREGISTER);
}

static void check_ended(void)
{
	int nth, right = 0;

	for (nth = 0; nth < MANY; nth++)
		right += mt_answered(&queries[nth]) && queries[nth].status == -EINTR && atomic_read(&queries[nth].calls) == 1;
	CHECK_EQ(MANY, right, "queries have come to their end");
	CHECK_EQ(MANY, client.sent, "requests, too");
	CHECK_EQ(MANY, transfers.sent, "and transfers");
	for (nth = 0; nth < MANY; nth++)
		right += mt_sent(&client, nth)->status == IB_WC_WR_FLUSH_ERR && mt_sent(&transfers, nth)->status == IB_WC_WR_FLUSH_ERR;
	CHECK_EQ(2 * MANY, right, "as cancelled ones");
	mt_close(&client);
	mt_close(&transfers);
}

static void test_round(void)
{
	struct mt_query query;

	atomic_set(&joined, 0);
	begin();
	mt_on_remove = on_remove;
	fake_ib_remove();
	mt_on_remove = NULL;
	CHECK(!mt_device, "the device goes");
	check_ended();
	mt_wire_begin(NULL);
	CHECK_EQ(0, fake_ib_add(), "it comes again");
	CHECK(mt_device, "and is told");
	CHECK(mt_fence(1, 1) && mt_fence(2, 1) && mt_fence(1, 0) && mt_fence(2, 0), "its queue pairs work");
	CHECK(!mt_query_path_soon(&query, LONG_MS) && mt_answered(&query) && !query.status, "queries, too");
	fake_ib_sa_forget();
}

void mt_test_removal(void)
{
	int nth;

	ib_sa_register_client(&mt_sa_client);
	for (nth = 0; nth < 3; nth++)
		MT_CASE(test_round());
	ib_sa_unregister_client(&mt_sa_client);
}
