// SPDX-License-Identifier: GPL-2.0
/* What a client may ask for, in which state, and what the driver is asked for then. */
#include "iw_test.h"

static struct it_client client, peer;

static int attributes(struct iw_cm_id *id, enum ib_qp_state state, int *mask, int *access)
{
	struct ib_qp_attr attr = { .qp_state = state };
	int ret;

	*mask = -1;
	ret = iw_cm_init_qp_attr(id, &attr, mask);
	*access = attr.qp_access_flags;
	return ret;
}

static void check_attributes(struct iw_cm_id *id, const char *what, int wanted)
{
	int mask, access, ret = attributes(id, IB_QPS_INIT, &mask, &access);

	CHECK_EQ(what, wanted, ret);
	if (wanted)
		return;
	CHECK_EQ("the mask for INIT", IB_QP_STATE | IB_QP_ACCESS_FLAGS, mask);
	CHECK_EQ("the access for INIT", IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ, access);
	CHECK_EQ("for RTR", 0, attributes(id, IB_QPS_RTR, &mask, &access));
	CHECK_EQ("the mask for RTR", IB_QP_STATE | IB_QP_ACCESS_FLAGS, mask);
	CHECK_EQ("for RTS", 0, attributes(id, IB_QPS_RTS, &mask, &access));
	CHECK_EQ("the mask for RTS", 0, mask);
	CHECK_EQ("for SQD there are none", -EINVAL, attributes(id, IB_QPS_SQD, &mask, &access));
	CHECK_EQ("for RESET there are none", -EINVAL, attributes(id, IB_QPS_RESET, &mask, &access));
}

static void names(void)
{
	CHECK("reset", !strcmp(iwcm_reject_msg(-ECONNRESET), "reset by remote host"));
	CHECK("refused", !strcmp(iwcm_reject_msg(-ECONNREFUSED), "refused by remote application"));
	CHECK("timeout", !strcmp(iwcm_reject_msg(-ETIMEDOUT), "setup timeout"));
	CHECK("0 is none", !strcmp(iwcm_reject_msg(0), "unrecognized reason"));
	CHECK("a positive one is none", !strcmp(iwcm_reject_msg(ECONNRESET), "unrecognized reason"));
	CHECK("EPERM is none", !strcmp(iwcm_reject_msg(-EPERM), "unrecognized reason"));
	CHECK("the least number is none", !strcmp(iwcm_reject_msg(INT_MIN), "unrecognized reason"));
}

static void idle(void)
{
	CHECK_EQ("created", 0, it_client_up(&client));
	CHECK("its device", client.id->device == it_driver.device);
	CHECK("what drivers call", client.id->event_handler && client.id->add_ref && client.id->rem_ref);
	check_attributes(client.id, "attributes of a new one", 0);
	CHECK_EQ("a new one disconnects", 0, iw_cm_disconnect(client.id, 0));
	CHECK_EQ("it has no peer to accept", -EINVAL, it_accept(client.id));
	CHECK_EQ("nor one to refuse", -EINVAL, iw_cm_reject(client.id, NULL, 0));
	iw_destroy_cm_id(client.id);
	CHECK_EQ("the driver knows nothing", 0, atomic_read(&it_driver.rejects) + atomic_read(&it_driver.stops));
}

static void connecting(void)
{
	struct iw_cm_conn_param nobody = { .qpn = IT_QPN + 1 };

	it_client_up(&client);
	CHECK_EQ("no such queue pair", -EINVAL, iw_cm_connect(client.id, &nobody));
	iw_destroy_cm_id(client.id);
	it_client_up(&client);
	it_driver.connect_ret = -ENETUNREACH;
	CHECK_EQ("the driver cannot connect", -ENETUNREACH, it_connect(&client));
	CHECK_EQ("the queue pair is released", 0, atomic_read(&it_driver.qp_refs));
	it_driver.connect_ret = 0;
	if (it_strict)
		CHECK_EQ("it connects at the second try", 0, it_connect(&client));
	else
		iw_destroy_cm_id(client.id), it_client_up(&client), it_connect(&client);
	CHECK("the ends that the driver sees", !memcmp(&it_driver.connect_local, &client.id->local_addr, sizeof(client.id->local_addr)) &&
	      !memcmp(&it_driver.connect_remote, &client.id->remote_addr, sizeof(client.id->remote_addr)));
	check_attributes(client.id, "attributes of one that connects", 0);
	if (it_strict)
		CHECK_EQ("it cannot connect once more", -EINVAL, it_connect(&client));
	CHECK_EQ("a reply", 0, it_emit(client.id, IW_CM_EVENT_CONNECT_REPLY, 0, "welcome"));
	CHECK("the client learns of it", it_told(&client, 1));
	CHECK_EQ("the event", IW_CM_EVENT_CONNECT_REPLY, client.last.event);
	CHECK_EQ("its status", 0, client.last.status);
	CHECK("its private data", !strcmp(client.data, "welcome"));
	CHECK_EQ("READs that come in", 3, client.last.ird);
	CHECK_EQ("READs that go out", 5, client.last.ord);
	CHECK("the ends are the client's", !memcmp(&client.last.local_addr, &client.id->local_addr, sizeof(client.id->local_addr)) &&
	      !memcmp(&client.last.remote_addr, &client.id->remote_addr, sizeof(client.id->remote_addr)));
	CHECK_EQ("those on the wire are the driver's", htons(2222), ((struct sockaddr_in *)&client.id->m_remote_addr)->sin_port);
	check_attributes(client.id, "attributes of a connection", 0);
	CHECK_EQ("it disconnects", 0, iw_cm_disconnect(client.id, 0));
	CHECK_EQ("in order", IB_QPS_SQD, it_driver.qp_state);
	check_attributes(client.id, "attributes after that", -EINVAL);
	it_driver.qp_state = -1;
	CHECK_EQ("it disconnects again", 0, iw_cm_disconnect(client.id, 1));
	CHECK_EQ("which does nothing", -1, it_driver.qp_state);
	CHECK_EQ("it closes", 0, it_emit(client.id, IW_CM_EVENT_CLOSE, 0, NULL));
	CHECK("the client learns of that", it_told(&client, 2) && client.last.event == IW_CM_EVENT_CLOSE);
	CHECK_EQ("the queue pair is released", 0, atomic_read(&it_driver.qp_refs));
	it_put(client.id);
	iw_destroy_cm_id(client.id);
}

static void abrupt(void)
{
	it_client_up(&client);
	it_connect(&client);
	it_emit(client.id, IW_CM_EVENT_CONNECT_REPLY, 0, NULL);
	CHECK("connected", it_told(&client, 1));
	CHECK_EQ("it disconnects", 0, iw_cm_disconnect(client.id, 1));
	CHECK_EQ("at once", IB_QPS_ERR, it_driver.qp_state);
	iw_destroy_cm_id(client.id);
	CHECK_EQ("the queue pair is released", 0, atomic_read(&it_driver.qp_refs));
	it_put(client.id);

	it_client_up(&client);
	it_connect(&client);
	it_emit(client.id, IW_CM_EVENT_CONNECT_REPLY, 0, NULL);
	CHECK("connected again", it_told(&client, 1));
	it_driver.qp_state = -1;
	iw_destroy_cm_id(client.id);
	CHECK_EQ("destroying disconnects at once", IB_QPS_ERR, it_driver.qp_state);
	it_put(client.id);
}

/* A listener with a peer, which becomes `peer`. */
static void listener_with_peer(void)
{
	it_client_up(&client);
	memset(&peer, 0, sizeof(peer));
	init_completion(&peer.called);
	client.for_child = &peer;
	CHECK_EQ("it listens", 0, iw_cm_listen(client.id, 4));
	CHECK_EQ("a peer", 0, it_emit(client.id, IW_CM_EVENT_CONNECT_REQUEST, 0, "knock"));
	CHECK("the client learns of it", it_told(&client, 1) && client.last.event == IW_CM_EVENT_CONNECT_REQUEST);
}

static void listening(void)
{
	int stops = atomic_read(&it_driver.stops);

	it_client_up(&client);
	it_driver.listen_ret = -EADDRINUSE;
	CHECK_EQ("the driver cannot listen", -EADDRINUSE, iw_cm_listen(client.id, 4));
	it_driver.listen_ret = 0;
	iw_destroy_cm_id(client.id);
	CHECK_EQ("it has nothing to end", stops, atomic_read(&it_driver.stops));
	listener_with_peer();
	CHECK_EQ("the backlog", 4, it_driver.backlog);
	CHECK("its private data", !strcmp(client.data, "knock"));
	CHECK("what the driver has for it", peer.id->provider_data == &it_driver);
	CHECK("its local end is the listener's", !memcmp(&peer.id->local_addr, &client.id->local_addr, sizeof(peer.id->local_addr)));
	CHECK_EQ("its remote end", htons(2222), ((struct sockaddr_in *)&peer.id->remote_addr)->sin_port);
	CHECK_EQ("a listener does not disconnect", -EINVAL, iw_cm_disconnect(client.id, 0));
	CHECK_EQ("nor is it accepted", -EINVAL, it_accept(client.id));
	check_attributes(client.id, "attributes of a listener", -EINVAL);
	check_attributes(peer.id, "attributes of a peer", 0);
	if (it_strict) {
		CHECK_EQ("it listens already", -EINVAL, iw_cm_listen(client.id, 4));
		CHECK_EQ("a negative backlog", -EINVAL, iw_cm_listen(client.id, -1));
	}
	CHECK_EQ("a peer that waits disconnects", 0, iw_cm_disconnect(peer.id, 0));
	CHECK_EQ("the peer is accepted", 0, it_accept(peer.id));
	CHECK_EQ("with its queue pair", 1, atomic_read(&it_driver.qp_refs));
	it_emit(peer.id, IW_CM_EVENT_ESTABLISHED, 0, NULL);
	CHECK("it is there", it_told(&peer, 1) && peer.last.event == IW_CM_EVENT_ESTABLISHED);
	CHECK_EQ("it is accepted no more", -EINVAL, it_accept(peer.id));
	CHECK_EQ("nor refused", -EINVAL, iw_cm_reject(peer.id, NULL, 0));
	it_emit(peer.id, IW_CM_EVENT_DISCONNECT, 0, NULL);
	it_emit(peer.id, IW_CM_EVENT_CLOSE, 0, NULL);
	CHECK("it has gone, in one event", it_told(&peer, 2) && peer.last.event == IW_CM_EVENT_CLOSE);
	it_put(peer.id);
	iw_destroy_cm_id(peer.id);
	iw_destroy_cm_id(client.id);
	CHECK_EQ("the driver listens no more", stops + 1, atomic_read(&it_driver.stops));
}

static void refusing(void)
{
	int rejects = atomic_read(&it_driver.rejects);

	listener_with_peer();
	CHECK_EQ("the peer is refused", 0, iw_cm_reject(peer.id, "no room", 7));
	CHECK("with data", it_driver.reject_len == 7 && !memcmp(it_driver.reject_data, "no room", 7));
	CHECK_EQ("once", -EINVAL, iw_cm_reject(peer.id, NULL, 0));
	iw_destroy_cm_id(peer.id);
	iw_destroy_cm_id(client.id);
	CHECK_EQ("the driver has refused once", rejects + 1, atomic_read(&it_driver.rejects));

	listener_with_peer();
	iw_destroy_cm_id(peer.id);
	CHECK_EQ("who is not answered is refused", rejects + 2, atomic_read(&it_driver.rejects));
	iw_destroy_cm_id(client.id);

	listener_with_peer();
	it_driver.accept_ret = -ECONNRESET;
	CHECK_EQ("the driver cannot accept", -ECONNRESET, it_accept(peer.id));
	it_driver.accept_ret = 0;
	CHECK_EQ("the queue pair is released", 0, atomic_read(&it_driver.qp_refs));
	CHECK_EQ("there is nothing to disconnect", 0, iw_cm_disconnect(peer.id, 0));
	iw_destroy_cm_id(peer.id);
	iw_destroy_cm_id(client.id);
	CHECK_EQ("nobody else is refused", rejects + 2, atomic_read(&it_driver.rejects));
}

void it_test_calls(void)
{
	names();
	idle();
	connecting();
	abrupt();
	listening();
	refusing();
}
