// SPDX-License-Identifier: GPL-2.0
/* A little of everything, so that each event of ib_mad happens (but those of Omni-Path), always the same number of times. */
#include "mad_test.h"

#define GET IB_MGMT_METHOD_GET

static struct mt_agent agent;
static struct fake_ib_packet packet;

static void wait_all(int count)
{
	CHECK(mt_wait_sent(&agent, count, 10000), "%d sends come to their end", count);
	mt_forget(&agent);
}

static void post(u16 lid, u8 method, unsigned int timeout_ms, int retries)
{
	CHECK_EQ(0, mt_post(mt_mad(&agent, lid, MT_CLASS, method, timeout_ms, retries)), "one is posted");
}

static void on_qp1(void)
{
	struct mt_request wanted = { .port = 1, .type = IB_QPT_GSI, .class = MT_CLASS, .version = 1, .methods = MT_METHODS(GET) };
	int nth;

	if (mt_open(&agent, &wanted))
		return CHECK(false, "an agent of QP1");
	post(MT_FAR_LID, GET, 50, 1);
	wait_all(1);
	mt_make(&packet, 1, 1, MT_CLASS, 1, GET, 0x1234567800000000ULL);
	CHECK_EQ(0, fake_ib_deliver(&packet), "a request arrives");
	CHECK(mt_wait_received(&agent, 1, 5000), "for it");
	fake_ib_hold(1, 1, FAKE_IB_HOLD_SENDS);
	for (nth = 0; nth < 3; nth++)
		post(MT_FAR_LID, 3, 0, 0);
	fake_ib_fail_send(1, 1, 1, IB_WC_LOC_PROT_ERR);
	fake_ib_hold(1, 1, 0);
	wait_all(3);
	fake_ib_hold(1, 1, FAKE_IB_HOLD_SENDS);
	for (nth = 0; nth < 129; nth++)
		post(MT_FAR_LID, 3, 0, 0);
	fake_ib_hold(1, 1, 0);
	wait_all(129);
	mt_close(&agent);
}

static struct ib_smp *to_smp(void *mad, u8 pointer, u8 count)
{
	struct ib_smp *smp = mad;

	smp->mgmt_class = IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE;
	smp->attr_id = IB_SMP_ATTR_NODE_INFO;
	smp->hop_ptr = pointer;
	smp->hop_cnt = count;
	smp->dr_slid = IB_LID_PERMISSIVE;
	smp->dr_dlid = IB_LID_PERMISSIVE;
	memset(smp->initial_path, 0, sizeof(smp->initial_path));
	memset(smp->return_path, 0, sizeof(smp->return_path));
	smp->initial_path[1] = 1;
	return smp;
}

static void on_qp0(void)
{
	struct mt_request wanted = { .port = 1, .type = IB_QPT_SMI };
	struct ib_mad_send_buf *send;

	if (mt_open(&agent, &wanted))
		return CHECK(false, "an agent of QP0");
	send = mt_mad(&agent, 0xffff, MT_CLASS, GET, 0, 0);
	to_smp(send->mad, 0, 0);
	CHECK_EQ(0, mt_post(send), "a packet to the port itself");
	wait_all(1);
	mt_make(&packet, 1, 0, IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE, 1, GET, 0x1234567800000001ULL);
	to_smp(packet.mad, 1, 1);
	packet.slid = 0xffff;
	CHECK_EQ(0, fake_ib_deliver(&packet), "a packet with a directed route");
	CHECK(mt_wire_wait(1, cpu_to_be64(0x1234567800000001ULL), 1, 5000), "is answered");
	fake_ib_settle();
	msleep(50);
	mt_close(&agent);
}

void mt_test_trace(void)
{
	MT_CASE(on_qp1());
	MT_CASE(on_qp0());
}
