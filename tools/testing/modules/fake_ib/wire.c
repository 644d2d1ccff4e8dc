// SPDX-License-Identifier: GPL-2.0
/*
 * The subnet: what is sent travels in its own work item to the port that has the LID, or to the subnet administrator. A
 * directed-route packet for the permissive LID comes out at the other port. Faults, what was sent, and the agents of the driver.
 */
#include <linux/delay.h>
#include <linux/rwsem.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <rdma/ib_smi.h>
#include "fake_ib.h"

#define KEPT 64

/* A datagram on its way. */
struct flight {
	struct list_head list;
	struct delayed_work work;
	struct fake_ib_packet packet;
};

static LIST_HEAD(flying);
static DEFINE_SPINLOCK(flying_lock);
static struct workqueue_struct *wire_wq;
static const struct fake_ib_ends *ends;

static DECLARE_RWSEM(watcher_lock);
static fake_ib_watcher watcher;
static void *watcher_context;
static bool administrated = true;
static fake_ib_processor processor;

/* What programs have ordered; the counter is that of all datagrams. */
struct numbers {
	u32 first, end;
};
static struct numbers lost, doubled;
static unsigned int delay;
static u32 sent_count;
static struct fake_ib_packet *kept;
static DEFINE_MUTEX(kept_lock);

/* The way of a datagram */

static bool is_permissive(u16 lid)
{
	return lid == be16_to_cpu(IB_LID_PERMISSIVE);
}

/* The port that a datagram is for; 0: none. */
static u32 port_for(const struct fake_ib_packet *packet, u32 *path_bits)
{
	u32 port;

	*path_bits = 0;
	if (packet->to_port)
		return packet->to_port;
	if (is_permissive(packet->dlid))
		return packet->port ? 3 - packet->port : 0;
	for (port = 1; port <= FAKE_IB_PORTS; port++) {
		u16 mask = (1 << fake_ib_ports[port].lmc) - 1;

		if (fake_ib_ports[port].lid && (packet->dlid & ~mask) == (fake_ib_ports[port].lid & ~mask)) {
			*path_bits = packet->dlid & mask;
			return port;
		}
	}
	return 0;
}

static bool is_for_sa(const struct fake_ib_packet *packet)
{
	return packet->port && packet->dest_qpn == 1 && packet->dlid == fake_ib_ports[packet->port].sm_lid;
}

/* Links that are not active carry datagrams of subnet management alone. */
static bool carries(u32 port, u32 qpn)
{
	enum ib_port_state state = fake_ib_ports[port].state;

	return !port || (qpn ? state == IB_PORT_ACTIVE : state >= IB_PORT_INIT);
}

int fake_ib_deliver(const struct fake_ib_packet *packet)
{
	u32 path_bits, port = port_for(packet, &path_bits);

	if (!carries(packet->port, packet->dest_qpn))
		return -ENETDOWN;
	if (port)
		return carries(port, packet->dest_qpn) ? ends->receive(port, path_bits, packet) : -ENETDOWN;
	if (is_for_sa(packet)) {
		if (READ_ONCE(administrated))
			ends->administrator(packet);
		return 0;
	}
	return -EHOSTUNREACH;
}
EXPORT_SYMBOL_GPL(fake_ib_deliver);

static void land(struct work_struct *work)
{
	struct flight *flight = container_of(work, struct flight, work.work);
	int ret = fake_ib_deliver(&flight->packet);

	if (ret)
		pr_debug("fake_ib: a datagram for LID %u QP %u is lost: %d\n", flight->packet.dlid, flight->packet.dest_qpn, ret);
	spin_lock(&flying_lock);
	list_del(&flight->list);
	spin_unlock(&flying_lock);
	kfree(flight);
}

int fake_ib_send(const struct fake_ib_packet *packet)
{
	struct flight *flight = kmalloc_obj(*flight);

	if (!flight)
		return -ENOMEM;
	flight->packet = *packet;
	INIT_DELAYED_WORK(&flight->work, land);
	spin_lock(&flying_lock);
	list_add_tail(&flight->list, &flying);
	/* Under the lock, so that a waiter finds it queued. */
	queue_delayed_work(wire_wq, &flight->work, msecs_to_jiffies(packet->delay_ms + READ_ONCE(delay)));
	spin_unlock(&flying_lock);
	return 0;
}
EXPORT_SYMBOL_GPL(fake_ib_send);

void fake_ib_turn(struct fake_ib_packet *packet)
{
	swap(packet->slid, packet->dlid);
	swap(packet->src_qpn, packet->dest_qpn);
	swap(packet->grh.sgid, packet->grh.dgid);
	packet->to_port = is_permissive(packet->dlid) ? packet->port : 0;
	packet->port = 0;
	packet->delay_ms = 0;
}
EXPORT_SYMBOL_GPL(fake_ib_turn);

static bool within(const struct numbers *range, u32 number)
{
	return number >= range->first && number < range->end;
}

int fake_ib_transmit(struct fake_ib_packet *packet)
{
	enum fake_ib_fate fate = FAKE_IB_PASS;

	mutex_lock(&kept_lock);
	packet->number = ++sent_count;
	packet->time = jiffies;
	kept[packet->number % KEPT] = *packet;
	if (within(&lost, packet->number))
		fate = FAKE_IB_LOSE;
	else if (within(&doubled, packet->number))
		fate = FAKE_IB_TWICE;
	mutex_unlock(&kept_lock);
	down_read(&watcher_lock);
	if (fate == FAKE_IB_PASS && watcher)
		fate = watcher(packet, watcher_context);
	up_read(&watcher_lock);
	if (fate == FAKE_IB_LOSE)
		return 0;
	if (fate == FAKE_IB_TWICE)
		fake_ib_send(packet);
	return fake_ib_send(packet);
}

void fake_ib_watch(fake_ib_watcher new, void *context)
{
	down_write(&watcher_lock);
	watcher = new;
	watcher_context = context;
	up_write(&watcher_lock);
}
EXPORT_SYMBOL_GPL(fake_ib_watch);

void fake_ib_administrate(bool on)
{
	WRITE_ONCE(administrated, on);
}
EXPORT_SYMBOL_GPL(fake_ib_administrate);

static void flush_flying(void)
{
	bool empty;

	do {
		flush_workqueue(wire_wq);
		spin_lock(&flying_lock);
		empty = list_empty(&flying);
		spin_unlock(&flying_lock);
		if (!empty)
			usleep_range(500, 1000);
	} while (!empty);
}

void fake_ib_settle(void)
{
	ends->settle();
	flush_flying();
	ends->settle();
	flush_flying();
}
EXPORT_SYMBOL_GPL(fake_ib_settle);

/* The agents of the driver */

void fake_ib_process(fake_ib_processor new)
{
	down_write(&watcher_lock);
	processor = new;
	up_write(&watcher_lock);
}
EXPORT_SYMBOL_GPL(fake_ib_process);

static bool answer_smp(u32 port_number, const struct ib_smp *in, struct ib_smp *out)
{
	struct fake_ib_port *port = &fake_ib_ports[port_number];
	struct ib_node_info *node = (struct ib_node_info *)out->data;
	struct ib_port_info *info = (struct ib_port_info *)out->data;

	if (in->method != IB_MGMT_METHOD_GET)
		return false;
	memcpy(out, in, sizeof(*out));
	memset(out->data, 0, sizeof(out->data));
	switch (in->attr_id) {
	case IB_SMP_ATTR_NODE_DESC:
		memcpy(out->data, fake_ib_device->node_desc, sizeof(out->data));
		break;
	case IB_SMP_ATTR_NODE_INFO:
		node->base_version = 1;
		node->class_version = 1;
		node->node_type = 1;
		node->num_ports = FAKE_IB_PORTS;
		node->sys_guid = fake_ib_device->node_guid;
		node->node_guid = fake_ib_device->node_guid;
		node->port_guid = port->gids[0].global.interface_id;
		node->partition_cap = cpu_to_be16(FAKE_IB_PKEYS);
		node->local_port_num = port_number;
		break;
	case IB_SMP_ATTR_PORT_INFO:
		info->gid_prefix = cpu_to_be64(FAKE_IB_PREFIX);
		info->lid = cpu_to_be16(port->lid);
		info->sm_lid = cpu_to_be16(port->sm_lid);
		info->cap_mask = cpu_to_be32(port->cap_mask);
		info->local_port_num = port_number;
		info->link_width_enabled = IB_WIDTH_4X;
		info->link_width_supported = IB_WIDTH_4X;
		info->link_width_active = IB_WIDTH_4X;
		info->linkspeed_portstate = 0x10 | port->state;
		info->linkspeedactive_enabled = 0x11;
		info->mkeyprot_resv_lmc = port->lmc;
		info->neighbormtu_mastersmsl = IB_MTU_2048 << 4 | port->sm_sl;
		break;
	default:
		return false;
	}
	out->method = IB_MGMT_METHOD_GET_RESP;
	if (out->mgmt_class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE)
		out->status = IB_SMP_DIRECTION;
	return true;
}

/* Of performance management ClassPortInfo and PortCounters, whose packets sent and received are made up. */
static bool answer_performance(u32 port, const struct ib_mad *in, struct ib_mad *out)
{
	u8 *data = out->data + 40;

	if (in->mad_hdr.method != IB_MGMT_METHOD_GET)
		return false;
	memcpy(out, in, sizeof(*out));
	memset(data, 0, 192);
	switch (be16_to_cpu(in->mad_hdr.attr_id)) {
	case 0x01:
		data[0] = IB_MGMT_BASE_VERSION;
		data[1] = 1;
		data[7] = 18;
		break;
	case 0x12:
		data[1] = port;
		put_unaligned_be32(1000 + port, data + 32);
		put_unaligned_be32(2000 + port, data + 36);
		break;
	default:
		return false;
	}
	out->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	return true;
}

int fake_ib_sma(struct ib_device *device, int flags, u32 port, const struct ib_wc *wc, const struct ib_grh *grh,
		const struct ib_mad *in, struct ib_mad *out, size_t *out_size, u16 *out_pkey_index)
{
	bool answered = false;
	int ret = -1;

	down_read(&watcher_lock);
	if (processor)
		ret = processor(port, wc, in, out);
	up_read(&watcher_lock);
	if (ret >= 0)
		return ret;
	switch (in->mad_hdr.mgmt_class) {
	case IB_MGMT_CLASS_SUBN_LID_ROUTED:
	case IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE:
		answered = answer_smp(port, (const struct ib_smp *)in, (struct ib_smp *)out);
		break;
	case IB_MGMT_CLASS_PERF_MGMT:
		answered = answer_performance(port, in, out);
		break;
	}
	return answered ? IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY : IB_MAD_RESULT_SUCCESS;
}

/* What programs see and order: see commands.c */

static void tell_one(struct seq_file *file, const struct fake_ib_packet *packet)
{
	seq_printf(file, "%u port %u qp %u>%u lid %u>%u sl %u pkey %#x index %u qkey %#x given %#x length %u grh ",
		   packet->number, packet->port, packet->src_qpn, packet->dest_qpn, packet->slid, packet->dlid, packet->sl,
		   packet->pkey, packet->pkey_index, packet->qkey, packet->wr_qkey, packet->length);
	if (packet->has_grh)
		seq_printf(file, "%*phN", (int)sizeof(packet->grh), &packet->grh);
	else
		seq_puts(file, "-");
	/* More than 64 bytes at a time are not printed. */
	seq_puts(file, " mad ");
	for (int part = 0; part < FAKE_IB_SMP_MTU; part += 64)
		seq_printf(file, "%*phN", 64, packet->mad + part);
	seq_puts(file, "\n");
}

void fake_ib_tell_sent(struct seq_file *file)
{
	u32 number;

	mutex_lock(&kept_lock);
	number = sent_count >= KEPT ? sent_count - KEPT + 1 : 1;
	for (; number <= sent_count; number++)
		tell_one(file, &kept[number % KEPT]);
	mutex_unlock(&kept_lock);
}

static void set_range(struct numbers *range, u32 nth, u32 count)
{
	mutex_lock(&kept_lock);
	range->first = sent_count + nth;
	range->end = range->first + count;
	mutex_unlock(&kept_lock);
}

void fake_ib_lose(u32 nth, u32 count)
{
	set_range(&lost, nth, count);
}

void fake_ib_double(u32 nth, u32 count)
{
	set_range(&doubled, nth, count);
}

void fake_ib_delay(unsigned int ms)
{
	WRITE_ONCE(delay, ms);
}

int fake_ib_wire_start(const struct fake_ib_ends *whom)
{
	ends = whom;
	kept = kvcalloc(KEPT, sizeof(*kept), GFP_KERNEL);
	if (!kept)
		return -ENOMEM;
	/* One after the other: what is sent first arrives first. */
	wire_wq = alloc_ordered_workqueue("fake_ib_wire", 0);
	if (!wire_wq)
		kvfree(kept);
	return wire_wq ? 0 : -ENOMEM;
}

void fake_ib_wire_stop(void)
{
	flush_flying();
	destroy_workqueue(wire_wq);
	kvfree(kept);
}
