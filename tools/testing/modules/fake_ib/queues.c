// SPDX-License-Identifier: GPL-2.0
/* Queue pairs: what is posted waits in a list, a work item for each queue pair sends it. */
#include <linux/slab.h>
#include <linux/workqueue.h>
#include "fake_ib.h"

struct sending {
	struct list_head list;
	struct ib_wc wc;
	struct ib_ah *ah;
	struct ib_sge sge[4];
	int sges;
	u32 dest_qpn, qkey;
	u16 pkey_index;
	bool signaled;
};

struct receiving {
	struct list_head list;
	struct ib_cqe *cqe;
	struct ib_sge sge;
};

struct fake_qp {
	struct ib_qp ib;
	enum ib_qp_state state;
	u32 number, port;
	u32 qkey;
	bool signal_all;
	u32 max_send, max_receive;
	/* Of all that follows. */
	spinlock_t lock;
	struct list_head sends, sent, receives;	/* sent ones wait for their completion, see fake_ib_hold() */
	u32 send_count, send_most, receive_count;
	u32 held;
	u32 fail_nth, refuse_nth;
	enum ib_wc_status fail_status;
	int refuse_error;
	struct work_struct work;
};

/* By port and number; the lock is held while somebody uses one that he has found there. */
static DEFINE_XARRAY(qps);
static DEFINE_SPINLOCK(qps_lock);
static u32 next_number = 2;
static struct workqueue_struct *send_wq;

static unsigned long key_of(u32 port, u32 number)
{
	return (unsigned long)port << 24 | number;
}

/* Sending */

static void complete_send(struct fake_qp *qp, struct sending *this, enum ib_wc_status status)
{
	this->wc.status = status;
	if (this->signaled || status)
		fake_ib_complete(qp->ib.send_cq, &this->wc);
	list_del(&this->list);
	kfree(this);
	qp->send_count--;
}

static void flush_sends(struct fake_qp *qp)
{
	struct sending *this, *next;

	list_for_each_entry_safe(this, next, &qp->sends, list)
		complete_send(qp, this, IB_WC_WR_FLUSH_ERR);
}

/* Copies what is to be sent; the buffer and the address handle stay as they are until the completion. */
static void gather(struct fake_qp *qp, struct sending *this, struct fake_ib_packet *packet)
{
	struct rdma_ah_attr *ah = fake_ib_ah_attr(this->ah);
	struct fake_ib_port *port = &fake_ib_ports[qp->port];
	u32 part;
	int nth;

	memset(packet, 0, sizeof(*packet));
	packet->port = qp->port;
	packet->src_qpn = qp->number;
	packet->dest_qpn = this->dest_qpn;
	packet->wr_qkey = this->qkey;
	packet->qkey = this->qkey & BIT(31) ? qp->qkey : this->qkey;
	packet->pkey_index = this->pkey_index;
	packet->pkey = this->pkey_index < FAKE_IB_PKEYS ? port->pkeys[this->pkey_index] : 0;
	packet->dlid = rdma_ah_get_dlid(ah);
	packet->slid = port->lid | (rdma_ah_get_path_bits(ah) & ((1 << port->lmc) - 1));
	if (packet->dlid == be16_to_cpu(IB_LID_PERMISSIVE))
		packet->slid = packet->dlid;
	packet->sl = rdma_ah_get_sl(ah);
	if (rdma_ah_get_ah_flags(ah) & IB_AH_GRH) {
		const struct ib_global_route *route = rdma_ah_read_grh(ah);

		packet->has_grh = true;
		packet->grh.version_tclass_flow = cpu_to_be32(6 << 28 | route->traffic_class << 20 | route->flow_label);
		packet->grh.paylen = cpu_to_be16(FAKE_IB_SMP_MTU + 24);
		packet->grh.next_hdr = 0x1b;
		packet->grh.hop_limit = route->hop_limit;
		packet->grh.sgid = port->gids[route->sgid_index % FAKE_IB_GIDS];
		packet->grh.dgid = route->dgid;
	}
	for (nth = 0; nth < this->sges; nth++) {
		part = min_t(u32, this->sge[nth].length, FAKE_IB_SMP_MTU - packet->length);
		memcpy(packet->mad + packet->length, (void *)(uintptr_t)this->sge[nth].addr, part);
		packet->length += part;
	}
}

/* Takes the next send that may go: 1 if it is to be transmitted, 0 if there is none, -1 if it has come to its end. */
static int take_send(struct fake_qp *qp, struct fake_ib_packet *packet)
{
	struct sending *this;

	if (qp->state == IB_QPS_SQE || qp->state == IB_QPS_ERR) {
		flush_sends(qp);
		return 0;
	}
	if (qp->state != IB_QPS_RTS || (qp->held & FAKE_IB_HOLD_SENDS) || list_empty(&qp->sends))
		return 0;
	this = list_first_entry(&qp->sends, struct sending, list);
	if (qp->fail_nth && !--qp->fail_nth) {
		complete_send(qp, this, qp->fail_status);
		qp->state = IB_QPS_SQE;
		flush_sends(qp);
		return -1;
	}
	gather(qp, this, packet);
	list_move_tail(&this->list, &qp->sent);
	return 1;
}

static void complete_sent(struct fake_qp *qp)
{
	struct sending *this, *next;

	if (qp->held & FAKE_IB_HOLD_COMPLETIONS)
		return;
	list_for_each_entry_safe(this, next, &qp->sent, list)
		complete_send(qp, this, IB_WC_SUCCESS);
}

static void send_work(struct work_struct *work)
{
	struct fake_qp *qp = container_of(work, struct fake_qp, work);
	struct fake_ib_packet *packet = kmalloc_obj(*packet);
	unsigned long flags;
	int took;

	if (WARN_ON(!packet))
		return;
	do {
		spin_lock_irqsave(&qp->lock, flags);
		took = take_send(qp, packet);
		spin_unlock_irqrestore(&qp->lock, flags);
		if (took > 0)
			fake_ib_transmit(packet);
		spin_lock_irqsave(&qp->lock, flags);
		complete_sent(qp);
		spin_unlock_irqrestore(&qp->lock, flags);
		fake_ib_announce(qp->ib.send_cq);
	} while (took);
	kfree(packet);
}

static int post_one_send(struct fake_qp *qp, const struct ib_send_wr *wr)
{
	struct sending *new;

	if (qp->refuse_nth && !--qp->refuse_nth)
		return qp->refuse_error;
	if (qp->state < IB_QPS_RTS)
		return -EINVAL;
	if (qp->send_count >= qp->max_send)
		return -ENOMEM;
	if (wr->opcode != IB_WR_SEND || wr->num_sge > ARRAY_SIZE(new->sge))
		return -EINVAL;
	new = kzalloc_obj(*new, GFP_ATOMIC);
	if (!new)
		return -ENOMEM;
	new->wc.wr_cqe = wr->wr_cqe;
	new->wc.qp = &qp->ib;
	new->wc.opcode = IB_WC_SEND;
	new->ah = ud_wr(wr)->ah;
	new->dest_qpn = ud_wr(wr)->remote_qpn;
	new->qkey = ud_wr(wr)->remote_qkey;
	new->pkey_index = ud_wr(wr)->pkey_index;
	new->sges = wr->num_sge;
	new->signaled = qp->signal_all || (wr->send_flags & IB_SEND_SIGNALED);
	memcpy(new->sge, wr->sg_list, wr->num_sge * sizeof(*wr->sg_list));
	list_add_tail(&new->list, &qp->sends);
	qp->send_count++;
	qp->send_most = max(qp->send_most, qp->send_count);
	return 0;
}

static int post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	struct fake_qp *qp = container_of(ibqp, struct fake_qp, ib);
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&qp->lock, flags);
	for (; wr; wr = wr->next) {
		ret = post_one_send(qp, wr);
		if (ret) {
			*bad = wr;
			break;
		}
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	queue_work(send_wq, &qp->work);
	return ret;
}

/* Receiving */

static int post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct fake_qp *qp = container_of(ibqp, struct fake_qp, ib);
	struct receiving *new;
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&qp->lock, flags);
	for (; wr; wr = wr->next) {
		new = kzalloc_obj(*new, GFP_ATOMIC);
		if (!new || wr->num_sge != 1 || qp->receive_count >= qp->max_receive || qp->state == IB_QPS_RESET) {
			kfree(new);
			ret = -ENOMEM;
			*bad = wr;
			break;
		}
		new->cqe = wr->wr_cqe;
		new->sge = wr->sg_list[0];
		list_add_tail(&new->list, &qp->receives);
		qp->receive_count++;
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	return ret;
}

static int pkey_index_of(u32 port, u16 pkey)
{
	int index;

	for (index = 0; index < FAKE_IB_PKEYS; index++) {
		u16 own = fake_ib_ports[port].pkeys[index];

		/* Two limited members do not hear each other. */
		if (own && (own & 0x7fff) == (pkey & 0x7fff) && ((own | pkey) & 0x8000))
			return index;
	}
	return -1;
}

static int receive(struct fake_qp *qp, u32 path_bits, const struct fake_ib_packet *packet)
{
	struct receiving *this;
	struct ib_wc wc = {
		.status = IB_WC_SUCCESS, .opcode = IB_WC_RECV, .qp = &qp->ib, .src_qp = packet->src_qpn, .slid = packet->slid,
		.sl = packet->sl, .dlid_path_bits = path_bits, .port_num = qp->port,
		.byte_len = sizeof(struct ib_grh) + packet->length,
	};
	int index = 0;

	if (qp->state != IB_QPS_RTR && qp->state != IB_QPS_RTS && qp->state != IB_QPS_SQE)
		return -ENETDOWN;
	if (qp->number) {
		index = pkey_index_of(qp->port, packet->pkey);
		if (index < 0 || packet->qkey != qp->qkey)
			return -EACCES;
	}
	if (list_empty(&qp->receives))
		return -ENOBUFS;
	this = list_first_entry(&qp->receives, struct receiving, list);
	if (this->sge.length < wc.byte_len)
		return -EMSGSIZE;
	wc.wr_cqe = this->cqe;
	wc.pkey_index = index;
	if (packet->has_grh) {
		wc.wc_flags = IB_WC_GRH;
		memcpy((void *)(uintptr_t)this->sge.addr, &packet->grh, sizeof(packet->grh));
	} else {
		/* What is there then is of no meaning. */
		memset((void *)(uintptr_t)this->sge.addr, 0xee, sizeof(packet->grh));
	}
	memcpy((void *)(uintptr_t)(this->sge.addr + sizeof(packet->grh)), packet->mad, packet->length);
	fake_ib_complete(qp->ib.recv_cq, &wc);
	list_del(&this->list);
	kfree(this);
	qp->receive_count--;
	return 0;
}

int fake_ib_receive(u32 port, u32 path_bits, const struct fake_ib_packet *packet)
{
	unsigned long flags;
	struct fake_qp *qp;
	int ret = -ENOTCONN;

	spin_lock_irqsave(&qps_lock, flags);
	qp = xa_load(&qps, key_of(port, packet->dest_qpn));
	if (qp) {
		spin_lock(&qp->lock);
		ret = receive(qp, path_bits, packet);
		spin_unlock(&qp->lock);
		fake_ib_announce(qp->ib.recv_cq);
	}
	spin_unlock_irqrestore(&qps_lock, flags);
	return ret;
}

/* Queue pairs */

static int create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	struct fake_qp *qp = container_of(ibqp, struct fake_qp, ib);
	int ret;

	if (attr->qp_type != IB_QPT_SMI && attr->qp_type != IB_QPT_GSI && attr->qp_type != IB_QPT_UD)
		return -EOPNOTSUPP;
	qp->number = attr->qp_type == IB_QPT_SMI ? 0 : attr->qp_type == IB_QPT_GSI ? 1 : next_number++;
	qp->port = attr->port_num ?: 1;
	qp->signal_all = attr->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->max_send = attr->cap.max_send_wr;
	qp->max_receive = attr->cap.max_recv_wr;
	spin_lock_init(&qp->lock);
	INIT_LIST_HEAD(&qp->sends);
	INIT_LIST_HEAD(&qp->sent);
	INIT_LIST_HEAD(&qp->receives);
	INIT_WORK(&qp->work, send_work);
	ibqp->qp_num = qp->number;
	ret = xa_insert(&qps, key_of(qp->port, qp->number), qp, GFP_KERNEL);
	if (!ret)
		fake_ib_ask("create qp %u port %u sends %u receives %u\n", qp->number, qp->port, qp->max_send, qp->max_receive);
	return ret;
}

static void forget_requests(struct fake_qp *qp, bool flush)
{
	struct receiving *receive, *next_receive;
	struct sending *send, *next_send;

	list_splice_init(&qp->sent, &qp->sends);
	list_for_each_entry_safe(receive, next_receive, &qp->receives, list) {
		struct ib_wc wc = { .wr_cqe = receive->cqe, .status = IB_WC_WR_FLUSH_ERR, .qp = &qp->ib, .opcode = IB_WC_RECV };

		if (flush)
			fake_ib_complete(qp->ib.recv_cq, &wc);
		list_del(&receive->list);
		kfree(receive);
		qp->receive_count--;
	}
	if (flush)
		flush_sends(qp);
	list_for_each_entry_safe(send, next_send, &qp->sends, list) {
		list_del(&send->list);
		kfree(send);
		qp->send_count--;
	}
}

static int modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct fake_qp *qp = container_of(ibqp, struct fake_qp, ib);
	enum ib_qp_state state = mask & IB_QP_STATE ? attr->qp_state : qp->state;
	enum ib_qp_state was = mask & IB_QP_CUR_STATE ? attr->cur_qp_state : qp->state;

	if (!ib_modify_qp_is_ok(was, state, ibqp->qp_type, mask))
		return -EINVAL;
	fake_ib_ask("qp %u port %u %d to %d mask %#x", qp->number, qp->port, was, state, mask);
	if (mask & IB_QP_QKEY)
		fake_ib_ask(" qkey %#x", attr->qkey);
	if (mask & IB_QP_PKEY_INDEX)
		fake_ib_ask(" pkey %u", attr->pkey_index);
	fake_ib_ask("\n");
	spin_lock_irq(&qp->lock);
	if (mask & IB_QP_QKEY)
		qp->qkey = attr->qkey;
	qp->state = state;
	if (state == IB_QPS_ERR || state == IB_QPS_RESET)
		forget_requests(qp, state == IB_QPS_ERR);
	spin_unlock_irq(&qp->lock);
	fake_ib_announce(ibqp->send_cq);
	fake_ib_announce(ibqp->recv_cq);
	queue_work(send_wq, &qp->work);
	return 0;
}

static int query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_qp_init_attr *init)
{
	struct fake_qp *qp = container_of(ibqp, struct fake_qp, ib);

	attr->qp_state = qp->state;
	attr->cur_qp_state = qp->state;
	attr->qkey = qp->qkey;
	attr->port_num = qp->port;
	return 0;
}

static int destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct fake_qp *qp = container_of(ibqp, struct fake_qp, ib);

	spin_lock_irq(&qps_lock);
	xa_erase(&qps, key_of(qp->port, qp->number));
	spin_unlock_irq(&qps_lock);
	spin_lock_irq(&qp->lock);
	qp->state = IB_QPS_RESET;
	spin_unlock_irq(&qp->lock);
	cancel_work_sync(&qp->work);
	spin_lock_irq(&qp->lock);
	forget_requests(qp, false);
	spin_unlock_irq(&qp->lock);
	fake_ib_forget(ibqp->send_cq, ibqp);
	fake_ib_forget(ibqp->recv_cq, ibqp);
	return 0;
}

const struct ib_device_ops fake_ib_queue_ops = {
	.create_qp = create_qp,
	.modify_qp = modify_qp,
	.query_qp = query_qp,
	.destroy_qp = destroy_qp,
	.post_send = post_send,
	.post_recv = post_recv,
	INIT_RDMA_OBJ_SIZE(ib_qp, fake_qp, ib),
};

/* What tests do to them */

enum { HOLD, FAIL, REFUSE, QUEUED, RECEIVES };

/* One door, so that a queue pair is there as long as it is used. */
static u32 on_qp(u32 port, u32 qpn, int what, u32 arg, int how, u32 *most)
{
	unsigned long flags;
	struct fake_qp *qp;
	u32 ret = 0;

	spin_lock_irqsave(&qps_lock, flags);
	qp = xa_load(&qps, key_of(port, qpn));
	if (!qp) {
		spin_unlock_irqrestore(&qps_lock, flags);
		return 0;
	}
	spin_lock(&qp->lock);
	switch (what) {
	case HOLD:
		qp->held = arg;
		queue_work(send_wq, &qp->work);
		break;
	case FAIL:
		qp->fail_nth = arg;
		qp->fail_status = how;
		break;
	case REFUSE:
		qp->refuse_nth = arg;
		qp->refuse_error = how;
		break;
	case QUEUED:
		ret = qp->send_count;
		if (most)
			*most = qp->send_most;
		qp->send_most = qp->send_count;
		break;
	case RECEIVES:
		ret = qp->receive_count;
		break;
	}
	spin_unlock(&qp->lock);
	spin_unlock_irqrestore(&qps_lock, flags);
	return ret;
}

void fake_ib_hold(u32 port, u32 qpn, u32 what)
{
	on_qp(port, qpn, HOLD, what, 0, NULL);
}
EXPORT_SYMBOL_GPL(fake_ib_hold);

void fake_ib_fail_send(u32 port, u32 qpn, u32 nth, enum ib_wc_status status)
{
	on_qp(port, qpn, FAIL, nth, status, NULL);
}
EXPORT_SYMBOL_GPL(fake_ib_fail_send);

void fake_ib_refuse_send(u32 port, u32 qpn, u32 nth, int error)
{
	on_qp(port, qpn, REFUSE, nth, error, NULL);
}
EXPORT_SYMBOL_GPL(fake_ib_refuse_send);

u32 fake_ib_queued(u32 port, u32 qpn, u32 *most)
{
	return on_qp(port, qpn, QUEUED, 0, 0, most);
}
EXPORT_SYMBOL_GPL(fake_ib_queued);

u32 fake_ib_receives(u32 port, u32 qpn)
{
	return on_qp(port, qpn, RECEIVES, 0, 0, NULL);
}
EXPORT_SYMBOL_GPL(fake_ib_receives);

void fake_ib_queues_settle(void)
{
	flush_workqueue(send_wq);
}

int fake_ib_queues_start(void)
{
	send_wq = alloc_workqueue("fake_ib_send", WQ_UNBOUND, 0);
	return send_wq ? 0 : -ENOMEM;
}

void fake_ib_queues_stop(void)
{
	destroy_workqueue(send_wq);
}
