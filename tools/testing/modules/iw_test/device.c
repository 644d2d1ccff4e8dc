// SPDX-License-Identifier: GPL-2.0
/* A driver of an iWARP device without a data path: it notes what iw_cm asks it for, and tells what a test wants to be told. */
#include "iw_test.h"

struct it_driver it_driver;
static struct ib_qp qp;

static int query_device(struct ib_device *device, struct ib_device_attr *attr, struct ib_udata *udata)
{
	memset(attr, 0, sizeof(*attr));
	return 0;
}

static int query_port(struct ib_device *device, u32 port, struct ib_port_attr *attr)
{
	attr->state = IB_PORT_ACTIVE;
	attr->gid_tbl_len = 1;
	return 0;
}

static int query_gid(struct ib_device *device, u32 port, int index, union ib_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[0] = 2;
	return 0;
}

static int port_immutable(struct ib_device *device, u32 port, struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = RDMA_CORE_PORT_IWARP;
	immutable->gid_tbl_len = 1;
	return 0;
}

static void hold(struct iw_cm_id *id)
{
	id->add_ref(id);
	atomic_inc(&it_driver.id_refs);
}

void it_put(struct iw_cm_id *id)
{
	atomic_dec(&it_driver.id_refs);
	id->rem_ref(id);
}

static int create_listen(struct iw_cm_id *id, int backlog)
{
	atomic_inc(&it_driver.listens);
	it_driver.backlog = backlog;
	if (!it_driver.listen_ret)
		hold(id);
	return it_driver.listen_ret;
}

static int destroy_listen(struct iw_cm_id *id)
{
	atomic_inc(&it_driver.stops);
	it_put(id);
	return 0;
}

static int connect(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	atomic_inc(&it_driver.connects);
	it_driver.connect_local = id->m_local_addr;
	it_driver.connect_remote = id->m_remote_addr;
	if (!it_driver.connect_ret)
		hold(id);
	return it_driver.connect_ret;
}

static int accept(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	atomic_inc(&it_driver.accepts);
	if (!it_driver.accept_ret)
		hold(id);
	return it_driver.accept_ret;
}

static int reject(struct iw_cm_id *id, const void *data, u8 len)
{
	atomic_inc(&it_driver.rejects);
	it_driver.reject_len = len;
	if (len)
		memcpy(it_driver.reject_data, data, len);
	return 0;
}

static struct ib_qp *get_qp(struct ib_device *device, int qpn)
{
	return qpn == IT_QPN ? &qp : NULL;
}

static void add_ref(struct ib_qp *of)
{
	atomic_inc(&it_driver.qp_refs);
}

static void rem_ref(struct ib_qp *of)
{
	atomic_dec(&it_driver.qp_refs);
}

static int modify_qp(struct ib_qp *of, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	if (mask & IB_QP_STATE)
		it_driver.qp_state = attr->qp_state;
	return 0;
}

static const struct ib_device_ops ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.query_device = query_device,
	.query_port = query_port,
	.query_gid = query_gid,
	.get_port_immutable = port_immutable,
	.modify_qp = modify_qp,
	.iw_create_listen = create_listen,
	.iw_destroy_listen = destroy_listen,
	.iw_connect = connect,
	.iw_accept = accept,
	.iw_reject = reject,
	.iw_get_qp = get_qp,
	.iw_add_ref = add_ref,
	.iw_rem_ref = rem_ref,
};

void it_driver_reset(void)
{
	struct ib_device *device = it_driver.device;

	memset(&it_driver, 0, sizeof(it_driver));
	it_driver.device = device;
	it_driver.qp_state = -1;
}

int it_emit(struct iw_cm_id *id, enum iw_cm_event_type type, int status, const char *data)
{
	struct iw_cm_event event = {
		.event = type,
		.status = status,
		.provider_data = &it_driver,
		.private_data = (void *)data,
		.private_data_len = data ? strlen(data) : 0,
		.ird = 3,
		.ord = 5,
	};
	struct sockaddr_in *local = (void *)&event.local_addr, *remote = (void *)&event.remote_addr;
	unsigned long flags;
	int ret;

	local->sin_family = remote->sin_family = AF_INET;
	local->sin_addr.s_addr = htonl(0x0a000001);
	local->sin_port = htons(1111);
	remote->sin_addr.s_addr = htonl(0x0a000002);
	remote->sin_port = htons(2222);
	local_irq_save(flags);
	ret = id->event_handler(id, &event);
	local_irq_restore(flags);
	return ret;
}

int it_device_up(void)
{
	int ret;

	it_driver.device = _ib_alloc_device(sizeof(*it_driver.device), &init_net);
	if (!it_driver.device)
		return -ENOMEM;
	it_driver.device->phys_port_cnt = 1;
	it_driver.device->num_comp_vectors = 1;
	it_driver.device->node_type = RDMA_NODE_RNIC;
	strscpy(it_driver.device->iw_ifname, "lo", sizeof(it_driver.device->iw_ifname));
	ib_set_device_ops(it_driver.device, &ops);
	ret = ib_device_set_netdev(it_driver.device, init_net.loopback_dev, 1);
	if (!ret)
		ret = ib_register_device(it_driver.device, "iwt%d", NULL);
	if (ret) {
		ib_dealloc_device(it_driver.device);
		return ret;
	}
	qp.device = it_driver.device;
	qp.real_qp = &qp;
	qp.qp_type = IB_QPT_RC;
	qp.port = 1;
	return 0;
}

void it_device_down(void)
{
	ib_unregister_device(it_driver.device);
	ib_dealloc_device(it_driver.device);
}
