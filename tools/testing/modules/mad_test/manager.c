// SPDX-License-Identifier: GPL-2.0
/* The subnet manager changes: queries follow it, and what it can do is asked for. */
#include "sa.h"

#define LONG_MS 60000
#define CLASS_PORT_INFO 1
#define GET 1

static const char *name_of(enum ib_event_type event)
{
	return ib_event_msg(event);
}

/* A query goes to this LID; the core may take a moment to hear of it. */
static bool asks(u16 lid, u8 sl, u16 pkey_index)
{
	unsigned long end = jiffies + 5 * HZ * mt_slowness;
	struct fake_ib_packet *sent;
	struct mt_query query;

	do {
		mt_wire_begin(NULL);
		if (mt_query_path_soon(&query, LONG_MS))
			return false;
		if (!mt_wait_request(0x35, GET, 1, 5000))
			return false;
		sent = mt_sa_request(0x35, GET, 0);
		ib_sa_cancel_query(query.id, query.query);
		if (!mt_answered(&query))
			return false;
		if (sent->dlid == lid && sent->sl == sl && sent->pkey_index == pkey_index)
			return true;
		usleep_range(1000, 2000);
	} while (time_before(jiffies, end));
	return false;
}

static void test_follow(void)
{
	static const enum ib_event_type events[] = { IB_EVENT_SM_CHANGE, IB_EVENT_LID_CHANGE, IB_EVENT_PORT_ERR,
						     IB_EVENT_PORT_ACTIVE, IB_EVENT_PKEY_CHANGE, IB_EVENT_CLIENT_REREGISTER };
	int nth;

	for (nth = 0; nth < ARRAY_SIZE(events); nth++) {
		fake_ib_ports[1].sm_lid = 0x50 + nth;
		fake_ib_ports[1].sm_sl = nth;
		fake_ib_event(1, events[nth]);
		CHECK(asks(0x50 + nth, nth, 0), "after \"%s\" it is the new one that is asked", name_of(events[nth]));
	}
}

static void test_pkey(void)
{
	fake_ib_ports[1].pkeys[0] = 0x8002;
	fake_ib_ports[1].pkeys[2] = 0xffff;
	fake_ib_event(1, IB_EVENT_PKEY_CHANGE);
	CHECK(asks(fake_ib_ports[1].sm_lid, fake_ib_ports[1].sm_sl, 2), "with the default P_Key, where that is now");
	fake_ib_ports[1].pkeys[0] = 0xffff;
	fake_ib_ports[1].pkeys[2] = 0;
	fake_ib_event(1, IB_EVENT_PKEY_CHANGE);
	CHECK(asks(fake_ib_ports[1].sm_lid, fake_ib_ports[1].sm_sl, 0), "and where it was");
}

static bool knows_none(void)
{
	unsigned long end = jiffies + 5 * HZ * mt_slowness;
	struct mt_query query;
	int ret;

	do {
		ret = mt_query_path(&query, 50);
		if (!ret)
			mt_answered(&query);
		/* It is not a moment of changing. */
		if (ret == -EAGAIN && (msleep(20), mt_query_path(&query, 50)) == -EAGAIN)
			return true;
	} while (time_before(jiffies, end));
	return false;
}

static void test_none(void)
{
	fake_ib_ports[1].sm_lid = 0;
	fake_ib_event(1, IB_EVENT_SM_CHANGE);
	CHECK(knows_none(), "there is no subnet manager: later, perhaps");
	fake_ib_ports[1].sm_lid = FAKE_IB_SM_LID;
	fake_ib_ports[1].sm_sl = 0;
	fake_ib_event(1, IB_EVENT_SM_CHANGE);
	CHECK(asks(FAKE_IB_SM_LID, 0, 0), "there is one");
}

/* With several LIDs for a port, paths from each of them are distinguished. */
static void test_lmc(void)
{
	unsigned long end = jiffies + 5 * HZ * mt_slowness;
	struct rdma_ah_attr attr;
	struct sa_path_rec path;
	u32 bits;

	mt_path(&path);
	path.hop_limit = 0;
	path.ib.slid = cpu_to_be16(0x3347);
	fake_ib_ports[1].lmc = 2;
	fake_ib_event(1, IB_EVENT_LID_CHANGE);
	do {
		usleep_range(1000, 2000);
		ib_init_ah_attr_from_path(mt_device, 1, &path, &attr, NULL);
		bits = rdma_ah_get_path_bits(&attr);
		rdma_destroy_ah_attr(&attr);
	} while (bits != 3 && time_before(jiffies, end));
	CHECK_EQ(3, bits, "path bits of a port with four LIDs");
	fake_ib_ports[1].lmc = 0;
	fake_ib_event(1, IB_EVENT_LID_CHANGE);
}

/* What the subnet manager can do is asked for a second after it has changed, once. */
static void test_class_port_info(enum ib_event_type event)
{
	struct fake_ib_packet *sent;
	unsigned long begin;
	s64 ms;

	mt_wire_begin(NULL);
	begin = jiffies;
	fake_ib_event(1, event);
	CHECK(mt_wait_request(CLASS_PORT_INFO, GET, 1, 5000), "after \"%s\" ClassPortInfo is asked for", name_of(event));
	sent = mt_sa_request(CLASS_PORT_INFO, GET, 0);
	if (!sent)
		return;
	ms = jiffies_to_msecs(sent->time - begin);
	mt_result(ms >= 990 && ms < 1000 + 1000 * mt_slowness, ms, "a second later");
	mt_check_request(sent, CLASS_PORT_INFO, GET, 0, "ClassPortInfo");
	CHECK(!memchr_inv(sent->mad + 56, 0, 200), "ClassPortInfo: no data");
	/* This one does not change what it can do. */
	mt_wire_begin(NULL);
	fake_ib_event(1, IB_EVENT_PKEY_CHANGE);
	msleep(1200);
	CHECK_EQ(0, mt_sa_requests(CLASS_PORT_INFO, GET), "once");
}

static void test_class_port_info_retries(void)
{
	fake_ib_sa_status(0x0c);
	mt_wire_begin(NULL);
	fake_ib_event(1, IB_EVENT_CLIENT_REREGISTER);
	CHECK(mt_wait_request(CLASS_PORT_INFO, GET, 4, 10000), "ClassPortInfo is refused, and asked for three more times");
	msleep(1300);
	CHECK_EQ(4, mt_sa_requests(CLASS_PORT_INFO, GET), "no more");
	fake_ib_sa_status(0);
}

void mt_test_manager(void)
{
	ib_sa_register_client(&mt_sa_client);
	MT_CASE(test_follow());
	MT_CASE(test_pkey());
	MT_CASE(test_none());
	MT_CASE(test_lmc());
	/* What was asked for because of all this is answered. */
	msleep(1300);
	MT_CASE(test_class_port_info(IB_EVENT_SM_CHANGE));
	MT_CASE(test_class_port_info(IB_EVENT_LID_CHANGE));
	MT_CASE(test_class_port_info_retries());
	ib_sa_unregister_client(&mt_sa_client);
}
