// SPDX-License-Identifier: GPL-2.0
/* Members of multicast groups: the requests to the subnet administrator for them, and their callbacks. */
#include "sa.h"

#define MEMBER_RECORD 0x38
#define SET 0x02
#define DELETE 0x15

#define FULL 1
#define NON 2
#define SEND_ONLY 4
#define SEND_ONLY_FULL 8

/* Components that a join gives at least. */
#define JOIN_MASK (IB_SA_MCMEMBER_REC_MGID | IB_SA_MCMEMBER_REC_PORT_GID | IB_SA_MCMEMBER_REC_JOIN_STATE)

/* A member, and what its owner was told; with leave it is no member any more when its callback returns. */
struct member {
	struct ib_sa_multicast *multicast;
	struct ib_sa_mcmember_rec rec;
	int status;
	bool leave;
	atomic_t calls;
	struct completion told;
};

static union ib_gid mgid_of(u8 last)
{
	union ib_gid mgid = { .raw = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, [15] = last } };

	return mgid;
}

static int on_told(int status, struct ib_sa_multicast *multicast)
{
	struct member *member = multicast->context;

	member->status = status;
	member->rec = multicast->rec;
	if (member->leave)
		member->multicast = NULL;
	atomic_inc(&member->calls);
	complete(&member->told);
	return member->leave;
}

static void fill(struct ib_sa_mcmember_rec *rec, u8 group, u8 join_state)
{
	memset(rec, 0, sizeof(*rec));
	rec->mgid = mgid_of(group);
	rec->port_gid = fake_ib_ports[1].gids[0];
	rec->join_state = join_state;
}

static int join_rec(struct member *member, struct ib_sa_mcmember_rec *rec, ib_sa_comp_mask mask)
{
	bool leave = member->leave;
	struct ib_sa_multicast *multicast;

	memset(member, 0, sizeof(*member));
	member->leave = leave;
	init_completion(&member->told);
	multicast = ib_sa_join_multicast(&mt_sa_client, mt_device, 1, rec, mask, GFP_KERNEL, on_told, member);
	if (IS_ERR(multicast))
		return PTR_ERR(multicast);
	if (!leave)
		member->multicast = multicast;
	return 0;
}

static int join(struct member *member, u8 group, u8 join_state)
{
	struct ib_sa_mcmember_rec rec;

	fill(&rec, group, join_state);
	return join_rec(member, &rec, JOIN_MASK);
}

static bool told(struct member *member)
{
	return wait_for_completion_timeout(&member->told, msecs_to_jiffies(20000 * mt_slowness));
}

static void leave(struct member *member)
{
	if (member->multicast)
		ib_sa_free_multicast(member->multicast);
	member->multicast = NULL;
}

/* As port 1 sees it: states in the administrator's group, after it has done everything. */
static u8 joined(u8 group)
{
	union ib_gid mgid = mgid_of(group);

	fake_ib_settle();
	return fake_ib_sa_joined(&mgid, 1);
}

static bool gone(u8 group)
{
	unsigned long end = jiffies + 5 * HZ * mt_slowness;
	struct ib_sa_mcmember_rec rec;
	union ib_gid mgid = mgid_of(group);

	while (ib_sa_get_mcmember_rec(mt_device, 1, &mgid, &rec) != -EADDRNOTAVAIL) {
		if (time_after(jiffies, end))
			return false;
		usleep_range(500, 1000);
	}
	return true;
}

/* All fields of a record, and the same as it stands in a MAD. */
static void full_rec(struct ib_sa_mcmember_rec *rec)
{
	fill(rec, 0x21, FULL);
	rec->qkey = cpu_to_be32(0x0b1b2b3b);
	rec->mlid = cpu_to_be16(0xc123);
	rec->mtu_selector = 3;
	rec->mtu = 4;
	rec->traffic_class = 0x5a;
	rec->pkey = cpu_to_be16(0xffff);
	rec->rate_selector = 2;
	rec->rate = 0x12;
	rec->packet_life_time_selector = 3;
	rec->packet_life_time = 0x15;
	rec->sl = 0xd;
	rec->flow_label = cpu_to_be32(0xabcde);
	rec->hop_limit = 0x3f;
	rec->scope = 2;
	rec->proxy_join = 1;
}

static const u8 full_bytes[52] = {
	0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x21,
	0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x02, 0xc9, 0x03, 0, 0, 0, 0x11,
	0x0b, 0x1b, 0x2b, 0x3b,
	0xc1, 0x23, 0xc4, 0x5a,
	0xff, 0xff, 0x92, 0xd5,
	0xda, 0xbc, 0xde, 0x3f,
	0x21, 0x80, 0, 0,
};

static void test_wire(void)
{
	u64 all = GENMASK_ULL(17, 0);
	struct ib_sa_mcmember_rec rec;
	struct fake_ib_packet *sent;
	struct member member = {};
	u8 wanted[200] = {};

	full_rec(&rec);
	memcpy(wanted, full_bytes, sizeof(full_bytes));
	CHECK_EQ(0, join_rec(&member, &rec, (__force ib_sa_comp_mask)cpu_to_be64(all)), "a group is joined");
	CHECK(told(&member), "and its owner told");
	sent = mt_sa_request(MEMBER_RECORD, SET, 0);
	mt_check_request(sent, MEMBER_RECORD, SET, all, "a join");
	if (sent)
		CHECK(!memcmp(sent->mad + 56, wanted, sizeof(wanted)), "a join: the record");
	CHECK_EQ(0, member.status, "it succeeds");
	CHECK(!memcmp(&member.rec.mgid, &rec.mgid, 16) && !memcmp(&member.rec.port_gid, &rec.port_gid, 16), "the answer: GIDs");
	CHECK(member.rec.qkey == rec.qkey && member.rec.pkey == rec.pkey && member.rec.mlid == rec.mlid, "keys and LID");
	CHECK(member.rec.mtu_selector == 2 && member.rec.mtu == 4 && member.rec.rate_selector == 2 && member.rec.rate == 0x12 &&
	      member.rec.packet_life_time_selector == 2 && member.rec.packet_life_time == 0x15, "MTU, rate, life time");
	CHECK(member.rec.sl == 0xd && member.rec.flow_label == rec.flow_label && member.rec.hop_limit == 0x3f &&
	      member.rec.traffic_class == 0x5a, "route");
	CHECK(member.rec.scope == 2 && member.rec.join_state == FULL && member.rec.proxy_join == 1, "scope and state");
	CHECK_EQ(0, ib_sa_get_mcmember_rec(mt_device, 1, &rec.mgid, &rec), "the record of a group is known");
	CHECK(rec.mlid == cpu_to_be16(0xc123) && rec.qkey == cpu_to_be32(0x0b1b2b3b), "with the administrator's answer");
	mt_wire_begin(NULL);
	leave(&member);
	CHECK(mt_wait_request(MEMBER_RECORD, DELETE, 1, 5000), "the group is left");
	sent = mt_sa_request(MEMBER_RECORD, DELETE, 0);
	mt_check_request(sent, MEMBER_RECORD, DELETE, BIT(0) | BIT(1) | BIT(16), "a leave");
	if (sent)
		CHECK(!memcmp(sent->mad + 56, wanted, 32) && sent->mad[56 + 48] == 0x21, "a leave: GIDs and state");
	CHECK(gone(0x21), "then nothing is known of it");
	CHECK_EQ(1, atomic_read(&member.calls), "its owner was called once");
}

static void test_two(void)
{
	struct member first = {}, second = {};

	CHECK(!join(&first, 1, FULL) && told(&first) && !first.status, "a first member joins");
	CHECK_EQ(1, mt_sa_requests(MEMBER_RECORD, SET), "the administrator is asked");
	CHECK(!join(&second, 1, FULL) && told(&second) && !second.status, "a second member joins");
	CHECK_EQ(1, mt_sa_requests(MEMBER_RECORD, SET), "the administrator is not asked");
	CHECK(second.rec.mlid == first.rec.mlid && second.rec.join_state == FULL, "both know the same");
	leave(&first);
	msleep(50);
	CHECK_EQ(0, mt_sa_requests(MEMBER_RECORD, DELETE), "the first one leaves, and nobody is asked");
	CHECK_EQ(FULL, joined(1), "the port is still in the group");
	leave(&second);
	CHECK(mt_wait_request(MEMBER_RECORD, DELETE, 1, 5000), "the last one leaves, and the port with it");
	CHECK(gone(1), "the group goes");
	CHECK_EQ(0, joined(1), "the administrator knows");
	CHECK_EQ(1, mt_sa_requests(MEMBER_RECORD, DELETE), "it was asked once");
}

/* Each state is joined for its first member and left with its last one. */
static void test_states(void)
{
	struct member full = {}, sender = {}, both = {};
	struct fake_ib_packet *sent;

	CHECK(!join(&full, 2, FULL) && told(&full) && !full.status, "a full member joins");
	CHECK(!join(&sender, 2, SEND_ONLY) && told(&sender) && !sender.status, "who only sends joins");
	CHECK_EQ(2, mt_sa_requests(MEMBER_RECORD, SET), "both are asked for");
	CHECK_EQ(FULL | SEND_ONLY, joined(2), "the port is in both states");
	CHECK(!join(&both, 2, FULL | SEND_ONLY) && told(&both) && !both.status, "who wants both joins");
	CHECK_EQ(2, mt_sa_requests(MEMBER_RECORD, SET), "nothing is to be asked for");
	CHECK(full.rec.join_state == FULL && both.rec.join_state == (FULL | SEND_ONLY), "each is told its own states");
	leave(&both);
	leave(&sender);
	CHECK(mt_wait_request(MEMBER_RECORD, DELETE, 1, 5000), "who only sends leaves");
	CHECK_EQ(FULL, joined(2), "the port is a full member still");
	sent = mt_sa_request(MEMBER_RECORD, DELETE, 0);
	CHECK(sent && (sent->mad[56 + 48] & 0xf) == SEND_ONLY, "only that state is left");
	CHECK(!join(&both, 2, SEND_ONLY_FULL | NON) && told(&both) && !both.status, "other states are joined");
	CHECK_EQ(FULL | NON | SEND_ONLY_FULL, joined(2), "all are known");
	leave(&full);
	leave(&both);
	CHECK(gone(2), "all leave");
	CHECK_EQ(0, joined(2), "the port is out");
}

/* A join with other attributes than those of the group fails. */
static void test_mismatch(void)
{
#define OTHER(which, field, value) { #field, IB_SA_MCMEMBER_REC_##which, offsetof(struct ib_sa_mcmember_rec, field), value }
	static const struct {
		const char *name;
		ib_sa_comp_mask mask;
		size_t offset;
		u8 value;
	} others[] = {
		OTHER(PORT_GID, port_gid, 0x77), OTHER(QKEY, qkey, 0x77), OTHER(MLID, mlid, 0x77),
		OTHER(TRAFFIC_CLASS, traffic_class, 0x77), OTHER(PKEY, pkey, 0x77), OTHER(SL, sl, 0x7),
		OTHER(FLOW_LABEL, flow_label, 0x77), OTHER(HOP_LIMIT, hop_limit, 0x77), OTHER(SCOPE, scope, 0x7),
	};
	struct member first = {}, other = {};
	struct ib_sa_mcmember_rec rec;
	int nth;

	full_rec(&rec);
	rec.mgid = mgid_of(3);
	CHECK(!join_rec(&first, &rec, (__force ib_sa_comp_mask)cpu_to_be64(GENMASK_ULL(17, 0))) && told(&first) && !first.status,
	      "a group with all its values");
	for (nth = 0; nth < ARRAY_SIZE(others); nth++) {
		rec = first.rec;
		*((u8 *)&rec + others[nth].offset) = others[nth].value;
		CHECK(!join_rec(&other, &rec, JOIN_MASK & ~IB_SA_MCMEMBER_REC_PORT_GID) && told(&other) && !other.status,
		      "another %s that is not meant", others[nth].name);
		leave(&other);
		CHECK(!join_rec(&other, &rec, IB_SA_MCMEMBER_REC_MGID | IB_SA_MCMEMBER_REC_JOIN_STATE | others[nth].mask) &&
		      told(&other),
		      "another %s that is meant", others[nth].name);
		CHECK_EQ(-EINVAL, other.status, "is refused (%s)", others[nth].name);
		leave(&other);
		CHECK(!join_rec(&other, &first.rec, IB_SA_MCMEMBER_REC_MGID | IB_SA_MCMEMBER_REC_JOIN_STATE | others[nth].mask) &&
		      told(&other) && !other.status, "the same %s", others[nth].name);
		leave(&other);
	}
	CHECK_EQ(1, mt_sa_requests(MEMBER_RECORD, SET), "the administrator was not asked for any of them");
	leave(&first);
	CHECK(gone(3), "the group goes");
}

/* Of MTU, rate and life time one may want more or less than a value; the group has 4, 0x12, 0x15. */
static void test_selectors(void)
{
	static const struct {
		u8 selector;
		int difference;
		int status;
	} wishes[] = {
		{ IB_SA_EQ, 0, 0 }, { IB_SA_EQ, -1, -EINVAL }, { IB_SA_EQ, 1, -EINVAL },
		{ IB_SA_GT, -1, 0 }, { IB_SA_GT, 0, -EINVAL }, { IB_SA_GT, 1, -EINVAL },
		{ IB_SA_LT, 1, 0 }, { IB_SA_LT, 0, -EINVAL }, { IB_SA_LT, -1, -EINVAL },
		{ IB_SA_BEST, -1, 0 }, { IB_SA_BEST, 1, 0 },
	};
	static const ib_sa_comp_mask masks[3] = {
		IB_SA_MCMEMBER_REC_MTU | IB_SA_MCMEMBER_REC_MTU_SELECTOR,
		IB_SA_MCMEMBER_REC_RATE | IB_SA_MCMEMBER_REC_RATE_SELECTOR,
		IB_SA_MCMEMBER_REC_PACKET_LIFE_TIME | IB_SA_MCMEMBER_REC_PACKET_LIFE_TIME_SELECTOR,
	};
	struct member first = {}, other = {};
	struct ib_sa_mcmember_rec rec;
	int nth, which;

	full_rec(&rec);
	rec.mgid = mgid_of(4);
	CHECK(!join_rec(&first, &rec, (__force ib_sa_comp_mask)cpu_to_be64(GENMASK_ULL(17, 0))) && told(&first) && !first.status,
	      "a group with all its values");
	for (nth = 0; nth < ARRAY_SIZE(wishes); nth++) {
		for (which = 0; which < 3; which++) {
			rec = first.rec;
			rec.mtu_selector = rec.rate_selector = rec.packet_life_time_selector = wishes[nth].selector;
			rec.mtu += wishes[nth].difference;
			rec.rate += wishes[nth].difference;
			rec.packet_life_time += wishes[nth].difference;
			CHECK(!join_rec(&other, &rec, IB_SA_MCMEMBER_REC_MGID | masks[which]) && told(&other),
			      "value %d is wanted", which);
			CHECK_EQ(wishes[nth].status, other.status, "value %d, selector %u, difference %d", which,
				 wishes[nth].selector, wishes[nth].difference);
			leave(&other);
		}
	}
	leave(&first);
	CHECK(gone(4), "the group goes");
}

static void test_refused(void)
{
	struct member member = {}, next = {};

	CHECK(!join(&member, 5, SEND_ONLY) && told(&member), "a group that there is not is joined by who only sends");
	CHECK_EQ(-EINVAL, member.status, "the administrator refuses");
	leave(&member);
	CHECK(gone(5), "the group goes");
	CHECK_EQ(0, mt_sa_requests(MEMBER_RECORD, DELETE), "nothing is left");
	member.leave = true;
	CHECK(!join(&member, 5, SEND_ONLY) && told(&member) && member.status == -EINVAL, "a member that goes by itself");
	CHECK(gone(5), "it has gone");
	/* Two at a time: each is asked for, the first one's failure is not the second one's. */
	member.leave = false;
	mt_wire_begin(NULL);
	CHECK(!join(&member, 5, SEND_ONLY) && !join(&next, 5, FULL), "two join at the same time");
	CHECK(told(&member) && told(&next), "both are told");
	CHECK(member.status == -EINVAL && next.status == 0, "the second one has joined");
	leave(&member);
	leave(&next);
	CHECK(gone(5), "the group goes");
}

static void test_timeout(void)
{
	struct member member = {};

	fake_ib_administrate(false);
	CHECK(!join(&member, 6, FULL) && told(&member), "nobody answers");
	CHECK_EQ(-ETIMEDOUT, member.status, "that is told");
	CHECK_EQ(11, mt_sa_requests(MEMBER_RECORD, SET), "after ten retries");
	leave(&member);
	fake_ib_administrate(true);
	CHECK(gone(6), "the group goes");
	CHECK_EQ(0, mt_sa_requests(MEMBER_RECORD, DELETE), "nothing is left");
}

static enum fake_ib_fate late(struct fake_ib_packet *packet, int nth)
{
	packet->delay_ms = 200;
	return FAKE_IB_PASS;
}

static void leave_work(struct work_struct *work);
static struct {
	struct work_struct work;
	struct member member;
} leaving;

static void leave_work(struct work_struct *work)
{
	leave(&leaving.member);
}

/* A member that leaves before the answer to its join gets no callback, and the port is not in the group afterwards. */
static void test_leave_early(void)
{
	int requests;

	memset(&leaving.member, 0, sizeof(leaving.member));
	INIT_WORK(&leaving.work, leave_work);
	mt_wire_begin(late);
	CHECK_EQ(0, join(&leaving.member, 7, FULL), "a group is joined");
	CHECK(mt_wait_request(MEMBER_RECORD, SET, 1, 5000), "the administrator is asked");
	queue_work(system_dfl_wq, &leaving.work);
	flush_work(&leaving.work);
	CHECK(!leaving.member.multicast, "and left before its answer");
	CHECK(gone(7), "the group goes");
	CHECK_EQ(0, atomic_read(&leaving.member.calls), "nobody is told");
	requests = mt_sa_requests(MEMBER_RECORD, DELETE);
	/* Again on a slow machine, where the answer may take more than the three seconds of a request. */
	mt_result(requests == 1 || (requests > 1 && mt_slowness > 1), requests, "the administrator is told");
	CHECK_EQ(0, joined(7), "the port is not in the group");
}

static void test_leave_refused(void)
{
	struct member member = {};

	CHECK(!join(&member, 8, FULL) && told(&member) && !member.status, "a group is joined");
	fake_ib_sa_status(0x0200);
	leave(&member);
	CHECK(mt_wait_request(MEMBER_RECORD, DELETE, 4, 5000), "its leave is refused, and tried three more times");
	CHECK(gone(8), "the group goes");
	CHECK_EQ(4, mt_sa_requests(MEMBER_RECORD, DELETE), "no more");
	fake_ib_sa_status(0);
	fake_ib_sa_forget();
}

static void test_zero(void)
{
	struct member one = {}, two = {};
	struct ib_sa_mcmember_rec rec, found;

	fill(&rec, 0, FULL);
	memset(&rec.mgid, 0, sizeof(rec.mgid));
	CHECK(!join_rec(&one, &rec, JOIN_MASK) && told(&one) && !one.status, "a group without a GID");
	CHECK(!join_rec(&two, &rec, JOIN_MASK) && told(&two) && !two.status, "another one");
	CHECK_EQ(2, mt_sa_requests(MEMBER_RECORD, SET), "both are asked for");
	CHECK(one.rec.mgid.raw[0] == 0xff && memcmp(&one.rec.mgid, &two.rec.mgid, 16), "they get different GIDs");
	CHECK_EQ(0, ib_sa_get_mcmember_rec(mt_device, 1, &one.rec.mgid, &found), "which are known");
	CHECK(found.mlid == one.rec.mlid, "as theirs");
	leave(&one);
	leave(&two);
	CHECK(mt_wait_request(MEMBER_RECORD, DELETE, 2, 5000), "both are left");
}

/* An event of the port: members get one callback with an error, and join anew. */
static void test_reset(enum ib_event_type event)
{
	struct member one = {}, two = {}, sender = {};
	const char *name = ib_event_msg(event);

	mt_wire_begin(NULL);
	two.leave = false;
	CHECK(!join(&one, 9, FULL) && told(&one) && !one.status && !join(&two, 9, FULL) && told(&two) && !two.status &&
	      !join(&sender, 9, SEND_ONLY) && told(&sender) && !sender.status, "%s: three members", name);
	two.leave = true;
	fake_ib_sa_forget();
	fake_ib_event(1, event);
	CHECK(told(&one) && told(&two) && told(&sender), "%s: all are told", name);
	CHECK(one.status == -ENETRESET && two.status == -ENETRESET && sender.status == -ENETRESET, "%s: of it", name);
	leave(&one);
	leave(&sender);
	CHECK(gone(9), "%s: the group goes", name);
	CHECK_EQ(0, mt_sa_requests(MEMBER_RECORD, DELETE), "%s: nothing is left", name);
	CHECK_EQ(2, atomic_read(&one.calls), "%s: once", name);
	CHECK(!join(&one, 9, FULL) && told(&one), "%s: joined anew", name);
	/* The port may not know its subnet manager yet. */
	while (one.status == -EAGAIN) {
		leave(&one);
		usleep_range(1000, 2000);
		if (join(&one, 9, FULL) || !told(&one))
			break;
	}
	CHECK_EQ(0, one.status, "%s: well", name);
	leave(&one);
	CHECK(gone(9), "%s: and left", name);
}

/* The port does not know its subnet manager: nobody can be asked, and nothing of the request is left. */
static void test_no_manager(void)
{
	unsigned long end = jiffies + 20 * HZ * mt_slowness;
	struct member member = {};

	fake_ib_ports[1].sm_lid = 0;
	fake_ib_event(1, IB_EVENT_SM_CHANGE);
	/* A join before the event's work has run goes to the old manager, which does not answer any more. */
	do {
		CHECK(!join(&member, 12, FULL) && told(&member), "a group without a subnet manager");
		leave(&member);
	} while (member.status != -EAGAIN && time_before(jiffies, end));
	CHECK_EQ(-EAGAIN, member.status, "is to be joined later");
	CHECK(gone(12), "the group goes");
	ib_sa_unregister_client(&mt_sa_client);
	ib_sa_register_client(&mt_sa_client);
	fake_ib_ports[1].sm_lid = FAKE_IB_SM_LID;
	fake_ib_event(1, IB_EVENT_SM_CHANGE);
	end = jiffies + 20 * HZ * mt_slowness;
	do {
		CHECK(!join(&member, 12, FULL) && told(&member), "a group with a subnet manager");
		leave(&member);
	} while (member.status && time_before(jiffies, end));
	CHECK_EQ(0, member.status, "is joined");
	CHECK(gone(12), "and left");
}

static void test_no_reset(enum ib_event_type event, u32 port)
{
	struct member member = {};

	CHECK(!join(&member, 10, FULL) && told(&member) && !member.status, "a member");
	fake_ib_event(port, event);
	msleep(100 * mt_slowness);
	CHECK_EQ(1, atomic_read(&member.calls), "%s at port %u is nothing to it", ib_event_msg(event), port);
	leave(&member);
	CHECK(gone(10), "it leaves");
}

/* A P_Key table changes: members of a group whose P_Key has moved get an error. */
static void test_pkey(void)
{
	struct ib_sa_mcmember_rec rec;
	struct member member = {};

	test_no_reset(IB_EVENT_PKEY_CHANGE, 1);
	fill(&rec, 11, FULL);
	rec.pkey = cpu_to_be16(0x8001);
	CHECK(!join_rec(&member, &rec, JOIN_MASK | IB_SA_MCMEMBER_REC_PKEY) && told(&member) && !member.status,
	      "a group with a P_Key");
	fake_ib_ports[1].pkeys[1] = 0;
	fake_ib_ports[1].pkeys[3] = 0x8001;
	fake_ib_event(1, IB_EVENT_PKEY_CHANGE);
	CHECK(told(&member), "the P_Key is elsewhere now");
	CHECK_EQ(-ENETRESET, member.status, "that is told");
	leave(&member);
	CHECK(gone(11), "the group goes");
	fake_ib_ports[1].pkeys[1] = 0x8001;
	fake_ib_ports[1].pkeys[3] = 0;
	fake_ib_event(1, IB_EVENT_PKEY_CHANGE);
	msleep(50);
	fake_ib_sa_forget();
}

static void test_ah(void)
{
	struct ib_sa_mcmember_rec rec;
	struct rdma_ah_attr attr;

	full_rec(&rec);
	CHECK_EQ(0, ib_init_ah_from_mcmember(mt_device, 1, &rec, NULL, IB_GID_TYPE_IB, &attr), "the address of a group");
	CHECK(attr.type == RDMA_AH_ATTR_TYPE_IB && rdma_ah_get_dlid(&attr) == 0xc123 && attr.sl == 0xd && attr.port_num == 1 &&
	      attr.static_rate == 0x12, "its fields");
	CHECK(rdma_ah_get_ah_flags(&attr) == IB_AH_GRH && attr.grh.hop_limit == 0x3f && attr.grh.flow_label == 0xabcde &&
	      attr.grh.traffic_class == 0x5a && !memcmp(&attr.grh.dgid, &rec.mgid, 16), "its route");
	CHECK(attr.grh.sgid_attr && !memcmp(&attr.grh.sgid_attr->gid, &rec.port_gid, 16), "the GID that it is from");
	rdma_destroy_ah_attr(&attr);
	rec.port_gid.raw[15] = 0x99;
	CHECK(ib_init_ah_from_mcmember(mt_device, 1, &rec, NULL, IB_GID_TYPE_IB, &attr) < 0,
	      "from a GID that the port does not have");
}

/* Many groups, and many members that come and go. */
static void test_many(void)
{
	static struct member members[60];
	int round, nth, wrong = 0;

	for (round = 0; round < 3; round++) {
		memset(members, 0, sizeof(members));
		for (nth = 0; nth < ARRAY_SIZE(members); nth++)
			wrong += join(&members[nth], 0x40 + nth % 12, FULL);
		for (nth = 0; nth < ARRAY_SIZE(members); nth += 2)
			wrong += !told(&members[nth]) || members[nth].status;
		for (nth = 0; nth < ARRAY_SIZE(members); nth++)
			leave(&members[nth]);
		for (nth = 0; nth < 12; nth++)
			wrong += !gone(0x40 + nth) || joined(0x40 + nth);
	}
	CHECK_EQ(0, wrong, "many members of many groups");
}

void mt_test_mcast(void)
{
	ib_sa_register_client(&mt_sa_client);
	MT_FRESH(test_wire());
	MT_FRESH(test_two());
	MT_FRESH(test_states());
	MT_FRESH(test_mismatch());
	MT_FRESH(test_selectors());
	MT_FRESH(test_refused());
	MT_FRESH(test_timeout());
	MT_FRESH(test_leave_early());
	MT_FRESH(test_leave_refused());
	MT_FRESH(test_zero());
	MT_FRESH(test_ah());
	MT_FRESH(test_many());
	MT_FRESH(test_no_manager());
	MT_FRESH(test_reset(IB_EVENT_LID_CHANGE));
	MT_FRESH(test_reset(IB_EVENT_PORT_ERR));
	MT_FRESH(test_reset(IB_EVENT_CLIENT_REREGISTER));
	MT_FRESH(test_no_reset(IB_EVENT_GID_CHANGE, 1));
	MT_FRESH(test_no_reset(IB_EVENT_LID_CHANGE, 2));
	MT_FRESH(test_pkey());
	ib_sa_unregister_client(&mt_sa_client);
}
