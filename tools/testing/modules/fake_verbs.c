// SPDX-License-Identifier: GPL-2.0
/*
 * A driver of a device that does not exist, for the objects of user space that no software driver has: memory of the
 * device, hints for DMA, counters and actions of flows, work queues and their tables, XRC domains, DMA buffers. It is C, so
 * that it judges any ib_uverbs alike, its tables of methods included.
 *
 * Loading it makes the device fakev0. It reports events when it is asked for something that makes no sense for it:
 *
 *   arming a CQ               a completion, also in the program's memory, and, if for solicited ones, IB_EVENT_CQ_ERR
 *   modifying a QP            IB_EVENT_COMM_EST
 *   modifying an SRQ          IB_EVENT_SRQ_LIMIT_REACHED
 *   modifying a WQ            IB_EVENT_WQ_FATAL
 *
 * The parameter "event" is a number of enum ib_event_type. An event of an object is reported in place of these, until another number
 * is written; an event of the port or the device is reported at once. -1: nothing is in their place.
 *
 * What a client in the kernel posts is flushed at once.
 *
 * With the parameter "more" set the device moderates CQs (3 completions, 4 microseconds, and no others), has CQs in memory of the program
 * and address handles, and its port requires a GRH of each.
 *
 * The parameter "fail" names an object that is not destroyed: the method answers EDEADLK. "live" tells how many objects there are.
 */
#include <linux/module.h>
#include <linux/pci-p2pdma.h>
#include <linux/slab.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>
#define UVERBS_MODULE_NAME fake_verbs
#include <rdma/uverbs_named_ioctl.h>
#include <rdma/uverbs_std_types.h>

MODULE_DESCRIPTION("a device that does not exist, for tests of user space");
MODULE_LICENSE("GPL");

#define BUFFER_PAGES 2

struct fake_context {
	struct ib_ucontext ib;
	/* Memory that user space may have as a DMA buffer, at the first offset of the file. */
	struct rdma_user_mmap_entry *entry;
};

static struct ib_device *device;
static atomic_t live = ATOMIC_INIT(0);
static char fail[16];
module_param_string(fail, fail, sizeof(fail), 0600);

static int live_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%d\n", atomic_read(&live));
}
static const struct kernel_param_ops live_ops = { .get = live_get };
module_param_cb(live, &live_ops, NULL, 0400);

static int event = -1;

static int event_set(const char *val, const struct kernel_param *kp)
{
	struct ib_event of_port = { .device = device, .element.port_num = 1 }, of_device = { .device = device };
	int ret = kstrtoint(val, 0, &event);

	if (ret || !device)
		return ret;
	switch (event) {
	case IB_EVENT_PORT_ACTIVE:
	case IB_EVENT_PORT_ERR:
	case IB_EVENT_LID_CHANGE:
	case IB_EVENT_PKEY_CHANGE:
	case IB_EVENT_SM_CHANGE:
	case IB_EVENT_CLIENT_REREGISTER:
	case IB_EVENT_GID_CHANGE:
	case IB_EVENT_DEVICE_SPEED_CHANGE:
		of_port.event = event;
		ib_dispatch_event(&of_port);
		break;
	case IB_EVENT_DEVICE_FATAL:
		of_device.event = event;
		ib_dispatch_event(&of_device);
		break;
	}
	return 0;
}
static const struct kernel_param_ops event_ops = { .set = event_set };
module_param_cb(event, &event_ops, NULL, 0200);

/* What is reported in place of the usual event. */
static enum ib_event_type event_or(enum ib_event_type usual) { return event < 0 ? usual : event; }

static int made(void)
{
	atomic_inc(&live);
	return 0;
}

static int gone(const char *name)
{
	if (!strcmp(fail, name))
		return -EDEADLK;
	atomic_dec(&live);
	return 0;
}

/* The device and its port */

static int query_device(struct ib_device *ib, struct ib_device_attr *attr, struct ib_udata *udata)
{
	attr->max_qp = attr->max_cq = attr->max_mr = attr->max_pd = attr->max_srq = 100;
	attr->max_qp_wr = attr->max_cqe = attr->max_srq_wr = 100;
	attr->max_send_sge = attr->max_recv_sge = attr->max_srq_sge = 4;
	attr->max_mr_size = U64_MAX;
	return 0;
}

static int query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	attr->state = IB_PORT_ACTIVE;
	attr->max_mtu = attr->active_mtu = IB_MTU_4096;
	attr->gid_tbl_len = attr->pkey_tbl_len = 1;
	return 0;
}

static bool more;
module_param(more, bool, 0400);

static int get_port_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = immutable->pkey_tbl_len = 1;
	if (more)
		immutable->core_cap_flags = RDMA_CORE_CAP_IB_GRH_REQUIRED;
	return 0;
}

static int query_gid(struct ib_device *ib, u32 port, int index, union ib_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	gid->raw[15] = 1;
	return 0;
}

static int query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	*pkey = 0xffff;
	return 0;
}

/* Contexts, and the memory of a DMA buffer */

static int alloc_ucontext(struct ib_ucontext *ib, struct ib_udata *udata)
{
	struct fake_context *context = container_of(ib, struct fake_context, ib);
	int ret;

	context->entry = kzalloc(sizeof(*context->entry), GFP_KERNEL);
	if (!context->entry)
		return -ENOMEM;
	ret = rdma_user_mmap_entry_insert(ib, context->entry, BUFFER_PAGES * PAGE_SIZE);
	if (ret) {
		kfree(context->entry);
		return ret;
	}
	return made();
}

static void dealloc_ucontext(struct ib_ucontext *ib)
{
	rdma_user_mmap_entry_remove(container_of(ib, struct fake_context, ib)->entry);
	gone("context");
}

static void disassociate_ucontext(struct ib_ucontext *ib) {}

static void mmap_free(struct rdma_user_mmap_entry *entry) { kfree(entry); }

static int mmap_get_pfns(struct rdma_user_mmap_entry *entry, struct phys_vec *vec, struct p2pdma_provider **provider)
{
	static struct p2pdma_provider nobody;

	vec->paddr = 0;
	vec->len = BUFFER_PAGES * PAGE_SIZE;
	*provider = &nobody;
	return 0;
}

static struct rdma_user_mmap_entry *pgoff_to_mmap_entry(struct ib_ucontext *ib, off_t page)
{
	return rdma_user_mmap_entry_get_pgoff(ib, page);
}

/* Domains */

static int alloc_pd(struct ib_pd *pd, struct ib_udata *udata) { return made(); }
static int dealloc_pd(struct ib_pd *pd, struct ib_udata *udata) { return gone("pd"); }
static int alloc_xrcd(struct ib_xrcd *xrcd, struct ib_udata *udata) { return made(); }
static int dealloc_xrcd(struct ib_xrcd *xrcd, struct ib_udata *udata) { return gone("xrcd"); }

/* Queues */

struct fake_cq {
	struct ib_cq ib;
	/* Memory of the program for completions, if it has given some. */
	struct ib_umem *memory;
};

static struct fake_cq *to_fake_cq(struct ib_cq *cq) { return container_of(cq, struct fake_cq, ib); }

static int create_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr, struct uverbs_attr_bundle *attrs)
{
	cq->cqe = attr->cqe + 1;
	return made();
}

static int create_user_cq(struct ib_cq *cq, const struct ib_cq_init_attr *attr, struct uverbs_attr_bundle *attrs)
{
	struct ib_umem *memory;

	memory = ib_umem_get_cq_buf(cq->device, attrs, attr->cqe * sizeof(struct ib_uverbs_wc), IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(memory))
		return PTR_ERR(memory);
	to_fake_cq(cq)->memory = memory;
	return create_cq(cq, attr, attrs);
}

static int destroy_cq(struct ib_cq *cq, struct ib_udata *udata)
{
	int ret = gone("cq");

	if (!ret)
		ib_umem_release(to_fake_cq(cq)->memory);
	return ret;
}

/* A completion at the start of the program's memory. */
static void complete_in(struct ib_umem *memory)
{
	struct ib_uverbs_wc wc = { .wr_id = 0x5ca1ab1e, .status = IB_WC_SUCCESS, .byte_len = 77 };

	memcpy(page_address(sg_page(memory->sgt_append.sgt.sgl)) + ib_umem_offset(memory), &wc, sizeof(wc));
}

/* The completion of the kernel's last request, which is of this queue. */
static struct ib_cq *flushed_to;
static struct ib_wc flushed;
static DEFINE_SPINLOCK(flushed_lock);

static int flush(struct ib_qp *qp, struct ib_cq *cq, struct ib_cqe *cqe)
{
	unsigned long flags;

	if (qp->uobject)
		return -EINVAL;
	spin_lock_irqsave(&flushed_lock, flags);
	flushed = (struct ib_wc){ .wr_cqe = cqe, .qp = qp, .status = IB_WC_WR_FLUSH_ERR };
	flushed_to = cq;
	spin_unlock_irqrestore(&flushed_lock, flags);
	return 0;
}

static int poll_cq(struct ib_cq *cq, int count, struct ib_wc *wc)
{
	unsigned long flags;
	int some;

	spin_lock_irqsave(&flushed_lock, flags);
	some = flushed_to == cq;
	if (some) {
		*wc = flushed;
		flushed_to = NULL;
	}
	spin_unlock_irqrestore(&flushed_lock, flags);
	return some;
}

static int req_notify_cq(struct ib_cq *cq, enum ib_cq_notify_flags flags)
{
	struct ib_event event = { .device = device, .element.cq = cq, .event = event_or(IB_EVENT_CQ_ERR) };

	if (to_fake_cq(cq)->memory)
		complete_in(to_fake_cq(cq)->memory);
	cq->comp_handler(cq, cq->cq_context);
	if ((flags & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED)
		cq->event_handler(&event, cq->cq_context);
	return 0;
}

static int modify_cq(struct ib_cq *cq, u16 count, u16 period) { return count == 3 && period == 4 ? 0 : -ERANGE; }

static int create_qp(struct ib_qp *qp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	static atomic_t number = ATOMIC_INIT(1);

	qp->qp_num = atomic_inc_return(&number);
	attr->cap.max_inline_data = attr->create_flags | attr->sq_sig_type << 16;
	return made();
}

static int modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct ib_event event = { .device = device, .element.qp = qp, .event = event_or(IB_EVENT_COMM_EST) };

	qp->event_handler(&event, qp->qp_context);
	return 0;
}

static int destroy_qp(struct ib_qp *qp, struct ib_udata *udata) { return gone("qp"); }

static int post_send(struct ib_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	return flush(qp, qp->send_cq, wr->wr_cqe);
}

static int post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	return flush(qp, qp->recv_cq, wr->wr_cqe);
}

static int create_srq(struct ib_srq *srq, struct ib_srq_init_attr *attr, struct ib_udata *udata)
{
	if (attr->srq_type == IB_SRQT_XRC)
		srq->ext.xrc.srq_num = 77;
	attr->attr.max_wr += attr->srq_type == IB_SRQT_TM ? attr->ext.tag_matching.max_num_tags : 0;
	return made();
}

static int modify_srq(struct ib_srq *srq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct ib_event event = { .device = device, .element.srq = srq, .event = event_or(IB_EVENT_SRQ_LIMIT_REACHED) };

	srq->event_handler(&event, srq->srq_context);
	return 0;
}

static int destroy_srq(struct ib_srq *srq, struct ib_udata *udata) { return gone("srq"); }

static struct ib_wq *create_wq(struct ib_pd *pd, struct ib_wq_init_attr *attr, struct ib_udata *udata)
{
	struct ib_wq *wq = kzalloc(sizeof(*wq), GFP_KERNEL);

	if (!wq)
		return ERR_PTR(-ENOMEM);
	wq->wq_num = 5;
	wq->event_handler = attr->event_handler;
	attr->max_sge += attr->create_flags;
	made();
	return wq;
}

static int modify_wq(struct ib_wq *wq, struct ib_wq_attr *attr, u32 mask, struct ib_udata *udata)
{
	struct ib_event event = { .device = device, .element.wq = wq, .event = event_or(IB_EVENT_WQ_FATAL) };

	wq->event_handler(&event, wq->wq_context);
	return 0;
}

static int destroy_wq(struct ib_wq *wq, struct ib_udata *udata)
{
	int ret = gone("wq");

	if (!ret)
		kfree(wq);
	return ret;
}

static int create_rwq_ind_table(struct ib_rwq_ind_table *table, struct ib_rwq_ind_table_init_attr *attr, struct ib_udata *udata)
{
	table->ind_tbl_num = 3;
	return made();
}

static int destroy_rwq_ind_table(struct ib_rwq_ind_table *table) { return gone("table"); }

/* Memory */

static struct ib_mr *new_mr(struct ib_dmah *dmah)
{
	struct ib_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);

	if (!mr)
		return ERR_PTR(-ENOMEM);
	/* What the hints are can be seen by their key. */
	mr->lkey = 0x1000 | (dmah ? dmah->valid_fields << 4 | dmah->ph : 0);
	mr->rkey = 0x2000;
	made();
	return mr;
}

static struct ib_mr *get_dma_mr(struct ib_pd *pd, int access) { return new_mr(NULL); }

static struct ib_mr *reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 iova, int access, struct ib_dmah *dmah,
				 struct ib_udata *udata)
{
	return new_mr(dmah);
}

static struct ib_mr *reg_user_mr_dmabuf(struct ib_pd *pd, u64 offset, u64 length, u64 iova, int fd, int access,
					struct ib_dmah *dmah, struct uverbs_attr_bundle *attrs)
{
	if (offset != 0x3010 || length != 0x20 || iova != 0x7010 || fd != 9)
		return ERR_PTR(-ERANGE);
	return new_mr(dmah);
}

static struct ib_mr *reg_dm_mr(struct ib_pd *pd, struct ib_dm *dm, struct ib_dm_mr_attr *attr, struct uverbs_attr_bundle *attrs)
{
	return new_mr(NULL);
}

static int dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	int ret = gone("mr");

	if (!ret)
		kfree(mr);
	return ret;
}

/* Another place needs another region, with a key of its own. */
static struct ib_mr *rereg_user_mr(struct ib_mr *mr, int flags, u64 start, u64 length, u64 iova, int access, struct ib_pd *pd,
				   struct ib_udata *udata)
{
	struct ib_mr *other = flags & IB_MR_REREG_TRANS ? new_mr(NULL) : NULL;

	if (!IS_ERR_OR_NULL(other))
		other->lkey = mr->lkey + 1;
	return other;
}

static int advise_mr(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice, u32 flags, struct ib_sge *list, u32 count,
		     struct uverbs_attr_bundle *attrs)
{
	for (u32 i = 0; i < count; i++)
		if (list[i].addr != i + 1 || list[i].length != i + 2 || list[i].lkey != i + 3)
			return -ERANGE;
	return count == 3 && advice == 1 && flags == 1 ? 0 : -EDOM;
}

static struct ib_dm *alloc_dm(struct ib_device *ib, struct ib_ucontext *context, struct ib_dm_alloc_attr *attr,
			      struct uverbs_attr_bundle *attrs)
{
	struct ib_dm *dm;

	if (attr->alignment != 6)
		return ERR_PTR(-ERANGE);
	dm = kzalloc(sizeof(*dm), GFP_KERNEL);
	if (!dm)
		return ERR_PTR(-ENOMEM);
	made();
	return dm;
}

static int dealloc_dm(struct ib_dm *dm, struct uverbs_attr_bundle *attrs)
{
	int ret = gone("dm");

	if (!ret)
		kfree(dm);
	return ret;
}

static int alloc_dmah(struct ib_dmah *dmah, struct uverbs_attr_bundle *attrs) { return made(); }
static int dealloc_dmah(struct ib_dmah *dmah, struct uverbs_attr_bundle *attrs) { return gone("dmah"); }

/* Completion counters */
#ifdef HAS_COMP_CNTR

struct fake_comp_cntr {
	struct ib_comp_cntr ib;
	u64 values[2];
};

static int create_comp_cntr(struct ib_comp_cntr *counter, struct uverbs_attr_bundle *attrs) { return made(); }
static int destroy_comp_cntr(struct ib_comp_cntr *counter) { return gone("comp_cntr"); }

static int modify_comp_cntr(struct ib_comp_cntr *counter, enum ib_comp_cntr_entry entry, enum ib_comp_cntr_modify_op op, u64 value)
{
	u64 *values = container_of(counter, struct fake_comp_cntr, ib)->values;

	if (entry > IB_COMP_CNTR_ENTRY_ERR)
		return -ERANGE;
	values[entry] = value + (op == IB_COMP_CNTR_MODIFY_OP_INC ? values[entry] : 0);
	return 0;
}

static int read_comp_cntr(struct ib_comp_cntr *counter, enum ib_comp_cntr_entry entry, u64 *value)
{
	*value = container_of(counter, struct fake_comp_cntr, ib)->values[entry];
	return 0;
}

static int query_comp_cntr_caps(struct ib_device *ib, struct ib_comp_cntr_caps *caps, struct uverbs_attr_bundle *attrs)
{
	caps->max_counters = 9;
	caps->max_value = 1ULL << 60;
	caps->supported_qp_attach_ops = IB_QP_ATTACH_COMP_CNTR_OP_SEND | IB_QP_ATTACH_COMP_CNTR_OP_RECV;
	return 0;
}

/* Which operations it was attached for is in the second value. */
static int qp_attach_comp_cntr(struct ib_qp *qp, struct ib_comp_cntr *counter, struct ib_qp_attach_comp_cntr_attr *attr)
{
	if (attr->op_mask & ~(IB_QP_ATTACH_COMP_CNTR_OP_SEND | IB_QP_ATTACH_COMP_CNTR_OP_RECV))
		return -EOPNOTSUPP;
	container_of(counter, struct fake_comp_cntr, ib)->values[1] = attr->op_mask;
	return 0;
}

#endif

/* Flows, their counters and actions */

static int create_counters(struct ib_counters *counters, struct uverbs_attr_bundle *attrs) { return made(); }
static int destroy_counters(struct ib_counters *counters) { return gone("counters"); }

static int read_counters(struct ib_counters *counters, struct ib_counters_read_attr *attr, struct uverbs_attr_bundle *attrs)
{
	for (u32 i = 0; i < attr->ncounters; i++)
		attr->counters_buff[i] = 100 * attr->flags + i;
	return 0;
}

static struct ib_flow *create_flow(struct ib_qp *qp, struct ib_flow_attr *attr, struct ib_udata *udata)
{
	struct ib_flow *flow = kzalloc(sizeof(*flow), GFP_KERNEL);

	if (!flow)
		return ERR_PTR(-ENOMEM);
	made();
	return flow;
}

static int destroy_flow(struct ib_flow *flow)
{
	int ret = gone("flow");

	if (!ret)
		kfree(flow);
	return ret;
}

static int destroy_flow_action(struct ib_flow_action *action)
{
	int ret = gone("action");

	if (!ret)
		kfree(action);
	return ret;
}

enum { FAKE_METHOD_ACTION_CREATE = 1U << UVERBS_ID_NS_SHIFT };
enum { FAKE_ATTR_ACTION_HANDLE = 1U << UVERBS_ID_NS_SHIFT, FAKE_ATTR_ACTION_ANSWER };

static int UVERBS_HANDLER(FAKE_METHOD_ACTION_CREATE)(struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *object = uverbs_attr_get_uobject(attrs, FAKE_ATTR_ACTION_HANDLE);
	struct ib_flow_action *action = kzalloc(sizeof(*action), GFP_KERNEL);
	u32 answer = 42;

	if (!action)
		return -ENOMEM;
	made();
	uverbs_flow_action_fill_action(action, object, device, IB_FLOW_ACTION_UNSPECIFIED);
	uverbs_finalize_uobj_create(attrs, FAKE_ATTR_ACTION_HANDLE);
	return uverbs_copy_to(attrs, FAKE_ATTR_ACTION_ANSWER, &answer, sizeof(answer));
}

DECLARE_UVERBS_NAMED_METHOD(
	FAKE_METHOD_ACTION_CREATE,
	UVERBS_ATTR_IDR(FAKE_ATTR_ACTION_HANDLE, UVERBS_OBJECT_FLOW_ACTION, UVERBS_ACCESS_NEW, UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(FAKE_ATTR_ACTION_ANSWER, UVERBS_ATTR_TYPE(u32), UA_MANDATORY));

ADD_UVERBS_METHODS(fake_actions, UVERBS_OBJECT_FLOW_ACTION, &UVERBS_METHOD(FAKE_METHOD_ACTION_CREATE));

static const struct uapi_definition definitions[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_FLOW_ACTION, &fake_actions),
	{},
};

static const struct ib_device_ops ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = 1,
	.uverbs_no_driver_id_binding = 1,
	.advise_mr = advise_mr,
	.alloc_dm = alloc_dm,
	.alloc_dmah = alloc_dmah,
	.alloc_pd = alloc_pd,
	.alloc_ucontext = alloc_ucontext,
	.alloc_xrcd = alloc_xrcd,
	.create_counters = create_counters,
	.create_cq = create_cq,
	.create_flow = create_flow,
	.create_qp = create_qp,
	.create_rwq_ind_table = create_rwq_ind_table,
	.create_srq = create_srq,
	.create_wq = create_wq,
	.dealloc_dm = dealloc_dm,
	.dealloc_dmah = dealloc_dmah,
	.dealloc_pd = dealloc_pd,
	.dealloc_ucontext = dealloc_ucontext,
	.dealloc_xrcd = dealloc_xrcd,
	.dereg_mr = dereg_mr,
	.destroy_counters = destroy_counters,
	.destroy_cq = destroy_cq,
	.destroy_flow = destroy_flow,
	.destroy_flow_action = destroy_flow_action,
	.destroy_qp = destroy_qp,
	.destroy_rwq_ind_table = destroy_rwq_ind_table,
	.destroy_srq = destroy_srq,
	.destroy_wq = destroy_wq,
	.disassociate_ucontext = disassociate_ucontext,
	.get_dma_mr = get_dma_mr,
	.get_port_immutable = get_port_immutable,
	.mmap_free = mmap_free,
	.mmap_get_pfns = mmap_get_pfns,
	.modify_qp = modify_qp,
	.modify_srq = modify_srq,
	.modify_wq = modify_wq,
	.pgoff_to_mmap_entry = pgoff_to_mmap_entry,
	.poll_cq = poll_cq,
	.post_recv = post_recv,
	.post_send = post_send,
	.query_device = query_device,
	.query_gid = query_gid,
	.query_pkey = query_pkey,
	.query_port = query_port,
	.read_counters = read_counters,
	.reg_dm_mr = reg_dm_mr,
	.reg_user_mr = reg_user_mr,
	.reg_user_mr_dmabuf = reg_user_mr_dmabuf,
	.req_notify_cq = req_notify_cq,
	.rereg_user_mr = rereg_user_mr,
#ifdef HAS_COMP_CNTR
	.create_comp_cntr = create_comp_cntr,
	.destroy_comp_cntr = destroy_comp_cntr,
	.modify_comp_cntr = modify_comp_cntr,
	.qp_attach_comp_cntr = qp_attach_comp_cntr,
	.query_comp_cntr_caps = query_comp_cntr_caps,
	.read_comp_cntr = read_comp_cntr,
	INIT_RDMA_OBJ_SIZE(ib_comp_cntr, fake_comp_cntr, ib),
#endif
	INIT_RDMA_OBJ_SIZE(ib_cq, fake_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, fake_context, ib),
	.size_ib_counters = sizeof(struct ib_counters),
	.size_ib_dmah = sizeof(struct ib_dmah),
	.size_ib_pd = sizeof(struct ib_pd),
	.size_ib_qp = sizeof(struct ib_qp),
	.size_ib_rwq_ind_table = sizeof(struct ib_rwq_ind_table),
	.size_ib_srq = sizeof(struct ib_srq),
	.size_ib_xrcd = sizeof(struct ib_xrcd),
};

/* The driver makes any address handle: what is wrong with one the core has to see. */
static int create_ah(struct ib_ah *ah, struct rdma_ah_init_attr *attr, struct ib_udata *udata) { return made(); }
static int destroy_ah(struct ib_ah *ah, u32 flags) { return gone("ah"); }

static const struct ib_device_ops more_ops = {
	.create_ah = create_ah,
	.create_user_ah = create_ah,
	.create_user_cq = create_user_cq,
	.destroy_ah = destroy_ah,
	.modify_cq = modify_cq,
	.size_ib_ah = sizeof(struct ib_ah),
};

static int __init fake_verbs_init(void)
{
	int ret;

	device = _ib_alloc_device(sizeof(*device), &init_net);
	if (!device)
		return -ENOMEM;
	device->phys_port_cnt = 1;
	device->num_comp_vectors = 2;
	device->node_type = RDMA_NODE_UNSPECIFIED;
	device->driver_def = definitions;
	device->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
	ib_set_device_ops(device, &ops);
	if (more)
		ib_set_device_ops(device, &more_ops);
	ret = ib_register_device(device, "fakev%d", NULL);
	if (ret)
		ib_dealloc_device(device);
	return ret;
}

static void __exit fake_verbs_exit(void)
{
	ib_unregister_device(device);
	ib_dealloc_device(device);
}

module_init(fake_verbs_init);
module_exit(fake_verbs_exit);
