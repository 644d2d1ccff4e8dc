// SPDX-License-Identifier: GPL-2.0
/* Messages that no connection manager has sent: numbers that are guessed, more messages than an identifier takes. */
#include <rdma/ib_mad.h>
#include <rdma/ibta_vol1_c12.h>
#include "cm_test.h"

#define CM_CLASS_VERSION 2

static struct ct_end listener, active, passive;
static const struct ct_req usual = { .life_time = 12, .response = 18, .retries = 7 };
static const struct ct_req patient = { .life_time = 12, .response = 23, .retries = 7 };	/* half a minute passes before it asks again */

static struct ib_mad_agent *agent;
static struct ib_ah *ah;
static atomic_t under_way;
static DECLARE_WAIT_QUEUE_HEAD(all_sent);

static void sent(struct ib_mad_agent *to, struct ib_mad_send_wc *wc)
{
	ib_free_send_mad(wc->send_buf);
	if (atomic_dec_and_test(&under_way))
		wake_up_all(&all_sent);
}

int ct_forge_begin(void)
{
	const struct ib_gid_attr *gid = ct_gid();
	struct rdma_ah_attr attr;
	struct sa_path_rec path;
	int ret;

	ct_path(&path, usual.life_time);
	ret = ib_init_ah_attr_from_path(ct_device, 1, &path, &attr, gid);
	if (gid)
		rdma_put_gid_attr(gid);
	if (ret)
		return ret;
	agent = ib_register_mad_agent(ct_device, 1, IB_QPT_GSI, NULL, 0, sent, NULL, NULL, 0);
	ret = PTR_ERR_OR_ZERO(agent);
	if (!ret) {
		ah = rdma_create_ah(agent->qp->pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
		ret = PTR_ERR_OR_ZERO(ah);
		if (ret)
			ib_unregister_mad_agent(agent);
	}
	rdma_destroy_ah_attr(&attr);
	return ret;
}

void ct_forge_end(void)
{
	wait_event(all_sent, !atomic_read(&under_way));
	rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
	ib_unregister_mad_agent(agent);
}

int ct_forge(__be16 attribute, const void *body)
{
	struct ib_mad_send_buf *buf = ib_create_send_mad(agent, 1, 0, 0, IB_MGMT_MAD_HDR, IB_MGMT_MAD_DATA, GFP_KERNEL,
							 IB_MGMT_BASE_VERSION);
	struct ib_mad_hdr *hdr;
	int ret;

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	memcpy(buf->mad, body, sizeof(struct ib_mad));
	hdr = buf->mad;
	hdr->base_version = IB_MGMT_BASE_VERSION;
	hdr->mgmt_class = IB_MGMT_CLASS_CM;
	hdr->class_version = CM_CLASS_VERSION;
	hdr->method = IB_MGMT_METHOD_SEND;
	hdr->attr_id = attribute;
	hdr->tid = cpu_to_be64(0x1234);
	buf->ah = ah;
	atomic_inc(&under_way);
	ret = ib_post_send_mad(buf, NULL);
	if (ret) {
		atomic_dec(&under_way);
		ib_free_send_mad(buf);
	}
	return ret;
}

#define REJECTS_REP 1

union forged {
	struct cm_rej_msg rej;
	struct cm_dreq_msg dreq;
	struct cm_drep_msg drep;
	struct ib_mad mad;
};

/*
 * Refuses the replies of all who may have the next number. Numbers are those of a counter with some bits changed that nobody knows: the next
 * one differs in its last bits alone, as many as an increment changes. Stock's counter has the other order of bytes.
 */
static void refuse_next(struct ib_cm_id *last)
{
	union forged forged;
	int bits;

	for (bits = 1; bits < 32; bits++) {
		u32 change = (1u << bits) - 1;
		u32 guess = ct_strict ? be32_to_cpu(last->local_id) ^ change : be32_to_cpu(last->local_id ^ (__force __be32)change);

		memset(&forged, 0, sizeof(forged));
		IBA_SET(CM_REJ_LOCAL_COMM_ID, &forged.rej, be32_to_cpu(last->local_id));
		IBA_SET(CM_REJ_REMOTE_COMM_ID, &forged.rej, guess);
		IBA_SET(CM_REJ_MESSAGE_REJECTED, &forged.rej, REJECTS_REP);
		IBA_SET(CM_REJ_REASON, &forged.rej, IB_CM_REJ_CONSUMER_DEFINED);
		ct_forge(CM_REJ_ATTR_ID, &forged);
	}
}

#define EARLY_ROUNDS 10

/* Peers who refuse before it is known what with: the client hears of their requests first. */
void ct_test_early(void)
{
	int round, tries, first = 0, second = 0, others = 0;

	CHECK_EQ("an agent", 0, ct_forge_begin());
	if (IS_ERR_OR_NULL(agent))
		return;
	CHECK_EQ("a listener", 0, ct_listen(&listener, &passive));
	for (round = 0; round < EARLY_ROUNDS; round++) {
		memset(&passive, 0, sizeof(passive));
		listener.for_child = &passive;
		ct_up(&active);
		ct_req(&active, &usual);
		for (tries = 0; tries < 400 && smp_load_acquire(&passive.told) < 2; tries++) {
			refuse_next(active.id);
			msleep(5);
		}
		first += passive.events[0].event.event == IB_CM_REQ_RECEIVED && passive.events[0].state == IB_CM_REQ_RCVD;
		second += passive.told == 2 && passive.events[1].event.event == IB_CM_REJ_RECEIVED;
		others += listener.told;
		ct_down(&passive);
		ct_down(&active);
	}
	CHECK_EQ("requests, of which clients hear first", EARLY_ROUNDS, first);
	CHECK_EQ("then that their peers refuse", EARLY_ROUNDS, second);
	CHECK_EQ("and the listener's client of nothing", 0, others);
	ct_down(&listener);
	ct_forge_end();
}

static struct completion go;
#define MANY 100

/* A connection, to a client whose handler takes long. */
static void connect_to_busy(const struct ct_req *req)
{
	CHECK_EQ("a listener", 0, ct_listen(&listener, &passive));
	init_completion(&go);
	ct_up(&active);
	ct_req(&active, req);
	CHECK("a request", ct_is_next(&passive, IB_CM_REQ_RECEIVED));
	ct_rep(&passive);
	CHECK("a reply", ct_is_next(&active, IB_CM_REP_RECEIVED));
	passive.wait_for = &go;
	ib_send_cm_rtu(active.id, NULL, 0);
	CHECK("a handler that waits", ct_is_next(&passive, IB_CM_RTU_RECEIVED));
}

/* A client whose handler takes long, and what comes for it meanwhile. */
void ct_test_inbox(void)
{
	union forged forged = {};
	int nth, posted = 0;

	CHECK_EQ("an agent", 0, ct_forge_begin());
	if (IS_ERR_OR_NULL(agent))
		return;
	connect_to_busy(&usual);
	IBA_SET(CM_DREQ_LOCAL_COMM_ID, &forged.dreq, be32_to_cpu(active.id->local_id));
	IBA_SET(CM_DREQ_REMOTE_COMM_ID, &forged.dreq, be32_to_cpu(passive.id->local_id));
	IBA_SET(CM_DREQ_REMOTE_QPN_EECN, &forged.dreq, ct_qpn - 1);
	for (nth = 0; nth < MANY; nth++)
		posted += !ct_forge(CM_DREQ_ATTR_ID, &forged);
	CHECK_EQ("messages for it", MANY, posted);
}

/* The handler returns. What comes last is told last. */
void ct_test_inbox_end(void)
{
	union forged forged = {};

	passive.wait_for = NULL;
	complete_all(&go);
	CHECK("it hears of the first one", ct_is_next(&passive, IB_CM_DREQ_RECEIVED));
	IBA_SET(CM_DREP_LOCAL_COMM_ID, &forged.drep, be32_to_cpu(active.id->local_id));
	IBA_SET(CM_DREP_REMOTE_COMM_ID, &forged.drep, be32_to_cpu(passive.id->local_id));
	CHECK_EQ("one more", 0, ct_forge(CM_DREP_ATTR_ID, &forged));
	CHECK("it hears of that", ct_is_next(&passive, IB_CM_DREP_RECEIVED));
	ct_down(&active);
	ct_down(&passive);
	ct_down(&listener);
	ct_forge_end();
}

static void end_passive(struct work_struct *work) { ct_down(&passive); }
static DECLARE_WORK(end_of_passive, end_passive);

/* A client that takes its time destroys its identifier, for which its peer's DREQ waits. */
void ct_test_waiting(void)
{
	connect_to_busy(&patient);
	CHECK_EQ("the peer disconnects", 0, ib_send_cm_dreq(active.id, NULL, 0));
	/* Time to come there; one that comes later meets no identifier, and is answered too. */
	msleep(200);
	schedule_work(&end_of_passive);
}

/* Both have disconnected, and both are answered, which the counters tell. */
void ct_test_waiting_end(void)
{
	complete_all(&go);
	flush_work(&end_of_passive);
	CHECK("the peer hears of the end", ct_is_next(&active, IB_CM_DREQ_RECEIVED));
	ct_down(&active);
	ct_down(&listener);
}
