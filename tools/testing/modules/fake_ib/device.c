// SPDX-License-Identifier: GPL-2.0
/* The device: what it tells of itself and of its ports, objects that have nothing to them; it comes and goes. */
#include <linux/module.h>
#include "fake_ib.h"

static int query_device(struct ib_device *device, struct ib_device_attr *attr, struct ib_udata *udata)
{
	attr->max_qp = 1 << 10;
	attr->max_qp_wr = 1 << 14;
	attr->max_send_sge = 4;
	attr->max_recv_sge = 4;
	attr->max_cq = 1 << 10;
	attr->max_cqe = 1 << 16;
	attr->max_pkeys = FAKE_IB_PKEYS;
	attr->sys_image_guid = device->node_guid;
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	return 0;
}

static int modify_device(struct ib_device *device, int mask, struct ib_device_modify *modify)
{
	if (mask & ~IB_DEVICE_MODIFY_NODE_DESC)
		return -EOPNOTSUPP;
	if (mask & IB_DEVICE_MODIFY_NODE_DESC)
		memcpy(device->node_desc, modify->node_desc, IB_DEVICE_NODE_DESC_MAX);
	return 0;
}

static int query_port(struct ib_device *device, u32 number, struct ib_port_attr *attr)
{
	struct fake_ib_port *port = &fake_ib_ports[number];

	attr->state = port->state;
	attr->phys_state = port->state == IB_PORT_DOWN ? IB_PORT_PHYS_STATE_POLLING : IB_PORT_PHYS_STATE_LINK_UP;
	attr->lid = port->lid;
	attr->lmc = port->lmc;
	attr->sm_lid = port->sm_lid;
	attr->sm_sl = port->sm_sl;
	attr->subnet_timeout = port->subnet_timeout;
	attr->port_cap_flags = port->cap_mask;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_2048;
	attr->max_msg_sz = 1 << 30;
	attr->max_vl_num = 1;
	attr->gid_tbl_len = FAKE_IB_GIDS;
	attr->pkey_tbl_len = FAKE_IB_PKEYS;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_EDR;
	return 0;
}

static int modify_port(struct ib_device *device, u32 number, int mask, struct ib_port_modify *modify)
{
	struct fake_ib_port *port = &fake_ib_ports[number];

	fake_ib_ask("port %u mask %#x set %#x clear %#x\n", number, mask, modify->set_port_cap_mask,
		    modify->clr_port_cap_mask);
	port->cap_mask = (port->cap_mask & ~modify->clr_port_cap_mask) | modify->set_port_cap_mask;
	return 0;
}

static int port_immutable(struct ib_device *device, u32 port, struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_IB;
	immutable->gid_tbl_len = FAKE_IB_GIDS;
	immutable->pkey_tbl_len = FAKE_IB_PKEYS;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static enum rdma_link_layer link_layer(struct ib_device *device, u32 port)
{
	return IB_LINK_LAYER_INFINIBAND;
}

static int query_gid(struct ib_device *device, u32 port, int index, union ib_gid *gid)
{
	if (index < 0 || index >= FAKE_IB_GIDS)
		return -EINVAL;
	*gid = fake_ib_ports[port].gids[index];
	return 0;
}

static int query_pkey(struct ib_device *device, u32 port, u16 index, u16 *pkey)
{
	if (index >= FAKE_IB_PKEYS)
		return -EINVAL;
	*pkey = fake_ib_ports[port].pkeys[index];
	return 0;
}

void fake_ib_event(u32 port, enum ib_event_type type)
{
	struct ib_event event = { .device = fake_ib_device, .event = type, .element.port_num = port };

	ib_dispatch_event(&event);
}
EXPORT_SYMBOL_GPL(fake_ib_event);

/* Objects that have nothing to them */

struct fake_pd {
	struct ib_pd ib;
};

static int alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int set_ah(struct ib_ah *ah, struct rdma_ah_attr *attr)
{
	struct rdma_ah_attr *own = fake_ib_ah_attr(ah);

	*own = *attr;
	/* The core holds it. */
	own->grh.sgid_attr = NULL;
	return 0;
}

static int create_ah(struct ib_ah *ah, struct rdma_ah_init_attr *attr, struct ib_udata *udata)
{
	return set_ah(ah, attr->ah_attr);
}

static int query_ah(struct ib_ah *ah, struct rdma_ah_attr *attr)
{
	*attr = *fake_ib_ah_attr(ah);
	return 0;
}

static int destroy_ah(struct ib_ah *ah, u32 flags)
{
	/* A use after this is seen. */
	memset(fake_ib_ah_attr(ah), 0x5a, sizeof(struct rdma_ah_attr));
	return 0;
}

static struct ib_mr *get_dma_mr(struct ib_pd *pd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static struct ib_mr *reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 address, int access, struct ib_dmah *dmah,
				 struct ib_udata *udata)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static int dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	return 0;
}

static const struct ib_device_ops ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.query_device = query_device,
	.modify_device = modify_device,
	.query_port = query_port,
	.modify_port = modify_port,
	.get_port_immutable = port_immutable,
	.get_link_layer = link_layer,
	.query_gid = query_gid,
	.query_pkey = query_pkey,
	.process_mad = fake_ib_sma,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.create_ah = create_ah,
	.query_ah = query_ah,
	.modify_ah = set_ah,
	.destroy_ah = destroy_ah,
	.get_dma_mr = get_dma_mr,
	.reg_user_mr = reg_user_mr,
	.dereg_mr = dereg_mr,
	INIT_RDMA_OBJ_SIZE(ib_pd, fake_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_ah, fake_ah, ib),
};

/* The device comes and goes */

static DEFINE_MUTEX(coming);

int fake_ib_add(void)
{
	struct ib_device *device;
	int ret = -EEXIST;

	mutex_lock(&coming);
	if (fake_ib_device)
		goto unlock;
	ret = -ENOMEM;
	device = _ib_alloc_device(sizeof(*device), &init_net);
	if (!device)
		goto unlock;
	device->phys_port_cnt = FAKE_IB_PORTS;
	device->node_type = RDMA_NODE_IB_CA;
	device->num_comp_vectors = 1;
	device->node_guid = cpu_to_be64(0x0002c90300000010ULL);
	strscpy(device->node_desc, "an InfiniBand device that does not exist");
	ib_set_device_ops(device, &ops);
	ib_set_device_ops(device, &fake_ib_queue_ops);
	ib_set_device_ops(device, &fake_ib_completion_ops);
	/* Set before clients are added: they identify the device by it. */
	fake_ib_device = device;
	ret = ib_register_device(device, "fakeib%d", NULL);
	if (ret) {
		fake_ib_device = NULL;
		ib_dealloc_device(device);
	}
unlock:
	mutex_unlock(&coming);
	return ret;
}
EXPORT_SYMBOL_GPL(fake_ib_add);

void fake_ib_remove(void)
{
	mutex_lock(&coming);
	if (fake_ib_device) {
		ib_unregister_device(fake_ib_device);
		fake_ib_settle();
		ib_dealloc_device(fake_ib_device);
		fake_ib_device = NULL;
	}
	mutex_unlock(&coming);
}
EXPORT_SYMBOL_GPL(fake_ib_remove);
