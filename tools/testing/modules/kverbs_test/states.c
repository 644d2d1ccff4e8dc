// SPDX-License-Identifier: GPL-2.0
/* The whole table of states, as a number that kverbs.sh compares with that of the stock core; events of a queue pair. */
#include <linux/completion.h>
#include <linux/crc32.h>
#include "kverbs.h"

#define INIT (IB_QP_PKEY_INDEX | IB_QP_PORT)
#define UC_RTR (IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN)
#define RC_RTR (UC_RTR | IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER)
#define RC_RTS (IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC)

/* Sets that some transition requires: with one or two attributes more or less, every line of the table is met. */
static const int masks[] = {
	0, INIT | IB_QP_ACCESS_FLAGS, INIT | IB_QP_QKEY, IB_QP_PORT, IB_QP_PKEY_INDEX | IB_QP_QKEY, UC_RTR, RC_RTR, IB_QP_SQ_PSN, RC_RTS,
	RC_RTS & ~(IB_QP_RNR_RETRY | IB_QP_MAX_QP_RD_ATOMIC | IB_QP_RETRY_CNT),
};
#define TYPES { IB_QPT_SMI, IB_QPT_GSI, IB_QPT_RC, IB_QPT_UC, IB_QPT_UD, IB_QPT_RAW_PACKET, IB_QPT_XRC_INI, IB_QPT_XRC_TGT }
#define ATTRIBUTES 26

static u32 allowed;

/* The answers for a set of attributes, and for all that differ from it in one or two. */
static u32 around(enum ib_qp_state from, enum ib_qp_state to, enum ib_qp_type type, int mask, u32 crc)
{
	int one, two;

	for (one = 0; one < ATTRIBUTES; one++) {
		u32 answers = 0;

		/* With itself: one attribute. */
		for (two = one; two < ATTRIBUTES; two++)
			answers |= (u32)ib_modify_qp_is_ok(from, to, type, mask ^ (1 << one | 1 << two)) << two;
		allowed += hweight32(answers);
		crc = crc32_le(crc, (u8 *)&answers, sizeof(answers));
	}
	return crc;
}

static void table(void)
{
	static const enum ib_qp_type types[] = TYPES;
	u32 crc = ~0;
	int from, to, type, i;

	for (type = 0; type < ARRAY_SIZE(types); type++)
		for (from = IB_QPS_RESET; from <= IB_QPS_ERR; from++)
			for (to = IB_QPS_RESET; to <= IB_QPS_ERR; to++)
				for (i = 0; i < ARRAY_SIZE(masks); i++)
					crc = around(from, to, types[type], masks[i], crc);
	pr_info("value|states %08x:%u\n", crc, allowed);
}

struct told {
	struct completion done;
	struct ib_qp *qp;
	enum ib_event_type event;
};

static void on_event(struct ib_event *event, void *context)
{
	struct told *told = context;

	told->event = event->event;
	told->qp = event->element.qp;
	complete(&told->done);
}

static void event_context(struct kv *kv)
{
	struct told *told = kzalloc(sizeof(*told), GFP_KERNEL);
	struct ib_qp_init_attr init = {
		.event_handler = on_event, .qp_context = told, .send_cq = kv->cq, .recv_cq = kv->cq, .qp_type = IB_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 }, .port_num = KV_PORT,
	};
	struct ib_qp_attr drain = { .qp_state = IB_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ib_qp *qp;

	if (!told)
		return;
	init_completion(&told->done);
	qp = ib_create_qp(kv->pd, &init);
	CHECK("a queue pair with a handler of events", !IS_ERR(qp));
	if (IS_ERR(qp))
		goto out;
	kv_to_init(qp);
	kv_to_rtr(kv, qp, 0xfffff);
	kv_to_rts(qp);
	CHECK_EQ("RTS to SQD", 0, ib_modify_qp(qp, &drain, IB_QP_STATE | IB_QP_EN_SQD_ASYNC_NOTIFY));
	CHECK("the handler is called with its context", wait_for_completion_timeout(&told->done, 3 * HZ) != 0);
	CHECK_EQ("the event", IB_EVENT_SQ_DRAINED, told->event);
	CHECK("and the queue pair that it is about", told->qp == qp);
	CHECK("which has the context, too", qp->qp_context == told);
	ib_destroy_qp(qp);
out:
	kfree(told);
}

void kv_test_states(struct kv *kv)
{
	table();
	event_context(kv);
}
