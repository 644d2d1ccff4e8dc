// SPDX-License-Identifier: GPL-2.0
/* Alternate paths: those of requests, and those that a peer loads later, which nobody sends any more: here they are forged. */
#include <rdma/ib_mad.h>
#include <rdma/ibta_vol1_c12.h>
#include "cm_test.h"

static struct ct_end listener, active, passive;
static struct sa_path_rec other;
static struct ct_req usual = { .life_time = 12, .response = 18, .retries = 7 };

#define LOADED_MASK (IB_QP_ALT_PATH | IB_QP_PATH_MIG_STATE)

static bool has_gid(const union ib_gid *gid, u32 port)
{
	union ib_gid own;

	return !rdma_query_gid(ct_device, port, 0, &own) && !memcmp(gid, &own, sizeof(own));
}

/* An alternate path from the second port. */
static void other_path(void)
{
	ct_ib_path(&other, 2, 14);
	other.sl = 3;
	other.rate = IB_RATE_5_GBPS;
}

static bool ask(void)
{
	memset(&passive, 0, sizeof(passive));
	listener.for_child = &passive;
	usual.alternate = &other;
	return !ct_up(&active) && !ct_req(&active, &usual);
}

static void rejected(const char *what, int reason)
{
	struct ct_event *told = ct_next(&active);

	CHECK(what, told && told->event.event == IB_CM_REJ_RECEIVED);
	CHECK_EQ("the reason", reason, told ? told->event.param.rej_rcvd.reason : 0);
	CHECK_EQ("the length of the information", 16, told ? told->event.param.rej_rcvd.ari_length : 0);
	CHECK_EQ("nobody is told of the request", 0, passive.told);
}

/* The alternate path of an end: its port, the timeout, and what the address is. */
static void check_alternate(struct ct_end *end, enum ib_qp_state state, u32 mask, u32 port, u8 timeout)
{
	struct ib_qp_attr attr;
	struct sa_path_rec path;

	ct_ib_path(&path, port, 0);
	CHECK_EQ("the attributes have it", mask, ct_mask(end->id, state, &attr) & mask);
	CHECK_EQ("its port", port, attr.alt_port_num);
	CHECK_EQ("its partition", 0, attr.alt_pkey_index);
	CHECK_EQ("its timeout", timeout, attr.alt_timeout);
	CHECK_EQ("its LID", be16_to_cpu(path.ib.dlid), rdma_ah_get_dlid(&attr.alt_ah_attr));
	CHECK_EQ("its service level", 3, rdma_ah_get_sl(&attr.alt_ah_attr));
	CHECK_EQ("its rate", IB_RATE_5_GBPS, rdma_ah_get_static_rate(&attr.alt_ah_attr));
	CHECK_EQ("the port of the address", port, rdma_ah_get_port_num(&attr.alt_ah_attr));
	if (mask & IB_QP_PATH_MIG_STATE)
		CHECK_EQ("it is to be loaded", IB_MIG_REARM, attr.path_mig_state);
}

static void check_path(const struct sa_path_rec *path, u8 life_time)
{
	CHECK_EQ("its kind", SA_PATH_REC_TYPE_IB, path->rec_type);
	CHECK("from where", has_gid(&path->sgid, 1));
	CHECK("to where", has_gid(&path->dgid, 2));
	CHECK_EQ("the LID of here", be16_to_cpu(other.ib.dlid), be16_to_cpu(path->ib.slid));
	CHECK_EQ("the LID of the peer", be16_to_cpu(other.ib.slid), be16_to_cpu(path->ib.dlid));
	CHECK_EQ("its partition", 0xffff, be16_to_cpu(path->pkey));
	CHECK_EQ("its MTU", IB_MTU_1024, path->mtu);
	CHECK_EQ("its rate", IB_RATE_5_GBPS, path->rate);
	CHECK_EQ("its service level", 3, path->sl);
	CHECK_EQ("its life time", life_time, path->packet_life_time);
	CHECK_EQ("it can be used both ways", 1, path->reversible);
}

/* The other way is the one that is used. */
static void check_migrated(struct ct_end *end, u32 port)
{
	struct ib_qp_attr attr;
	struct sa_path_rec path;

	ct_ib_path(&path, port, 0);
	CHECK_EQ("it migrates", 0, ib_cm_notify(end->id, IB_EVENT_PATH_MIG));
	/* Ours does it in its turn. */
	msleep(100);
	CHECK_EQ("the alternate path may be loaded anew", IB_CM_LAP_IDLE, end->id->lap_state);
	ct_mask(end->id, IB_QPS_RTR, &attr);
	CHECK_EQ("the LID that is used", be16_to_cpu(path.ib.dlid), rdma_ah_get_dlid(&attr.ah_attr));
}

void ct_test_paths(void)
{
	struct ib_qp_attr attr;
	struct ct_event *told;

	CHECK_EQ("a listener", 0, ct_listen(&listener, &passive));
	other_path();
	CHECK("a request with an alternate path", ask());
	told = ct_next(&passive);
	CHECK("the peer is told", told && told->event.event == IB_CM_REQ_RECEIVED);
	if (!told)
		return;
	CHECK_EQ("the port", 2, told->event.param.req_rcvd.port);
	CHECK_EQ("an alternate path", true, told->has_alternate);
	/* The time of an acknowledgement has a round trip in it. */
	check_path(&told->alternate, 14);
	CHECK("its service", told->alternate.service_id == CT_SERVICE);
	check_alternate(&passive, IB_QPS_RTR, IB_QP_ALT_PATH, 1, 15);
	CHECK_EQ("a reply", 0, ct_rep(&passive));
	CHECK("which is told", ct_is_next(&active, IB_CM_REP_RECEIVED));
	check_alternate(&active, IB_QPS_RTR, IB_QP_ALT_PATH, 2, 15);
	CHECK_EQ("it is armed", IB_QP_PATH_MIG_STATE, ct_mask(active.id, IB_QPS_RTS, &attr) & LOADED_MASK);
	CHECK_EQ("the state of migration", IB_MIG_REARM, attr.path_mig_state);
	CHECK_EQ("an RTU", 0, ib_send_cm_rtu(active.id, NULL, 0));
	CHECK("which is told", ct_is_next(&passive, IB_CM_RTU_RECEIVED));
	check_migrated(&passive, 1);
	check_migrated(&active, 2);
	CHECK_EQ("it disconnects", 0, ib_send_cm_dreq(active.id, NULL, 0));
	CHECK("by the other path", ct_is_next(&passive, IB_CM_DREQ_RECEIVED));
	CHECK_EQ("the peer agrees", 0, ib_send_cm_drep(passive.id, NULL, 0));
	CHECK("by the other path", ct_is_next(&active, IB_CM_DREP_RECEIVED));
	ct_down(&active);
	ct_down(&passive);

	memset(&other.sgid, 0x55, sizeof(other.sgid));
	CHECK("a path from nowhere", !ask());
	ct_down(&active);
	other_path();
	memset(&other.dgid, 0x55, sizeof(other.dgid));
	CHECK("a path to nowhere", ask());
	rejected("it is refused", IB_CM_REJ_INVALID_ALT_GID);
	CHECK("with the GID that there is", has_gid((union ib_gid *)active.events[0].info, 2));
	ct_down(&active);
	ct_down(&listener);
}

/* Stock has none on RoCE, though its paths look as if they had one. */
void ct_test_roce_paths(void)
{
	CHECK_EQ("a listener", 0, ct_listen(&listener, &passive));
	ct_path(&other, 12);
	CHECK("a request with an alternate path", ask());
	rejected("it is refused", IB_CM_REJ_INVALID_ALT_GID);
	ct_down(&active);
	usual.alternate = NULL;
	CHECK("a connection", ct_connect(&listener, &active, &passive));
	ct_test_lap();
}

union forged {
	struct cm_lap_msg lap;
	struct cm_apr_msg apr;
	struct ib_mad mad;
};

/* A LAP of the active side: the alternate path is from its second port. */
static void make_lap(union forged *forged)
{
	struct cm_lap_msg *lap = &forged->lap;

	memset(forged, 0, sizeof(*forged));
	IBA_SET(CM_LAP_LOCAL_COMM_ID, lap, be32_to_cpu(active.id->local_id));
	IBA_SET(CM_LAP_REMOTE_COMM_ID, lap, be32_to_cpu(passive.id->local_id));
	IBA_SET(CM_LAP_ALTERNATE_LOCAL_PORT_LID, lap, be16_to_cpu(other.ib.slid));
	IBA_SET(CM_LAP_ALTERNATE_REMOTE_PORT_LID, lap, be16_to_cpu(other.ib.dlid));
	IBA_SET_MEM(CM_LAP_ALTERNATE_LOCAL_PORT_GID, lap, &other.sgid, sizeof(other.sgid));
	IBA_SET_MEM(CM_LAP_ALTERNATE_REMOTE_PORT_GID, lap, &other.dgid, sizeof(other.dgid));
	IBA_SET(CM_LAP_ALTERNATE_PACKET_RATE, lap, other.rate);
	IBA_SET(CM_LAP_ALTERNATE_SL, lap, other.sl);
	IBA_SET(CM_LAP_ALTERNATE_SUBNET_LOCAL, lap, 1);
	IBA_SET(CM_LAP_ALTERNATE_LOCAL_ACK_TIMEOUT, lap, 17);
	memcpy(IBA_GET_MEM_PTR(CM_LAP_PRIVATE_DATA, lap), "another path", 13);
}

static void forge_lap(void)
{
	union forged forged;

	make_lap(&forged);
	CHECK_EQ("a LAP", 0, ct_forge(CM_LAP_ATTR_ID, &forged));
}

/* An APR from either side to the other one. */
static void forge_apr(struct ct_end *from, struct ct_end *to)
{
	union forged forged = {};

	IBA_SET(CM_APR_LOCAL_COMM_ID, &forged.apr, be32_to_cpu(from->id->local_id));
	IBA_SET(CM_APR_REMOTE_COMM_ID, &forged.apr, be32_to_cpu(to->id->local_id));
	CHECK_EQ("an APR", 0, ct_forge(CM_APR_ATTR_ID, &forged));
}

/* Messages that mean nothing: numbers of other connections, paths that do not lead from here, answers that nobody has asked for. */
static void forge_others(void)
{
	u32 local = be32_to_cpu(active.id->local_id), remote = be32_to_cpu(passive.id->local_id);
	union forged forged;

	make_lap(&forged);
	IBA_SET(CM_LAP_LOCAL_COMM_ID, &forged.lap, local ^ 1);
	ct_forge(CM_LAP_ATTR_ID, &forged);
	make_lap(&forged);
	IBA_SET(CM_LAP_REMOTE_COMM_ID, &forged.lap, remote ^ 0x10000);
	ct_forge(CM_LAP_ATTR_ID, &forged);
	make_lap(&forged);
	memset(IBA_GET_MEM_PTR(CM_LAP_ALTERNATE_REMOTE_PORT_GID, &forged.lap), 0x55, 16);
	ct_forge(CM_LAP_ATTR_ID, &forged);
	memset(&forged, 0xff, sizeof(forged));
	ct_forge(CM_LAP_ATTR_ID, &forged);
	ct_forge(CM_APR_ATTR_ID, &forged);
	forge_apr(&active, &passive);
	forge_apr(&passive, &active);
}

/* A path is loaded; what means nothing is ignored, in each state. On RoCE all of it is. */
void ct_test_lap(void)
{
	struct ct_event *told;
	struct ib_qp_attr attr;

	CHECK_EQ("an agent", 0, ct_forge_begin());
	if (ct_ib) {
		CHECK_EQ("a listener", 0, ct_listen(&listener, &passive));
		other_path();
		usual.alternate = NULL;
		memset(&passive, 0, sizeof(passive));
		ct_up(&active);
		ct_req(&active, &usual);
		CHECK("a request", ct_is_next(&passive, IB_CM_REQ_RECEIVED));
		forge_lap();
		CHECK("a LAP before the connection is there", ct_quiet(&passive));
		CHECK_EQ("a reply", 0, ct_rep(&passive));
		CHECK("which is told", ct_is_next(&active, IB_CM_REP_RECEIVED));
		ib_send_cm_rtu(active.id, NULL, 0);
		CHECK("a connection", ct_is_next(&passive, IB_CM_RTU_RECEIVED));
	}
	CHECK_EQ("no alternate path", IB_CM_LAP_UNINIT, passive.id->lap_state);
	forge_others();
	CHECK("messages that mean nothing", ct_quiet(&passive) && ct_quiet(&active));
	CHECK_EQ("it has none still", IB_CM_LAP_UNINIT, passive.id->lap_state);
	CHECK_EQ("there is nothing to put off", -EINVAL, ib_prepare_cm_mra(passive.id));
	forge_lap();
	if (!ct_ib) {
		CHECK("which is ignored", ct_quiet(&passive) && ct_quiet(&active));
		CHECK_EQ("its state", IB_CM_LAP_UNINIT, passive.id->lap_state);
		ct_test_lap_end();
		return;
	}
	told = ct_next(&passive);
	CHECK("which is told", told && told->event.event == IB_CM_LAP_RECEIVED);
	if (!told)
		return;
	CHECK("private data", !strcmp(told->data, "another path"));
	check_path(&told->alternate, 16);
	CHECK_EQ("its state", IB_CM_LAP_RCVD, passive.id->lap_state);
	CHECK_EQ("the connection's", IB_CM_ESTABLISHED, passive.id->state);
	check_alternate(&passive, IB_QPS_RTS, LOADED_MASK, 1, 17);
	CHECK_EQ("no more attributes", LOADED_MASK, ct_mask(passive.id, IB_QPS_RTS, &attr));
	CHECK_EQ("nothing migrates before it is answered", -EINVAL, ib_cm_notify(passive.id, IB_EVENT_PATH_MIG));
}

/* The same path again. */
void ct_test_lap_again(void)
{
	forge_lap();
	forge_others();
	CHECK("it is told once", ct_quiet(&passive) && ct_quiet(&active));
	CHECK_EQ("its state", IB_CM_LAP_RCVD, passive.id->lap_state);
}

/* The client takes its time: the same path is answered by that. */
void ct_test_lap_delayed(void)
{
	CHECK_EQ("it takes longer", 0, ib_prepare_cm_mra(passive.id));
	CHECK_EQ("its state", IB_CM_MRA_LAP_SENT, passive.id->lap_state);
	CHECK_EQ("once", -EINVAL, ib_prepare_cm_mra(passive.id));
	forge_lap();
	forge_others();
	CHECK("it is told once", ct_quiet(&passive) && ct_quiet(&active));
	CHECK_EQ("its state", IB_CM_MRA_LAP_SENT, passive.id->lap_state);
	CHECK_EQ("the peer's", IB_CM_LAP_UNINIT, active.id->lap_state);
}

/* The connection ends as any other one. */
void ct_test_lap_end(void)
{
	CHECK_EQ("it disconnects", 0, ib_send_cm_dreq(passive.id, NULL, 0));
	CHECK("the peer is told", ct_is_next(&active, IB_CM_DREQ_RECEIVED));
	CHECK_EQ("it agrees", 0, ib_send_cm_drep(active.id, NULL, 0));
	CHECK("which is told", ct_is_next(&passive, IB_CM_DREP_RECEIVED));
	forge_lap();
	forge_others();
	CHECK("it is over", ct_is_next(&passive, IB_CM_TIMEWAIT_EXIT) && ct_is_next(&active, IB_CM_TIMEWAIT_EXIT));
	CHECK("nothing more is told", ct_quiet(&passive) && ct_quiet(&active));
	ct_down(&active);
	ct_down(&passive);
	ct_down(&listener);
	ct_forge_end();
}
