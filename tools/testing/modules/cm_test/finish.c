// SPDX-License-Identifier: GPL-2.0
/* Identifiers that are destroyed, in every state; service ID resolution; many connections at once. */
#include "cm_test.h"

static struct ct_end listener, active, passive;
static const struct ct_req usual = { .life_time = 10, .response = 18, .retries = 7 };

static bool ask(void)
{
	memset(&passive, 0, sizeof(passive));
	listener.for_child = &passive;
	return !ct_up(&active) && !ct_req(&active, &usual) && ct_is_next(&passive, IB_CM_REQ_RECEIVED);
}

static bool answer(void)
{
	return ask() && !ct_rep(&passive) && ct_is_next(&active, IB_CM_REP_RECEIVED);
}

static void rejected(struct ct_end *end, int reason)
{
	struct ct_event *told = ct_next(end);

	CHECK("the other is refused", told && told->event.event == IB_CM_REJ_RECEIVED);
	CHECK_EQ("the reason", reason, told ? told->event.param.rej_rcvd.reason : 0);
}

static int destroy_other(void *end)
{
	ct_down(end);
	return 0;
}

/* Destroying waits for a handler that runs. */
static void waiting(void)
{
	struct completion go;
	struct task_struct *task;

	init_completion(&go);
	CHECK("a connection", ct_connect(&listener, &active, &passive));
	passive.wait_for = &go;
	ib_send_cm_dreq(active.id, NULL, 0);
	CHECK("a handler that waits", ct_is_next(&passive, IB_CM_DREQ_RECEIVED));
	task = kthread_create(destroy_other, &passive, "cm_test");
	if (IS_ERR(task))
		return;
	get_task_struct(task);
	wake_up_process(task);
	msleep(200);
	CHECK("destroying waits for it", READ_ONCE(passive.id));
	complete_all(&go);
	kthread_stop(task);
	put_task_struct(task);
	CHECK("until it has returned", !passive.id && !atomic_read(&passive.inside));
	ct_down(&active);
}

void ct_test_end(void)
{
	struct ct_event *told;

	ct_up(&active);
	ct_down(&active);
	CHECK_EQ("a listener", 0, ct_listen(&listener, &passive));

	CHECK("REQ_SENT", ask());
	ct_down(&active);
	told = ct_next(&passive);
	CHECK("the peer is refused", told && told->event.event == IB_CM_REJ_RECEIVED);
	CHECK_EQ("the reason", IB_CM_REJ_TIMEOUT, told ? told->event.param.rej_rcvd.reason : 0);
	CHECK("by whom", told && !memcmp(told->info, &ct_device->node_guid, 8));
	CHECK_EQ("the length of that", 8, told ? told->event.param.rej_rcvd.ari_length : 0);
	ct_down(&passive);

	CHECK("REQ_RCVD", ask());
	ct_down(&passive);
	rejected(&active, IB_CM_REJ_CONSUMER_DEFINED);
	ct_down(&active);

	CHECK("MRA_REQ_SENT", ask());
	ib_prepare_cm_mra(passive.id);
	ct_down(&passive);
	rejected(&active, IB_CM_REJ_CONSUMER_DEFINED);
	ct_down(&active);

	CHECK("REP_SENT", answer());
	ct_down(&passive);
	rejected(&active, IB_CM_REJ_CONSUMER_DEFINED);
	CHECK_EQ("it waits", IB_CM_TIMEWAIT, active.id->state);
	CHECK("and may ask again", ct_is_next(&active, IB_CM_TIMEWAIT_EXIT));
	ct_down(&active);

	CHECK("REP_RCVD", answer());
	ct_down(&active);
	rejected(&passive, IB_CM_REJ_CONSUMER_DEFINED);
	ct_down(&passive);

	CHECK("ESTABLISHED", ct_connect(&listener, &active, &passive));
	ct_down(&active);
	CHECK("the peer is told", ct_is_next(&passive, IB_CM_DREQ_RECEIVED));

	CHECK_EQ("DREQ_RCVD", IB_CM_DREQ_RCVD, passive.id->state);
	ct_down(&passive);

	CHECK("DREQ_SENT", ct_connect(&listener, &active, &passive));
	ib_send_cm_dreq(active.id, NULL, 0);
	ct_down(&active);
	CHECK("the peer is told", ct_is_next(&passive, IB_CM_DREQ_RECEIVED));
	ib_send_cm_drep(passive.id, NULL, 0);
	CHECK_EQ("TIMEWAIT", IB_CM_TIMEWAIT, passive.id->state);
	ct_down(&passive);

	CHECK("the side of the peer", ct_connect(&listener, &active, &passive));
	passive.ret = -EPIPE;
	ib_send_cm_dreq(active.id, NULL, 0);
	CHECK("a handler that fails", ct_is_next(&passive, IB_CM_DREQ_RECEIVED));
	CHECK("agrees by that", ct_is_next(&active, IB_CM_DREP_RECEIVED));
	ct_down(&active);

	waiting();
	ct_down(&listener);
}

/* Service ID resolution */

static int resolve(struct ct_end *end, int retries, int timeout_ms, int data_len)
{
	const struct ib_gid_attr *gid = ct_gid();
	struct sa_path_rec path;
	struct ib_cm_sidr_req_param param = {
		.path = &path, .sgid_attr = gid, .service_id = CT_SERVICE, .timeout_ms = timeout_ms, .private_data = "which",
		.private_data_len = data_len, .max_cm_retries = retries,
	};
	int ret;

	ct_path(&path, 10);
	ret = ib_send_cm_sidr_req(end->id, &param);
	rdma_put_gid_attr(gid);
	return ret;
}

static struct ct_event *resolved(struct ct_end *end, int status)
{
	struct ct_event *told = ct_next(end);

	CHECK("it is answered", told && told->event.event == IB_CM_SIDR_REP_RECEIVED);
	CHECK_EQ("the status", status, told ? told->event.param.sidr_rep_rcvd.status : -1);
	CHECK_EQ("it is idle", IB_CM_IDLE, end->id->state);
	return told;
}

static bool ask_datagram(int retries, int timeout_ms)
{
	memset(&passive, 0, sizeof(passive));
	listener.for_child = &passive;
	return !ct_up(&active) && !resolve(&active, retries, timeout_ms, 6) && ct_is_next(&passive, IB_CM_SIDR_REQ_RECEIVED);
}

void ct_test_datagram(void)
{
	struct ib_cm_sidr_rep_param rep = {
		.qp_num = 0x4321, .qkey = 0x1234567, .status = IB_SIDR_SUCCESS, .info = "info", .info_length = 5,
		.private_data = "this", .private_data_len = 5, .ece = { .vendor_id = 0x1234, .attr_mod = 5 },
	};
	const struct ib_cm_sidr_req_event_param *param;
	struct ct_event *told;

	ct_up(&active);
	CHECK_EQ("too much data", -EINVAL, resolve(&active, 1, 1000, IB_CM_SIDR_REQ_PRIVATE_DATA_SIZE + 1));
	CHECK_EQ("nobody is there", 0, resolve(&active, 7, 1000, 6));
	resolved(&active, IB_SIDR_UNSUPPORTED);
	ct_down(&active);

	CHECK_EQ("a listener", 0, ct_listen(&listener, &passive));
	CHECK("a request", ask_datagram(7, 1000));
	CHECK_EQ("its state", IB_CM_SIDR_REQ_SENT, active.id->state);
	CHECK_EQ("it asks already", -EINVAL, resolve(&active, 7, 1000, 6));
	told = &passive.events[0];
	param = &told->event.param.sidr_req_rcvd;
	CHECK_EQ("the state then", IB_CM_SIDR_REQ_RCVD, told->state);
	CHECK("its listener", param->listen_id == listener.id);
	CHECK("its service", param->service_id == CT_SERVICE);
	CHECK_EQ("the port", 1, param->port);
	CHECK_EQ("the port of the local GID", 1, told->gid_port);
	CHECK_EQ("the partition", 0xffff, param->pkey);
	CHECK_EQ("the partition of the datagram", 0xffff, param->bth_pkey);
	CHECK("private data", !strcmp(told->data, "which"));
	CHECK("who asks", passive.id->remote_id == active.id->local_id);
	CHECK_EQ("it is answered", 0, ib_send_cm_sidr_rep(passive.id, &rep));
	CHECK_EQ("its state", IB_CM_IDLE, passive.id->state);
	CHECK_EQ("once", -EINVAL, ib_send_cm_sidr_rep(passive.id, &rep));
	told = resolved(&active, IB_SIDR_SUCCESS);
	if (told) {
		CHECK_EQ("the queue pair", 0x4321, told->event.param.sidr_rep_rcvd.qpn);
		CHECK_EQ("its Q_Key", 0x1234567, told->event.param.sidr_rep_rcvd.qkey);
		CHECK("information", !strcmp(told->info, "info"));
		CHECK("private data", !strcmp(told->data, "this"));
		CHECK_EQ("the port of the local GID", 1, told->gid_port);
	}
	ct_down(&passive);
	CHECK_EQ("it may ask again", 0, resolve(&active, 7, 1000, 6));
	CHECK("the peer is told", ct_next(&passive));
	ct_down(&passive);
	resolved(&active, IB_SIDR_REJECT);
	ct_down(&active);

	CHECK("a request", ask_datagram(2, 30));
	told = ct_next(&active);
	CHECK("nobody answers", told && told->event.event == IB_CM_SIDR_REQ_ERROR);
	CHECK_EQ("the status", IB_WC_RESP_TIMEOUT_ERR, told ? told->event.param.send_status : 0);
	CHECK_EQ("it is idle", IB_CM_IDLE, active.id->state);
	CHECK("the peer is told once", ct_quiet(&passive));
	ct_down(&active);
	ct_down(&passive);

	CHECK("a request", ask_datagram(7, 1000));
	ct_down(&active);
	CHECK("who has asked has gone", ct_quiet(&passive));
	ct_down(&passive);

	/* A handler that gives its identifier up. */
	memset(&passive, 0, sizeof(passive));
	passive.ret = -EPERM;
	ct_up(&active);
	resolve(&active, 7, 1000, 6);
	CHECK("a handler that fails", ct_is_next(&passive, IB_CM_SIDR_REQ_RECEIVED));
	resolved(&active, IB_SIDR_REJECT);
	ct_down(&active);
	ct_down(&listener);
}

/* Many connections that begin, end, and are given up at any point. */

#define STORM 200

struct stormer {
	struct ib_cm_id *id;
	struct completion ended;
	int dies_at;		/* the number of its event after which it is given up */
	int told;
};

static atomic_t peers;
static struct completion last_peer;

static int storm_peer(struct ib_cm_id *id, const struct ib_cm_event *event)
{
	switch (event->event) {
	case IB_CM_REQ_RECEIVED:
		atomic_inc(&peers);
		if (ct_rep_id(id))
			break;
		return 0;
	case IB_CM_RTU_RECEIVED:
		return 0;
	default:
		break;
	}
	/* It has ended: the identifier is given up. */
	if (atomic_dec_and_test(&peers))
		complete(&last_peer);
	return 1;
}

static int storm_client(struct ib_cm_id *id, const struct ib_cm_event *event)
{
	struct stormer *stormer = id->context;
	bool over = true;

	if (++stormer->told != stormer->dies_at && event->event == IB_CM_REP_RECEIVED && !ib_send_cm_rtu(id, NULL, 0) &&
	    !ib_send_cm_dreq(id, NULL, 0))
		over = false;
	if (over)
		complete(&stormer->ended);
	return 0;
}

void ct_test_storm(void)
{
	struct stormer *stormers = kcalloc(STORM, sizeof(*stormers), GFP_KERNEL);
	struct ib_cm_id *listen;
	int nth, made = 0, ended = 0;

	init_completion(&last_peer);
	atomic_set(&peers, 1);
	listen = ib_cm_insert_listen(ct_device, storm_peer, CT_SERVICE);
	CHECK("a listener", !IS_ERR(listen) && stormers);
	if (IS_ERR(listen) || !stormers)
		return;
	for (nth = 0; nth < STORM; nth++) {
		struct stormer *stormer = &stormers[nth];

		init_completion(&stormer->ended);
		stormer->dies_at = nth % 5;
		stormer->id = ib_create_cm_id(ct_device, storm_client, stormer);
		if (!IS_ERR(stormer->id) && !ct_req_id(stormer->id, &usual))
			made++;
		if (nth % 7 == 0)
			complete(&stormer->ended);
		if (nth % 16 == 15)
			msleep(20);
	}
	CHECK_EQ("connections", STORM, made);
	for (nth = 0; nth < STORM; nth++) {
		ended += wait_for_completion_timeout(&stormers[nth].ended, 30 * HZ) != 0;
		ib_destroy_cm_id(stormers[nth].id);
	}
	CHECK_EQ("all end", STORM, ended);
	CHECK("so do their peers", atomic_dec_and_test(&peers) || wait_for_completion_timeout(&last_peer, 60 * HZ));
	ib_destroy_cm_id(listen);
	kfree(stormers);
}
