// SPDX-License-Identifier: GPL-2.0
/* Ends of connections: what they ask for, and what they are told. */
#include "cm_test.h"

static DECLARE_WAIT_QUEUE_HEAD(told);

static void copy_event(struct ct_event *copy, const struct ib_cm_event *event, enum ib_cm_state state)
{
	const struct ib_gid_attr *gid = NULL;
	int length = 0, info_len = 0;
	void *info = NULL;

	memset(copy, 0, sizeof(*copy));
	copy->event = *event;
	copy->state = state;
	switch (event->event) {
	case IB_CM_REQ_RECEIVED:
		length = IB_CM_REQ_PRIVATE_DATA_SIZE;
		copy->path = *event->param.req_rcvd.primary_path;
		copy->has_alternate = event->param.req_rcvd.alternate_path;
		if (copy->has_alternate)
			copy->alternate = *event->param.req_rcvd.alternate_path;
		copy->has_listener = event->param.req_rcvd.listen_id;
		gid = event->param.req_rcvd.ppath_sgid_attr;
		break;
	case IB_CM_REP_RECEIVED:
		length = IB_CM_REP_PRIVATE_DATA_SIZE;
		break;
	case IB_CM_RTU_RECEIVED:
		length = IB_CM_RTU_PRIVATE_DATA_SIZE;
		break;
	case IB_CM_DREQ_RECEIVED:
		length = IB_CM_DREQ_PRIVATE_DATA_SIZE;
		break;
	case IB_CM_DREP_RECEIVED:
		length = IB_CM_DREP_PRIVATE_DATA_SIZE;
		break;
	case IB_CM_MRA_RECEIVED:
		length = IB_CM_MRA_PRIVATE_DATA_SIZE;
		break;
	case IB_CM_REJ_RECEIVED:
		length = IB_CM_REJ_PRIVATE_DATA_SIZE;
		info = event->param.rej_rcvd.ari;
		info_len = IB_CM_REJ_ARI_LENGTH;
		break;
	case IB_CM_LAP_RECEIVED:
		length = IB_CM_LAP_PRIVATE_DATA_SIZE;
		copy->alternate = *event->param.lap_rcvd.alternate_path;
		break;
	case IB_CM_SIDR_REQ_RECEIVED:
		length = IB_CM_SIDR_REQ_PRIVATE_DATA_SIZE;
		copy->has_listener = event->param.sidr_req_rcvd.listen_id;
		gid = event->param.sidr_req_rcvd.sgid_attr;
		break;
	case IB_CM_SIDR_REP_RECEIVED:
		length = IB_CM_SIDR_REP_PRIVATE_DATA_SIZE;
		info = event->param.sidr_rep_rcvd.info;
		info_len = IB_CM_SIDR_REP_INFO_LENGTH;
		gid = event->param.sidr_rep_rcvd.sgid_attr;
		break;
	default:
		break;
	}
	if (length)
		memcpy(copy->data, event->private_data, length);
	if (info)
		memcpy(copy->info, info, info_len);
	if (gid)
		copy->gid_port = gid->port_num;
}

static int handler(struct ib_cm_id *id, const struct ib_cm_event *event)
{
	struct ct_end *end = id->context;
	struct completion *wait_for;
	int ret, inside;

	if (event->event == IB_CM_REQ_RECEIVED || event->event == IB_CM_SIDR_REQ_RECEIVED) {
		end = end->for_child;
		if (!end)
			return -ECONNREFUSED;
		id->context = end;
		end->id = id;
	}
	inside = atomic_inc_return(&end->inside);
	if (inside > atomic_read(&end->most_inside))
		atomic_set(&end->most_inside, inside);
	if (end->told < CT_EVENTS)
		copy_event(&end->events[end->told], event, id->state);
	ret = end->ret;
	if (ret)
		end->id = NULL;
	/* Who is told may set another one for the next event. */
	wait_for = end->wait_for;
	smp_store_release(&end->told, end->told + 1);
	wake_up_all(&told);
	if (wait_for)
		wait_for_completion(wait_for);
	atomic_dec(&end->inside);
	return ret;
}

int ct_up(struct ct_end *end)
{
	struct ib_cm_id *id;

	memset(end, 0, sizeof(*end));
	id = ib_create_cm_id(ct_device, handler, end);
	if (IS_ERR(id))
		return PTR_ERR(id);
	end->id = id;
	return 0;
}

void ct_down(struct ct_end *end)
{
	if (end->id)
		ib_destroy_cm_id(end->id);
	end->id = NULL;
}

struct ct_event *ct_next(struct ct_end *end)
{
	int nth = end->taken;

	if (!wait_event_timeout(told, smp_load_acquire(&end->told) > nth, 20 * HZ) || nth >= CT_EVENTS)
		return NULL;
	end->taken = nth + 1;
	return &end->events[nth];
}

bool ct_is_next(struct ct_end *end, enum ib_cm_event_type type)
{
	struct ct_event *event = ct_next(end);

	if (event && event->event.event != type)
		pr_info("event %d, not %d\n", event->event.event, type);
	return event && event->event.event == type;
}

bool ct_quiet(struct ct_end *end)
{
	msleep(300);
	return smp_load_acquire(&end->told) == end->taken;
}

const struct ib_gid_attr *ct_gid(void)
{
	const struct ib_gid_attr *attr;
	int index;

	if (ct_ib) {
		attr = rdma_get_gid_attr(ct_device, 1, 0);
		return IS_ERR(attr) ? NULL : attr;
	}
	for (index = 0; index < 16; index++) {
		attr = rdma_get_gid_attr(ct_device, 1, index);
		if (IS_ERR(attr))
			continue;
		if (attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP && ipv6_addr_v4mapped((struct in6_addr *)&attr->gid))
			return attr;
		rdma_put_gid_attr(attr);
	}
	return NULL;
}

static void common_path(struct sa_path_rec *path, u8 life_time)
{
	memset(path, 0, sizeof(*path));
	path->pkey = cpu_to_be16(0xffff);
	path->reversible = 1;
	path->mtu_selector = path->rate_selector = path->packet_life_time_selector = IB_SA_EQ;
	path->mtu = IB_MTU_1024;
	path->rate = IB_RATE_10_GBPS;
	path->packet_life_time = life_time;
	path->service_id = CT_SERVICE;
}

static u32 lid_of(u32 port)
{
	struct ib_port_attr attr;

	return ib_query_port(ct_device, port, &attr) ? 0 : attr.lid;
}

void ct_ib_path(struct sa_path_rec *path, u32 port, u8 life_time)
{
	common_path(path, life_time);
	path->rec_type = SA_PATH_REC_TYPE_IB;
	rdma_query_gid(ct_device, port, 0, &path->sgid);
	rdma_query_gid(ct_device, 3 - port, 0, &path->dgid);
	path->ib.slid = cpu_to_be16(lid_of(port));
	path->ib.dlid = cpu_to_be16(lid_of(3 - port));
}

void ct_path(struct sa_path_rec *path, u8 life_time)
{
	const struct ib_gid_attr *attr;
	struct net_device *netdev;
	u8 mac[ETH_ALEN];

	if (ct_ib) {
		ct_ib_path(path, 1, life_time);
		return;
	}
	common_path(path, life_time);
	path->rec_type = SA_PATH_REC_TYPE_ROCE_V2;
	path->roce.route_resolved = true;
	path->hop_limit = 64;
	path->traffic_class = 0x20;
	attr = ct_gid();
	if (!attr)
		return;
	path->sgid = path->dgid = attr->gid;
	rcu_read_lock();
	netdev = rdma_read_gid_attr_ndev_rcu(attr);
	if (!IS_ERR(netdev)) {
		ether_addr_copy(mac, netdev->dev_addr);
		sa_path_set_dmac(path, mac);
	}
	rcu_read_unlock();
	rdma_put_gid_attr(attr);
}

int ct_listen(struct ct_end *listener, struct ct_end *child)
{
	int ret = ct_up(listener);

	memset(child, 0, sizeof(*child));
	listener->for_child = child;
	return ret ?: ib_cm_listen(listener->id, CT_SERVICE);
}

static const u8 data[256] = "a request";

int ct_req_id(struct ib_cm_id *id, const struct ct_req *how)
{
	const struct ib_gid_attr *gid = ct_gid();
	struct sa_path_rec path;
	struct ib_cm_req_param param = {
		.primary_path = &path,
		.alternate_path = how->alternate,
		.ppath_sgid_attr = gid,
		.service_id = CT_SERVICE,
		.qp_num = how->qpn ?: ct_qpn++,
		.qp_type = IB_QPT_RC,
		.starting_psn = 0xabcdef,
		.private_data = data,
		.private_data_len = how->data_len,
		.responder_resources = 3,
		.initiator_depth = 5,
		.remote_cm_response_timeout = how->response,
		.local_cm_response_timeout = how->response,
		.flow_control = 1,
		.retry_count = 6,
		.rnr_retry_count = 7,
		.max_cm_retries = how->retries,
		.srq = 1,
		.ece = { .vendor_id = 0x123456, .attr_mod = 0x789 },
	};
	int ret;

	ct_path(&path, how->life_time);
	ret = ib_send_cm_req(id, &param);
	if (gid)
		rdma_put_gid_attr(gid);
	return ret;
}

int ct_rep_id(struct ib_cm_id *id)
{
	struct ib_cm_rep_param param = {
		.qp_num = ct_qpn++,
		.starting_psn = 0x123456,
		.private_data = "a reply",
		.private_data_len = 8,
		.responder_resources = 2,
		.initiator_depth = 4,
		.failover_accepted = 1,
		.flow_control = 1,
		.rnr_retry_count = 5,
		.srq = 1,
		.ece = { .vendor_id = 0x654321, .attr_mod = 0x987 },
	};

	return ib_send_cm_rep(id, &param);
}

int ct_req(struct ct_end *end, const struct ct_req *how)
{
	return ct_req_id(end->id, how);
}

int ct_rep(struct ct_end *end)
{
	return ct_rep_id(end->id);
}

bool ct_connect(struct ct_end *listener, struct ct_end *active, struct ct_end *passive)
{
	struct ct_req how = { .life_time = 10, .response = 18, .retries = 7 };

	memset(passive, 0, sizeof(*passive));
	listener->for_child = passive;
	return !ct_up(active) && !ct_req(active, &how) && ct_is_next(passive, IB_CM_REQ_RECEIVED) && !ct_rep(passive) &&
	       ct_is_next(active, IB_CM_REP_RECEIVED) && !ib_send_cm_rtu(active->id, NULL, 0) &&
	       ct_is_next(passive, IB_CM_RTU_RECEIVED);
}

int ct_mask(struct ib_cm_id *id, enum ib_qp_state state, struct ib_qp_attr *attr)
{
	int ret, mask = 0;

	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	ret = ib_cm_init_qp_attr(id, attr, &mask);
	return ret ?: mask;
}
