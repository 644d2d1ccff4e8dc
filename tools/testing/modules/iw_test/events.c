// SPDX-License-Identifier: GPL-2.0
/* Events: who waits for which, what a handler's result does, and what comes when nobody waits any more. */
#include "iw_test.h"

static struct it_client client, peer, other;
static DECLARE_COMPLETION(go);

/* A call in a thread of its own. */
struct call {
	void (*what)(void);
	struct completion done;
};

static int call_thread(void *data)
{
	struct call *call = data;

	call->what();
	complete(&call->done);
	return 0;
}

static void begin(struct call *call, void (*what)(void))
{
	call->what = what;
	init_completion(&call->done);
	kthread_run(call_thread, call, "iw_test");
}

static bool is_done(struct call *call, unsigned int ms)
{
	return wait_for_completion_timeout(&call->done, msecs_to_jiffies(ms));
}

static void disconnect_client(void)
{
	iw_cm_disconnect(client.id, 0);
}

static void destroy_client(void)
{
	iw_destroy_cm_id(client.id);
}

static void waits(void)
{
	struct call call;

	it_client_up(&client);
	it_connect(&client);
	begin(&call, disconnect_client);
	CHECK("disconnecting waits for the reply", !is_done(&call, 200));
	it_emit(client.id, IW_CM_EVENT_CONNECT_REPLY, 0, NULL);
	CHECK("which comes", is_done(&call, 10000));
	CHECK_EQ("then it disconnects", IB_QPS_SQD, it_driver.qp_state);
	CHECK("the client has learned of the connection", it_told(&client, 1));
	it_put(client.id);
	iw_destroy_cm_id(client.id);

	it_client_up(&client);
	it_connect(&client);
	begin(&call, destroy_client);
	CHECK("destroying waits for the reply", !is_done(&call, 200));
	it_emit(client.id, IW_CM_EVENT_CONNECT_REPLY, -ECONNREFUSED, "busy");
	CHECK("which comes too late", is_done(&call, 10000));
	it_put(client.id);

	it_client_up(&client);
	reinit_completion(&go);
	client.wait_for = &go;
	it_connect(&client);
	it_emit(client.id, IW_CM_EVENT_CONNECT_REPLY, 0, NULL);
	CHECK("a handler runs", it_told(&client, 1));
	it_emit(client.id, IW_CM_EVENT_CLOSE, 0, NULL);
	begin(&call, destroy_client);
	CHECK("destroying waits for the handler", !is_done(&call, 200));
	complete(&go);
	CHECK("which ends", is_done(&call, 10000));
	CHECK_EQ("and is not called for what comes after that", 1, client.calls);
	CHECK_EQ("nor inside", 0, atomic_read(&client.inside));
	CHECK_EQ("what comes later is nothing", 0, it_emit(client.id, IW_CM_EVENT_CLOSE, 0, NULL));
	msleep(50);
	CHECK_EQ("the handler is not called for it", 1, client.calls);
	it_put(client.id);
}

static void refused(void)
{
	it_client_up(&client);
	it_connect(&client);
	it_emit(client.id, IW_CM_EVENT_CONNECT_REPLY, -ECONNREFUSED, "busy");
	CHECK("a peer refuses", it_told(&client, 1) && client.last.status == -ECONNREFUSED);
	CHECK("with data", !strcmp(client.data, "busy"));
	CHECK_EQ("the queue pair is released", 0, atomic_read(&it_driver.qp_refs));
	CHECK_EQ("there is nothing to disconnect", 0, iw_cm_disconnect(client.id, 0));
	it_put(client.id);
	iw_destroy_cm_id(client.id);
}

/* A handler whose result is an error gives its identifier up. */
static void given_up(void)
{
	int rejects = atomic_read(&it_driver.rejects);

	it_client_up(&client);
	client.ret = -ECONNABORTED;
	iw_cm_listen(client.id, 4);
	it_emit(client.id, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL);
	it_emit(client.id, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL);
	CHECK("two peers", it_told(&client, 2));
	iw_destroy_cm_id(client.id);
	CHECK_EQ("are refused", rejects + 2, atomic_read(&it_driver.rejects));

	it_client_up(&client);
	it_connect(&client);
	client.ret = -ECONNABORTED;
	it_driver.qp_state = -1;
	it_emit(client.id, IW_CM_EVENT_CONNECT_REPLY, 0, NULL);
	CHECK("a connection", it_told(&client, 1));
	it_client_up(&other);
	iw_cm_listen(other.id, 1);
	it_emit(other.id, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL);
	it_told(&other, 1);
	CHECK_EQ("is ended at once", IB_QPS_ERR, it_driver.qp_state);
	CHECK_EQ("with its queue pair", 0, atomic_read(&it_driver.qp_refs));
	it_put(client.id);
	iw_destroy_cm_id(other.child);
	iw_destroy_cm_id(other.id);
}

static void backlog(void)
{
	int rejects = atomic_read(&it_driver.rejects);

	it_client_up(&client);
	reinit_completion(&go);
	client.wait_for = &go;
	client.ret = -ECONNABORTED;
	iw_cm_listen(client.id, 2);
	it_emit(client.id, IW_CM_EVENT_CONNECT_REQUEST, 0, "1");
	CHECK("a handler runs", it_told(&client, 1));
	CHECK_EQ("one waits", 0, it_emit(client.id, IW_CM_EVENT_CONNECT_REQUEST, 0, "2"));
	CHECK_EQ("two wait", 0, it_emit(client.id, IW_CM_EVENT_CONNECT_REQUEST, 0, "3"));
	CHECK_EQ("no more", -ENOMEM, it_emit(client.id, IW_CM_EVENT_CONNECT_REQUEST, 0, "4"));
	complete_all(&go);
	CHECK("three are told of", it_told(&client, 3));
	CHECK("in order", !strcmp(client.data, "3"));
	iw_destroy_cm_id(client.id);
	CHECK_EQ("and refused", rejects + 3, atomic_read(&it_driver.rejects));
}

void it_test_events(void)
{
	waits();
	refused();
	given_up();
	backlog();
}

static void early(void)
{
	static const enum iw_cm_event_type all[] = {
		IW_CM_EVENT_CONNECT_REQUEST, IW_CM_EVENT_CONNECT_REPLY, IW_CM_EVENT_ESTABLISHED, IW_CM_EVENT_DISCONNECT, IW_CM_EVENT_CLOSE,
	};
	int nth, rejects;

	it_client_up(&client);
	CHECK_EQ("nothing is prepared for events of a new one", -ENOMEM, it_emit(client.id, IW_CM_EVENT_CLOSE, 0, NULL));
	it_connect(&client);
	it_emit(client.id, IW_CM_EVENT_ESTABLISHED, 0, NULL);
	it_emit(client.id, IW_CM_EVENT_DISCONNECT, 0, NULL);
	CHECK_EQ("an event that there is not", -EINVAL, it_emit(client.id, 77, 0, NULL));
	it_emit(client.id, IW_CM_EVENT_CLOSE, 0, NULL);
	CHECK("one that connects is closed", it_told(&client, 1) && client.last.event == IW_CM_EVENT_CLOSE);
	CHECK_EQ("with its queue pair", 0, atomic_read(&it_driver.qp_refs));
	rejects = atomic_read(&it_driver.rejects);
	for (nth = 0; nth < ARRAY_SIZE(all); nth++)
		it_emit(client.id, all[nth], 0, "late");
	msleep(100);
	CHECK_EQ("other events mean nothing", 1, client.calls);
	CHECK_EQ("but a peer who comes to nobody is refused", rejects + 1, atomic_read(&it_driver.rejects));
	it_put(client.id);
	iw_destroy_cm_id(client.id);
}

/* The peer goes before the connection is there. */
static void gone_before(void)
{
	it_client_up(&client);
	memset(&peer, 0, sizeof(peer));
	init_completion(&peer.called);
	client.for_child = &peer;
	iw_cm_listen(client.id, 4);
	it_emit(client.id, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL);
	it_told(&client, 1);
	CHECK_EQ("accepted", 0, it_accept(peer.id));
	it_emit(peer.id, IW_CM_EVENT_DISCONNECT, 0, NULL);
	it_emit(peer.id, IW_CM_EVENT_CLOSE, 0, NULL);
	CHECK("the client learns that the peer has gone", it_told(&peer, 1) && peer.last.event == IW_CM_EVENT_CLOSE);
	CHECK_EQ("the queue pair is released", 0, atomic_read(&it_driver.qp_refs));
	it_put(peer.id);
	iw_destroy_cm_id(peer.id);
	iw_destroy_cm_id(client.id);
}

/* Peers whose listener goes while they wait. */
static void listener_gone(void)
{
	int rejects = atomic_read(&it_driver.rejects);
	struct iw_cm_id *listener;

	it_client_up(&other);
	reinit_completion(&go);
	other.wait_for = &go;
	other.ret = -ECONNABORTED;
	iw_cm_listen(other.id, 1);
	it_emit(other.id, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL);
	CHECK("the handler of another one runs", it_told(&other, 1));
	it_client_up(&client);
	iw_cm_listen(client.id, 4);
	listener = client.id;
	listener->add_ref(listener);
	it_emit(listener, IW_CM_EVENT_CONNECT_REQUEST, 0, "a");
	it_emit(listener, IW_CM_EVENT_CONNECT_REQUEST, 0, "b");
	iw_destroy_cm_id(listener);
	CHECK_EQ("both peers are refused", rejects + 2, atomic_read(&it_driver.rejects));
	CHECK("the driver refuses who comes later", it_emit(listener, IW_CM_EVENT_CONNECT_REQUEST, 0, "c"));
	CHECK_EQ("the client was told nothing", 0, client.calls);
	listener->rem_ref(listener);
	complete_all(&go);
	iw_destroy_cm_id(other.id);
}

void it_test_faults(void)
{
	if (!it_strict)
		return;
	early();
	gone_before();
	listener_gone();
}
