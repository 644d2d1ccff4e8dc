// SPDX-License-Identifier: GPL-2.0
/*
 * librdmacm call by call, on a device that connects to itself: addresses, options, private data, what is negotiated, each event, what
 * destroying waits for. At the end the device goes.
 *
 *   cm_calls DEVICE ADDRESS SILENT		(an address on the link that nobody has)
 */
#define _GNU_SOURCE
#include "cm.h"
#include <arpa/inet.h>
#include <malloc.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>

#define PORT 7500
#define TEXT "a message of one queue pair to the other"

static struct sockaddr_in here, silent;
static const char *device;

/* A connection, and what its ends were told when it was made. */
struct pair {
	struct rdma_cm_id *client, *server;
	struct rdma_conn_param request, established;
	char private_data[256];
	uint8_t private_length;
};

static struct sockaddr *at(struct sockaddr_in *address, uint16_t port)
{
	address->sin_port = htons(port);
	return (struct sockaddr *)address;
}

static bool resolve(struct rdma_cm_id *id, uint16_t port)
{
	return !rdma_resolve_addr(id, NULL, at(&here, port), 2000) && comes(clients, RDMA_CM_EVENT_ADDR_RESOLVED) &&
	       !rdma_resolve_route(id, 2000) && comes(clients, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static struct rdma_cm_id *listener(struct rdma_event_channel *channel, enum rdma_port_space space, uint16_t port, int backlog)
{
	struct rdma_cm_id *id = new_id(channel, space);

	if (rdma_bind_addr(id, at(&here, port)) || rdma_listen(id, backlog))
		die("rdma_listen");
	return id;
}

/* A client that has resolved the address of a listener and has a queue pair. */
static struct rdma_cm_id *client(enum rdma_port_space space, uint16_t port)
{
	struct rdma_cm_id *id = new_id(clients, space);

	if (!resolve(id, port) || !give_qp(id))
		die("resolve the address");
	return id;
}

/* The client asks; the listener's request is taken apart. */
static bool ask(struct pair *pair, struct rdma_conn_param *param)
{
	struct rdma_cm_event *event;

	if (rdma_connect(pair->client, param))
		return false;
	event = next(servers, 5000);
	if (!event || event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return false;
	pair->server = event->id;
	pair->request = event->param.conn;
	if (event->id->ps != RDMA_PS_UDP)
		pair->private_length = event->param.conn.private_data_len;
	else
		pair->private_length = event->param.ud.private_data_len;
	memcpy(pair->private_data, event->id->ps != RDMA_PS_UDP ? event->param.conn.private_data : event->param.ud.private_data,
	       pair->private_length);
	return !rdma_ack_cm_event(event);
}

static bool answer(struct pair *pair, struct rdma_conn_param *param)
{
	struct rdma_cm_event *event;
	bool good;

	if (rdma_accept(pair->server, param))
		return false;
	event = next(clients, 5000);
	good = event && event->event == RDMA_CM_EVENT_ESTABLISHED;
	if (good)
		pair->established = event->param.conn;
	if (event)
		rdma_ack_cm_event(event);
	return good && comes(servers, RDMA_CM_EVENT_ESTABLISHED);
}

static void drop(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static void drop_pair(struct pair *pair)
{
	struct rdma_cm_event *event;

	drop(pair->client);
	if (pair->server)
		drop(pair->server);
	*pair = (struct pair){ 0 };
	while ((event = next(servers, 0)) || (event = next(clients, 0)))
		rdma_ack_cm_event(event);
}

/* Addresses
 * ---------------------------------------------------------------------------------------------------------------------- */

static void bindings(void)
{
	struct rdma_cm_id *any = new_id(clients, RDMA_PS_TCP), *one = new_id(clients, RDMA_PS_TCP), *other = new_id(clients, RDMA_PS_TCP);
	struct sockaddr_in wildcard = { .sin_family = AF_INET };
	struct sockaddr_in *got = (struct sockaddr_in *)rdma_get_local_addr(one);
	uint16_t port;

	is("bind: the wildcard, port 0", !rdma_bind_addr(any, at(&wildcard, 0)) && rdma_get_src_port(any) && !any->verbs);
	is("bind: an address, port 0", !rdma_bind_addr(one, at(&here, 0)) && rdma_get_src_port(one));
	is("bind: it has the device", one->verbs && !strcmp(ibv_get_device_name(one->verbs->device), device) && one->port_num == 1);
	is("bind: its local address", got->sin_family == AF_INET && got->sin_addr.s_addr == here.sin_addr.s_addr &&
	   got->sin_port == rdma_get_src_port(one));
	port = ntohs(rdma_get_src_port(one));
	/* After an address of a device that failed, stock says ENODEV. */
	is("bind: no address of somebody else", rdma_bind_addr(other, at(&silent, 0)) && errno == EADDRNOTAVAIL);
	is("bind: no port twice", port != ntohs(rdma_get_src_port(any)) && rdma_bind_addr(other, at(&here, port)) && errno == EADDRINUSE);
	rdma_destroy_id(one);
	is("bind: a port that was given back", !rdma_bind_addr(other, at(&here, port)));
	rdma_destroy_id(any);
	rdma_destroy_id(other);
}

static bool rebinds(int level_option, int value, struct sockaddr *first, struct sockaddr *second)
{
	struct rdma_cm_id *one = new_id(clients, RDMA_PS_TCP), *other = new_id(clients, RDMA_PS_TCP);
	bool set = !rdma_set_option(one, RDMA_OPTION_ID, level_option, &value, sizeof(value)) &&
		   !rdma_set_option(other, RDMA_OPTION_ID, level_option, &value, sizeof(value));
	bool bound = !rdma_bind_addr(one, first) && !rdma_bind_addr(other, second);

	rdma_destroy_id(one);
	rdma_destroy_id(other);
	return set && bound;
}

static void options(void)
{
	struct sockaddr_in same = here, any4 = { .sin_family = AF_INET, .sin_port = htons(7601) };
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6, .sin6_port = htons(7601) };
	struct rdma_cm_id *listening = listener(servers, RDMA_PS_TCP, PORT, 1), *datagrams = new_id(clients, RDMA_PS_UDP);
	struct pair pair = { .client = new_id(clients, RDMA_PS_TCP) };
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	uint8_t tos = 0x28, timeout = 11;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	at(&same, 7600);
	is("option REUSEADDR: two on one port", rebinds(RDMA_OPTION_ID_REUSEADDR, 1, (void *)&same, (void *)&same));
	is("option REUSEADDR: not without it", !rebinds(RDMA_OPTION_ID_REUSEADDR, 0, (void *)&same, (void *)&same));
	is("option AFONLY: two families on one port", rebinds(RDMA_OPTION_ID_AFONLY, 1, (void *)&any6, (void *)&any4));
	is("option AFONLY: not without it", !rebinds(RDMA_OPTION_ID_AFONLY, 0, (void *)&any6, (void *)&any4));
	is("option TOS", !rdma_set_option(pair.client, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)));
	is("option ACK_TIMEOUT", !rdma_set_option(pair.client, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout)));
	is("option ACK_TIMEOUT: not of datagrams", rdma_set_option(datagrams, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout)));
	is("option that there is not", rdma_set_option(pair.client, RDMA_OPTION_ID, 99, &tos, sizeof(tos)));
	if (is("options: a connection", resolve(pair.client, PORT) && give_qp(pair.client) && ask(&pair, &param) && give_qp(pair.server) &&
	       answer(&pair, &param))) {
		is("options: query_qp", !ibv_query_qp(pair.client->qp, &attr, IBV_QP_AV | IBV_QP_TIMEOUT, &init));
		is("option TOS: the queue pair has it", attr.ah_attr.grh.traffic_class == tos);
		is("option ACK_TIMEOUT: the queue pair has it", attr.timeout == timeout);
	}
	drop_pair(&pair);
	rdma_destroy_id(listening);
	rdma_destroy_id(datagrams);
}

/* What libraries ask of the list of devices, and of names; nothing is left of it. */
static bool lists(struct ibv_context *of)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE | RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP }, *info;
	struct ibv_context **list;
	bool found = false;
	int count;

	list = rdma_get_devices(&count);
	for (int i = 0; list && i < count; i++)
		found = found || (list[i] == of && !strcmp(ibv_get_device_name(list[i]->device), device));
	found = found && !list[count];
	if (list)
		rdma_free_devices(list);
	if (rdma_getaddrinfo(inet_ntoa(here.sin_addr), "7500", &hints, &info))
		return false;
	found = found && ((struct sockaddr_in *)info->ai_src_addr)->sin_addr.s_addr == here.sin_addr.s_addr;
	rdma_freeaddrinfo(info);
	return found;
}

static void listed(void)
{
	struct rdma_cm_id *id = new_id(clients, RDMA_PS_TCP);
	size_t before;
	int good = 0;

	rdma_bind_addr(id, at(&here, 0));
	for (int i = 0; i < 10; i++)
		lists(id->verbs);
	before = mallinfo2().uordblks;
	for (int i = 0; i < 200; i++)
		good += lists(id->verbs);
	is("rdma_get_devices has the device, with the context that identifiers have", good == 200);
	is("lists of devices and addresses leave no memory", mallinfo2().uordblks == before);
	rdma_destroy_id(id);
}

/* Connections
 * ---------------------------------------------------------------------------------------------------------------------- */

static bool attributes(struct rdma_cm_id *id, struct ibv_qp_attr *attr)
{
	struct ibv_qp_init_attr init;

	return !ibv_query_qp(id->qp, attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_MAX_QP_RD_ATOMIC, &init) &&
	       attr->qp_state == IBV_QPS_RTS;
}

static void addresses_of(struct pair *pair)
{
	struct sockaddr_in *mine = (struct sockaddr_in *)rdma_get_local_addr(pair->client);
	struct sockaddr_in *its = (struct sockaddr_in *)rdma_get_peer_addr(pair->client);
	struct sockaddr_in *back = (struct sockaddr_in *)rdma_get_peer_addr(pair->server);

	is("the client's ports", ntohs(rdma_get_dst_port(pair->client)) == PORT && rdma_get_src_port(pair->client));
	is("the server's ports", ntohs(rdma_get_src_port(pair->server)) == PORT &&
	   rdma_get_dst_port(pair->server) == rdma_get_src_port(pair->client));
	is("the client's addresses", mine->sin_addr.s_addr == here.sin_addr.s_addr && its->sin_addr.s_addr == here.sin_addr.s_addr &&
	   ntohs(its->sin_port) == PORT);
	is("the server's peer", back->sin_addr.s_addr == here.sin_addr.s_addr && back->sin_port == rdma_get_src_port(pair->client));
}

static void negotiated(struct pair *pair)
{
	struct ibv_qp_attr attr;

	is("the request: reads, the other way round for who is asked", pair->request.responder_resources == 2 && pair->request.initiator_depth == 4);
	is("the request: retries, flow control", pair->request.retry_count == 5 && pair->request.rnr_retry_count == 3 && pair->request.flow_control);
	is("the request: the queue pair", pair->request.qp_num == pair->client->qp->qp_num && !pair->request.srq);
	is("the answer: the queue pair", pair->established.qp_num == pair->server->qp->qp_num);
	is("the client's queue pair is in RTS", attributes(pair->client, &attr));
	is("the client's reads", attr.max_rd_atomic == 2 && attr.max_dest_rd_atomic == 4);
	is("the client's retries", attr.retry_cnt == 5 && attr.rnr_retry == 6 && attr.timeout > 0 && attr.dest_qp_num == pair->server->qp->qp_num);
	is("the server's queue pair is in RTS", attributes(pair->server, &attr));
	is("the server's reads", attr.max_rd_atomic == 4 && attr.max_dest_rd_atomic == 2);
	is("the server's retries", attr.retry_cnt == 5 && attr.rnr_retry == 3 && attr.min_rnr_timer == 0 && attr.timeout > 0);
}

/* 56 bytes go with a request and 196 with an answer, and not one more; a connection from its request to the end of its time-wait. */
static void connections(void)
{
	struct rdma_cm_id *listening = listener(servers, RDMA_PS_TCP, PORT, 4);
	struct pair pair = { .client = client(RDMA_PS_TCP, PORT) };
	char data[256];
	struct rdma_conn_param param = {
		.private_data = data, .private_data_len = 57, .responder_resources = 4, .initiator_depth = 2, .retry_count = 5,
		.rnr_retry_count = 3, .flow_control = 1,
	};
	struct rdma_conn_param reply = { .private_data = data, .responder_resources = 2, .initiator_depth = 4, .rnr_retry_count = 6 };

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = i * 7 + 1;
	is("57 bytes of private data are too many", rdma_connect(pair.client, &param) && errno == EINVAL);
	drop(pair.client);
	pair.client = client(RDMA_PS_TCP, PORT);
	param.private_data_len = 56;
	is("56 bytes of private data", ask(&pair, &param) && pair.private_length >= 56 && !memcmp(pair.private_data, data, 56));
	reply.private_data_len = 196;
	is("an answer with 196 bytes", give_qp(pair.server) && answer(&pair, &reply));
	negotiated(&pair);
	addresses_of(&pair);
	is("disconnect: the server is told", !rdma_disconnect(pair.client) && comes(servers, RDMA_CM_EVENT_DISCONNECTED));
	is("disconnect: the client too, once the server has answered",
	   !next(clients, 200) && !rdma_disconnect(pair.server) && comes(clients, RDMA_CM_EVENT_DISCONNECTED));
	is("TIMEWAIT_EXIT at the client", told(clients, RDMA_CM_EVENT_TIMEWAIT_EXIT, 20000, NULL));
	is("TIMEWAIT_EXIT at the server", told(servers, RDMA_CM_EVENT_TIMEWAIT_EXIT, 20000, NULL));
	drop_pair(&pair);

	pair.client = client(RDMA_PS_TCP, PORT);
	reply.private_data_len = 197;
	is("an answer with 197 bytes is refused", ask(&pair, &param) && give_qp(pair.server) && rdma_accept(pair.server, &reply) && errno == EINVAL);
	is("and the client is rejected", comes(clients, RDMA_CM_EVENT_REJECTED));
	drop_pair(&pair);

	pair.client = client(RDMA_PS_TCP, PORT);
	is("an answer without parameters", ask(&pair, NULL) && give_qp(pair.server) && answer(&pair, NULL));
	drop_pair(&pair);
	rdma_destroy_id(listening);
}

/* Takes a queue pair that the identifier does not know from state to state, as the identifier says. */
static bool climb_by(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to)
{
	for (int state = from; state <= (int)to; state++) {
		struct ibv_qp_attr attr = { .qp_state = state };
		int mask;

		if (rdma_init_qp_attr(id, &attr, &mask) || ibv_modify_qp(qp, &attr, mask))
			return false;
	}
	return true;
}

static bool message(struct end *from, struct end *to)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(from, to, IBV_WR_SEND, &sge);

	sge.length = 8;
	return !post(from, &wr) && !wait_wc(from, 3000).status && !wait_wc(to, 3000).status;
}

/* The client's data comes before its RTU: the server's queue pair tells so, and the server tells the connection manager. */
static void early_data(void)
{
	struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *listen = listener(servers, RDMA_PS_TCP, PORT, 4);
	struct pair pair = { .client = new_id(clients, RDMA_PS_TCP) };
	static const struct setup usual;
	struct end a, b;

	if (!resolve(pair.client, PORT))
		die("resolve the address");
	context = pair.client->verbs;
	pd = ibv_alloc_pd(context);
	end_init(&a, &usual);
	end_init(&b, &usual);
	param.qp_num = a.qp->qp_num;
	is("early data: a request", ask(&pair, &param) && pair.request.qp_num == a.qp->qp_num);
	is("early data: there is none before the answer", rdma_notify(pair.server, IBV_EVENT_COMM_EST) && errno == EINVAL);
	param.qp_num = b.qp->qp_num;
	is("early data: an answer by a queue pair in RTR", climb_by(pair.server, b.qp, IBV_QPS_INIT, IBV_QPS_RTR) &&
	   !post_receive(&b, 1, 0, 64) && !rdma_accept(pair.server, &param) && comes(clients, RDMA_CM_EVENT_CONNECT_RESPONSE));
	while (wait_event(0) != -1)
		;
	is("early data: a message", climb_by(pair.client, a.qp, IBV_QPS_INIT, IBV_QPS_RTS) && message(&a, &b));
	verdict("early data: COMM_EST", event_comes(IBV_EVENT_COMM_EST, 2000), true, "no event");
	is("early data: the server is not told of a connection", !next(servers, 100));
	is("early data: rdma_notify", !rdma_notify(pair.server, IBV_EVENT_COMM_EST) && comes(servers, RDMA_CM_EVENT_ESTABLISHED));
	is("early data: twice", rdma_notify(pair.server, IBV_EVENT_COMM_EST) && errno == EISCONN);
	is("early data: the RTU tells nothing more", !rdma_establish(pair.client) && !next(servers, 300));
	is("early data: the server goes on to RTS", climb_by(pair.server, b.qp, IBV_QPS_RTS, IBV_QPS_RTS) && !post_receive(&a, 2, 0, 64) &&
	   message(&b, &a));
	end_destroy(&a);
	end_destroy(&b);
	ibv_dealloc_pd(pd);
	drop_pair(&pair);
	rdma_destroy_id(listen);
}

/* Nobody takes the requests: so many wait, and no more. Others are asked for again, by the clients' kernel. */
static void backlog(void)
{
	struct rdma_event_channel *deaf = rdma_create_event_channel();
	struct rdma_cm_id *listening = listener(deaf, RDMA_PS_TCP, PORT, 2), *ids[4];
	struct rdma_cm_event *event;
	int waiting = 0;

	for (int i = 0; i < 4; i++) {
		ids[i] = client(RDMA_PS_TCP, PORT);
		if (rdma_connect(ids[i], NULL))
			die("rdma_connect");
	}
	usleep(500000);
	while ((event = next(deaf, 100))) {
		waiting += event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
		rdma_destroy_id(event->id);
		rdma_ack_cm_event(event);
	}
	is("a backlog of 2", waiting == 2);
	for (int i = 0; i < 4; i++)
		drop(ids[i]);
	while ((event = next(clients, 0)))
		rdma_ack_cm_event(event);
	rdma_destroy_id(listening);
	rdma_destroy_event_channel(deaf);
}

/* A listener on the wildcard address has no device; a request to it comes through one. */
static void wildcard(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct rdma_cm_id *listening = new_id(servers, RDMA_PS_TCP);
	struct pair pair = { 0 };

	is("listen at the wildcard", !rdma_bind_addr(listening, at(&any, PORT)) && !rdma_listen(listening, 4) && !listening->verbs);
	pair.client = client(RDMA_PS_TCP, PORT);
	is("a request to an address comes there", ask(&pair, NULL) && pair.server->verbs &&
	   !strcmp(ibv_get_device_name(pair.server->verbs->device), device));
	is("and is answered", give_qp(pair.server) && answer(&pair, NULL));
	drop_pair(&pair);
	rdma_destroy_id(listening);
}

static void events(void)
{
	struct rdma_cm_id *listening = listener(servers, RDMA_PS_TCP, PORT, 4), *id = new_id(clients, RDMA_PS_TCP);
	struct pair pair = { 0 };
	int status = 0;

	is("ADDR_ERROR: nobody has the address", !rdma_resolve_addr(id, NULL, at(&silent, PORT), 1000) &&
	   told(clients, RDMA_CM_EVENT_ADDR_ERROR, 10000, &status) && (status == -ETIMEDOUT || status == -EHOSTUNREACH));
	rdma_destroy_id(id);

	pair.client = client(RDMA_PS_TCP, PORT);
	is("CONNECT_ERROR: a request", ask(&pair, NULL) && give_qp(pair.server) && !move(pair.client->qp, IBV_QPS_ERR));
	is("CONNECT_ERROR: the queue pair is in ERR when the answer comes", !rdma_accept(pair.server, NULL) && comes(clients, RDMA_CM_EVENT_CONNECT_ERROR));
	drop_pair(&pair);
	rdma_destroy_id(listening);
	is("the names of events", !strcmp(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED), "RDMA_CM_EVENT_ADDR_RESOLVED") &&
	   !strcmp(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT") && !strcmp(rdma_event_str(99), "UNKNOWN EVENT"));
}

static void *destroy(void *id)
{
	rdma_destroy_id(id);
	return NULL;
}

static void destroying(void)
{
	struct rdma_cm_id *id = new_id(clients, RDMA_PS_TCP);
	struct rdma_cm_event *event;
	pthread_t thread;
	long began;

	rdma_resolve_addr(id, NULL, at(&silent, PORT), 30000);
	began = now_ms();
	is("destroy_id while it is resolved", !rdma_destroy_id(id) && now_ms() - began < 5000 && !next(clients, 100));

	id = new_id(clients, RDMA_PS_TCP);
	rdma_resolve_addr(id, NULL, at(&here, PORT), 2000);
	event = next(clients, 5000);
	if (!event || pthread_create(&thread, NULL, destroy, id))
		die("an event");
	usleep(300000);
	is("destroy_id waits for the events that were taken", pthread_tryjoin_np(thread, NULL) == EBUSY);
	rdma_ack_cm_event(event);
	is("and ends when they are acknowledged", !pthread_join(thread, NULL));
}

/* Queue pairs
 * ---------------------------------------------------------------------------------------------------------------------- */

static bool received(struct rdma_cm_id *id, const char *buffer, uint32_t length)
{
	struct ibv_wc wc;

	return rdma_get_recv_comp(id, &wc) == 1 && !wc.status && wc.byte_len == length && !strcmp(buffer, TEXT);
}

/* Shared queues of an identifier: an ordinary one, and one of the extended interface, which stays. Of XRC there is none. */
static void make_srq(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr plain = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq_init_attr_ex init = { .attr = plain.attr, .comp_mask = IBV_SRQ_INIT_ATTR_TYPE, .srq_type = IBV_SRQT_XRC };
	struct ibv_srq_attr sizes = { 0 };

	is("create_srq", !rdma_create_srq(id, NULL, &plain) && id->srq && !ibv_query_srq(id->srq, &sizes) && sizes.max_wr >= 8);
	rdma_destroy_srq(id);
	is("destroy_srq", !id->srq);
	is("create_srq_ex of XRC", rdma_create_srq_ex(id, &init) && !id->srq);
	init.comp_mask = 0;
	is("of no type", rdma_create_srq_ex(id, &init) && errno == EINVAL && !id->srq);
	init = (struct ibv_srq_init_attr_ex){ .attr = { .max_wr = 20, .max_sge = 2 }, .comp_mask = IBV_SRQ_INIT_ATTR_TYPE };
	is("create_srq_ex", !rdma_create_srq_ex(id, &init) && id->srq && id->srq->pd == id->pd);
	is("its size", !ibv_query_srq(id->srq, &sizes) && sizes.max_wr >= 20 && sizes.max_sge >= 2);
}

/* The client's queue pair is of the extended interface, the server's takes from a shared queue. */
static void shared_queue(void)
{
	struct rdma_cm_id *listening = listener(servers, RDMA_PS_TCP, PORT, 4);
	struct pair pair = { .client = new_id(clients, RDMA_PS_TCP) };
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RC, .cap = { 8, 8, 1, 1, 64 }, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	static char in[100], out[100] = TEXT;
	struct ibv_mr *in_mr, *out_mr;
	struct ibv_qp_ex *qp;

	resolve(pair.client, PORT);
	init.pd = pair.client->pd;
	is("create_qp_ex", !rdma_create_qp_ex(pair.client, &init) && pair.client->qp && (qp = ibv_qp_to_qp_ex(pair.client->qp)));
	if (!is("a request", ask(&pair, NULL)))
		return;
	make_srq(pair.server);
	in_mr = rdma_reg_msgs(pair.server, in, sizeof(in));
	out_mr = rdma_reg_msgs(pair.client, out, sizeof(out));
	is("a queue pair that takes from it", give_qp(pair.server) && pair.server->qp->srq == pair.server->srq && answer(&pair, NULL));
	is("the answer says so", pair.established.srq);
	is("it stays while the queue pair uses it", ibv_destroy_srq(pair.server->srq) == EBUSY);
	rdma_post_recv(pair.server, NULL, in, sizeof(in), in_mr);
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, out_mr->lkey, (uintptr_t)out, sizeof(TEXT));
	is("a message of the extended interface to the shared queue", !ibv_wr_complete(qp) && received(pair.server, in, sizeof(TEXT)));
	rdma_dereg_mr(in_mr);
	rdma_dereg_mr(out_mr);
	rdma_destroy_qp(pair.server);
	rdma_destroy_srq(pair.server);
	is("it goes", !pair.server->srq);
	drop_pair(&pair);
	rdma_destroy_id(listening);
}

static void say(struct pair *pair, struct ibv_ah_attr *to, uint32_t qpn)
{
	static char in[140], out[100] = TEXT;
	struct ibv_mr *in_mr = rdma_reg_msgs(pair->server, in, sizeof(in)), *out_mr = rdma_reg_msgs(pair->client, out, sizeof(out));
	struct ibv_ah *ah = ibv_create_ah(pair->client->pd, to);

	rdma_post_recv(pair->server, NULL, in, sizeof(in), in_mr);
	is("a datagram with it arrives", ah && !rdma_post_ud_send(pair->client, NULL, out, sizeof(TEXT), out_mr, IBV_SEND_SIGNALED, ah, qpn) &&
	   received(pair->server, in + 40, 40 + sizeof(TEXT)));
	if (ah)
		ibv_destroy_ah(ah);
	rdma_dereg_mr(in_mr);
	rdma_dereg_mr(out_mr);
}

/* Services of datagrams: 180 bytes go with a question and 136 with its answer. */
static void datagrams(void)
{
	struct rdma_cm_id *listening = listener(servers, RDMA_PS_UDP, PORT, 4);
	struct pair pair = { .client = client(RDMA_PS_UDP, PORT) };
	char data[256];
	struct rdma_conn_param param = { .private_data = data, .private_data_len = 181 };
	struct rdma_cm_event *event;

	memset(data, 0x5a, sizeof(data));
	is("UDP: 181 bytes of private data are too many", rdma_connect(pair.client, &param) && errno == EINVAL);
	drop(pair.client);
	pair.client = client(RDMA_PS_UDP, PORT);
	param.private_data_len = 180;
	is("UDP: 180 bytes of private data", ask(&pair, &param) && pair.private_length >= 180 && !memcmp(pair.private_data, data, 180));
	param.private_data_len = 136;
	is("UDP: an answer with 136 bytes", give_qp(pair.server) && !rdma_accept(pair.server, &param));
	event = next(clients, 5000);
	if (is("UDP: ESTABLISHED", event && event->event == RDMA_CM_EVENT_ESTABLISHED)) {
		is("UDP: the queue pair and the default Q_Key", event->param.ud.qp_num == pair.server->qp->qp_num && event->param.ud.qkey == RDMA_UDP_QKEY);
		is("UDP: the answer's data", event->param.ud.private_data_len >= 136 && !memcmp(event->param.ud.private_data, data, 136));
		say(&pair, &event->param.ud.ah_attr, event->param.ud.qp_num);
	}
	if (event)
		rdma_ack_cm_event(event);
	drop_pair(&pair);
	pair.client = client(RDMA_PS_UDP, PORT);
	param.private_data_len = 137;
	is("UDP: an answer with 137 bytes is refused", ask(&pair, NULL) && give_qp(pair.server) && rdma_accept(pair.server, &param) && errno == EINVAL);
	drop_pair(&pair);
	rdma_destroy_id(listening);
}

/* Within five seconds the kernel destroys what it has of the identifier, and refuses calls of it. */
static bool has_gone(struct rdma_cm_id *id)
{
	uint8_t tos = 0;

	for (int i = 0; i < 100; i++) {
		if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)) && errno == ENXIO)
			return true;
		usleep(50000);
	}
	return false;
}

/* The device of a connection is removed: its owner gets an event, and can destroy the identifier. */
static void removal(void)
{
	struct rdma_cm_id *listening = listener(servers, RDMA_PS_TCP, PORT, 4);
	struct pair pair = { .client = client(RDMA_PS_TCP, PORT) };
	struct rdma_cm_event *event;
	int removed = 0;

	is("DEVICE_REMOVAL: a connection", ask(&pair, NULL) && give_qp(pair.server) && answer(&pair, NULL));
	if (!fork()) {
		execlp("rdma", "rdma", "link", "delete", device, NULL);
		_exit(1);
	}
	is("DEVICE_REMOVAL at the client", comes(clients, RDMA_CM_EVENT_DEVICE_REMOVAL));
	while ((event = next(servers, removed < 2 ? 5000 : 0))) {
		removed += event->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
		rdma_ack_cm_event(event);
	}
	is("DEVICE_REMOVAL at the server and at who listens", removed == 2);
	is("no identifier keeps the device", has_gone(pair.client) && has_gone(pair.server) && has_gone(listening));
	drop_pair(&pair);
	is("what had the device can be destroyed", !rdma_destroy_id(listening));
}

int main(int argc, char **argv)
{
	if (argc < 4)
		die("usage: DEVICE ADDRESS SILENT");
	device = argv[1];
	here.sin_family = silent.sin_family = AF_INET;
	inet_pton(AF_INET, argv[2], &here.sin_addr);
	inet_pton(AF_INET, argv[3], &silent.sin_addr);
	clients = rdma_create_event_channel();
	servers = rdma_create_event_channel();
	if (!clients || !servers)
		die("rdma_create_event_channel");
	bindings();
	options();
	listed();
	connections();
	early_data();
	backlog();
	wildcard();
	events();
	destroying();
	shared_queue();
	datagrams();
	removal();
	return all_done();
}
