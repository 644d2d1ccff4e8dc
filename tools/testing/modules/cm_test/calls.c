// SPDX-License-Identifier: GPL-2.0
/* What may be asked for in which state: the errnos, and the names of reasons. */
#include "cm_test.h"

static struct ct_end client, other, child;

static void names(void)
{
	CHECK("no QP", !strcmp(ibcm_reject_msg(IB_CM_REJ_NO_QP), "no QP"));
	CHECK("timeout", !strcmp(ibcm_reject_msg(IB_CM_REJ_TIMEOUT), "timeout"));
	CHECK("invalid service ID", !strcmp(ibcm_reject_msg(IB_CM_REJ_INVALID_SERVICE_ID), "invalid service ID"));
	CHECK("stale conn", !strcmp(ibcm_reject_msg(IB_CM_REJ_STALE_CONN), "stale conn"));
	CHECK("consumer defined", !strcmp(ibcm_reject_msg(IB_CM_REJ_CONSUMER_DEFINED), "consumer defined"));
	CHECK("vendor option", !strcmp(ibcm_reject_msg(IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED), "vendor option is not supported"));
	CHECK("0 is none", !strcmp(ibcm_reject_msg(0), "unrecognized reason"));
	CHECK("34 is none", !strcmp(ibcm_reject_msg(34), "unrecognized reason"));
	CHECK("36 is none", !strcmp(ibcm_reject_msg(36), "unrecognized reason"));
	CHECK("a negative one is none", !strcmp(ibcm_reject_msg(-1), "unrecognized reason"));
}

/* Calls that need an answer of a peer, or a connection, in a state that has none. */
static noinline void check_none(struct ib_cm_id *id, const char *state)
{
	struct ib_cm_sidr_rep_param sidr = { .status = IB_SIDR_SUCCESS };
	struct ib_qp_attr attr;

	pr_info("in the state %s\n", state);
	CHECK_EQ("no reply", -EINVAL, ct_rep_id(id));
	CHECK_EQ("no RTU", -EINVAL, ib_send_cm_rtu(id, NULL, 0));
	CHECK_EQ("no DREQ", -EINVAL, ib_send_cm_dreq(id, NULL, 0));
	CHECK_EQ("no DREP", -EINVAL, ib_send_cm_drep(id, NULL, 0));
	CHECK_EQ("no REJ", -EINVAL, ib_send_cm_rej(id, IB_CM_REJ_CONSUMER_DEFINED, NULL, 0, NULL, 0));
	CHECK_EQ("no MRA", -EINVAL, ib_prepare_cm_mra(id));
	CHECK_EQ("no reply to a datagram", -EINVAL, ib_send_cm_sidr_rep(id, &sidr));
	CHECK_EQ("it is not established", -EINVAL, ib_cm_notify(id, IB_EVENT_COMM_EST));
	CHECK_EQ("it does not migrate", -EINVAL, ib_cm_notify(id, IB_EVENT_PATH_MIG));
	CHECK_EQ("another event", -EINVAL, ib_cm_notify(id, IB_EVENT_PATH_MIG_ERR));
	CHECK_EQ("attributes for INIT", -EINVAL, ct_mask(id, IB_QPS_INIT, &attr));
	CHECK_EQ("attributes for RTR", -EINVAL, ct_mask(id, IB_QPS_RTR, &attr));
	CHECK_EQ("attributes for RTS", -EINVAL, ct_mask(id, IB_QPS_RTS, &attr));
}

static noinline void idle(void)
{
	CHECK_EQ("created", 0, ct_up(&client));
	CHECK_EQ("the state", IB_CM_IDLE, client.id->state);
	CHECK_EQ("no alternate path", IB_CM_LAP_UNINIT, client.id->lap_state);
	CHECK("the device", client.id->device == ct_device);
	CHECK("the context", client.id->context == &client);
	CHECK_EQ("the remote queue pair", 1, client.id->remote_cm_qpn);
	CHECK_EQ("no peer", 0, client.id->remote_id);
	CHECK_EQ("another", 0, ct_up(&other));
	CHECK("numbers differ", client.id->local_id != other.id->local_id);
	ct_down(&other);
	check_none(client.id, "IDLE");
	ct_down(&client);
	CHECK_EQ("a listener", 0, ct_listen(&client, &child));
	check_none(client.id, "LISTEN");
	CHECK_EQ("a listener cannot ask", -EINVAL, ct_req(&client, &(struct ct_req){ .life_time = 10, .response = 10 }));
	ct_down(&client);
}

/* A request that is wrong. */
static noinline int wrong(void (*spoil)(struct ib_cm_req_param *param, struct sa_path_rec *alternate))
{
	const struct ib_gid_attr *gid = ct_gid();
	struct sa_path_rec path, alternate;
	struct ib_cm_req_param param = {
		.primary_path = &path, .ppath_sgid_attr = gid, .service_id = CT_SERVICE, .qp_num = 1, .qp_type = IB_QPT_RC,
	};
	int ret;

	ct_path(&path, 10);
	ct_path(&alternate, 10);
	ct_up(&client);
	spoil(&param, &alternate);
	ret = ib_send_cm_req(client.id, &param);
	CHECK_EQ("it is idle after that", IB_CM_IDLE, client.id->state);
	ct_down(&client);
	rdma_put_gid_attr(gid);
	return ret;
}

static void no_path(struct ib_cm_req_param *param, struct sa_path_rec *alternate)
{
	param->primary_path = NULL;
}

static void datagrams(struct ib_cm_req_param *param, struct sa_path_rec *alternate)
{
	param->qp_type = IB_QPT_UD;
}

static void target(struct ib_cm_req_param *param, struct sa_path_rec *alternate)
{
	param->qp_type = IB_QPT_XRC_TGT;
}

static void long_data(struct ib_cm_req_param *param, struct sa_path_rec *alternate)
{
	param->private_data = "";
	param->private_data_len = IB_CM_REQ_PRIVATE_DATA_SIZE + 1;
}

static void other_partition(struct ib_cm_req_param *param, struct sa_path_rec *alternate)
{
	alternate->pkey = cpu_to_be16(1);
	param->alternate_path = alternate;
}

static void other_mtu(struct ib_cm_req_param *param, struct sa_path_rec *alternate)
{
	alternate->mtu = IB_MTU_256;
	param->alternate_path = alternate;
}

static void no_partition(struct ib_cm_req_param *param, struct sa_path_rec *alternate)
{
	param->primary_path->pkey = cpu_to_be16(0x1234);
}

static void no_gid(struct ib_cm_req_param *param, struct sa_path_rec *alternate)
{
	param->ppath_sgid_attr = NULL;
	memset(&param->primary_path->sgid, 0x55, sizeof(param->primary_path->sgid));
}

static void requests(void)
{
	CHECK_EQ("without a path", -EINVAL, wrong(no_path));
	CHECK_EQ("for datagrams", -EINVAL, wrong(datagrams));
	CHECK_EQ("for the target of XRC", -EINVAL, wrong(target));
	CHECK_EQ("with 93 bytes", -EINVAL, wrong(long_data));
	CHECK_EQ("an alternate path of another partition", -EINVAL, wrong(other_partition));
	CHECK_EQ("an alternate path of another MTU", -EINVAL, wrong(other_mtu));
	CHECK_EQ("an unknown partition", -ENOENT, wrong(no_partition));
	CHECK_EQ("an unknown GID", -EINVAL, wrong(no_gid));
}

/* What is too long, which is looked at before the state. */
static noinline void lengths(void)
{
	struct ib_cm_sidr_rep_param sidr = { .private_data = "", .private_data_len = IB_CM_SIDR_REP_PRIVATE_DATA_SIZE + 1 };
	struct ib_cm_rep_param rep = { .private_data = "", .private_data_len = IB_CM_REP_PRIVATE_DATA_SIZE + 1 };
	struct ib_cm_sidr_req_param none = { .service_id = CT_SERVICE };
	static u8 data[256];

	ct_up(&client);
	CHECK_EQ("REP", -EINVAL, ib_send_cm_rep(client.id, &rep));
	CHECK_EQ("RTU", -EINVAL, ib_send_cm_rtu(client.id, data, IB_CM_RTU_PRIVATE_DATA_SIZE + 1));
	CHECK_EQ("DREQ", -EINVAL, ib_send_cm_dreq(client.id, data, IB_CM_DREQ_PRIVATE_DATA_SIZE + 1));
	CHECK_EQ("REJ", -EINVAL, ib_send_cm_rej(client.id, 28, NULL, 0, data, IB_CM_REJ_PRIVATE_DATA_SIZE + 1));
	CHECK_EQ("information of a REJ", -EINVAL, ib_send_cm_rej(client.id, 28, data, IB_CM_REJ_ARI_LENGTH + 1, NULL, 0));
	CHECK_EQ("SIDR_REP", -EINVAL, ib_send_cm_sidr_rep(client.id, &sidr));
	CHECK_EQ("SIDR_REQ without a path", -EINVAL, ib_send_cm_sidr_req(client.id, &none));
	ct_down(&client);
}

void ct_test_calls(void)
{
	names();
	idle();
	requests();
	lengths();
}

static int nobody(struct ib_cm_id *id, const struct ib_cm_event *event)
{
	return 1;
}

static int somebody(struct ib_cm_id *id, const struct ib_cm_event *event)
{
	return 2;
}

static void shared(void)
{
	struct ib_cm_id *first, *second, *third;

	first = ib_cm_insert_listen(ct_device, nobody, CT_SERVICE);
	CHECK("a shared listener", !IS_ERR(first));
	if (IS_ERR(first))
		return;
	CHECK_EQ("its state", IB_CM_LISTEN, first->state);
	CHECK("its service", first->service_id == CT_SERVICE);
	second = ib_cm_insert_listen(ct_device, nobody, CT_SERVICE);
	CHECK("it is shared", second == first);
	third = ib_cm_insert_listen(ct_device, somebody, CT_SERVICE);
	CHECK_EQ("not by another handler", -EINVAL, PTR_ERR_OR_ZERO(third));
	ct_up(&client);
	CHECK_EQ("nor by one that listens itself", -EBUSY, ib_cm_listen(client.id, CT_SERVICE));
	ib_destroy_cm_id(first);
	CHECK_EQ("it listens for the second", IB_CM_LISTEN, second->state);
	CHECK_EQ("the service is in use", -EBUSY, ib_cm_listen(client.id, CT_SERVICE));
	ib_destroy_cm_id(second);
	CHECK_EQ("then it is free", 0, ib_cm_listen(client.id, CT_SERVICE));
	third = ib_cm_insert_listen(ct_device, nobody, CT_SERVICE);
	CHECK_EQ("one with a context is not shared", -EINVAL, PTR_ERR_OR_ZERO(third));
	ct_down(&client);
	third = ib_cm_insert_listen(ct_device, nobody, cpu_to_be64(0x0200000000000001ULL));
	CHECK_EQ("a service that is assigned cannot be chosen", -EINVAL, PTR_ERR_OR_ZERO(third));
}

void ct_test_listen(void)
{
	CHECK_EQ("a listener", 0, ct_listen(&client, &child));
	CHECK_EQ("its state", IB_CM_LISTEN, client.id->state);
	CHECK("its service", client.id->service_id == CT_SERVICE);
	CHECK_EQ("it listens already", -EINVAL, ib_cm_listen(client.id, CT_SERVICE));
	ct_up(&other);
	CHECK_EQ("the service is in use", -EBUSY, ib_cm_listen(other.id, CT_SERVICE));
	CHECK_EQ("the other is idle", IB_CM_IDLE, other.id->state);
	CHECK_EQ("a service that is assigned cannot be chosen", -EINVAL, ib_cm_listen(other.id, cpu_to_be64(0x0200000000000001ULL)));
	CHECK_EQ("a service is assigned", 0, ib_cm_listen(other.id, IB_CM_ASSIGN_SERVICE_ID));
	CHECK("of those that are", (other.id->service_id & IB_SERVICE_ID_AGN_MASK) == IB_CM_ASSIGN_SERVICE_ID);
	ct_down(&client);
	CHECK_EQ("the first again", 0, ct_listen(&client, &child));
	ct_down(&client);
	ct_up(&client);
	CHECK_EQ("another is assigned", 0, ib_cm_listen(client.id, IB_CM_ASSIGN_SERVICE_ID));
	CHECK("which is not the same", client.id->service_id != other.id->service_id);
	ct_down(&other);
	ct_down(&client);
	shared();
}
