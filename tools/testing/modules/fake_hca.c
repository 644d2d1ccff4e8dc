// SPDX-License-Identifier: GPL-2.0
/*
 * A driver of a device that does not exist, for what no software driver has: counters that queue pairs are bound to,
 * optional counters, counters of the device and of memory regions, pools of handles for fast registration. It is C, so
 * that it judges any ib_core alike.
 *
 * Loading it makes the device fake0 with two RoCE ports. Objects are made by writing a command to the parameter "do":
 *
 *   qp KERNEL TYPE            a queue pair of a type (enum ib_qp_type), of the kernel (1) or of the writing process (0);
 *                             they are numbered from 1 on
 *   init QPN PORT, reset QPN  changes its state
 *   count QPN N               N packets on it: they count for its counter, else for its port
 *   destroy QPN
 *   mr, dereg                 makes a memory region, destroys it
 *   pop N ATS FLAGS VENDOR KERNEL BLOCKS     takes a handle of such a kind as number N (0 to 7)
 *   push N, drop N            gives it back, or up
 *
 * The parameter "fail" names a method that fails with EIO. "asked" tells what the driver was asked for since it was last
 * read, and "handles" how many handles there are.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/frmr_pools.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>
#include <rdma/rdma_netlink.h>
#include <rdma/uverbs_ioctl.h>

MODULE_DESCRIPTION("a device that does not exist, for tests");
MODULE_LICENSE("GPL");

/* ib_core exports them for ib_uverbs, without a public header. */
void ib_qp_usecnt_inc(struct ib_qp *qp);
struct ib_qp *ib_create_qp_user(struct ib_device *dev, struct ib_pd *pd, struct ib_qp_init_attr *attr,
				struct uverbs_attr_bundle *uattrs, struct ib_uqp_object *uobj, const char *caller);

#define PORTS 2
#define COUNTERS 8
#define REGIONS 8
#define BYTES_PER_PACKET 64

struct fake_pd {
	struct ib_pd ib;
};

struct fake_qp {
	struct ib_qp ib;
	enum ib_qp_state state;
};

struct fake_counter {
	struct rdma_counter ib;
	u64 packets;
};

struct fake_mr {
	struct ib_mr ib;
};

static struct ib_device *device;
static struct ib_pd *pd;
static DEFINE_XARRAY_ALLOC1(qps);
static u32 next_qp;
static struct ib_mr *mr;
static u64 port_packets[PORTS + 1];
static DECLARE_BITMAP(counter_ids, COUNTERS + 1);
static struct ib_mr regions[REGIONS];
static atomic_t last_handle, handles;
/* Held while a command is carried out, and while all objects go. */
static DEFINE_MUTEX(lock);

/* What is asked, and what fails */

static char asked[PAGE_SIZE];
static DEFINE_SPINLOCK(asked_lock);
static char fail[32];
module_param_string(fail, fail, sizeof(fail), 0600);

static __printf(1, 2) void ask(const char *fmt, ...)
{
	size_t used;
	va_list args;

	spin_lock(&asked_lock);
	used = strlen(asked);
	va_start(args, fmt);
	vscnprintf(asked + used, sizeof(asked) - used, fmt, args);
	va_end(args);
	spin_unlock(&asked_lock);
}

static bool fails(const char *method)
{
	return sysfs_streq(fail, method);
}

static int get_asked(char *buffer, const struct kernel_param *param)
{
	int length;

	spin_lock(&asked_lock);
	length = strscpy(buffer, asked, PAGE_SIZE);
	asked[0] = 0;
	spin_unlock(&asked_lock);
	return length;
}

static const struct kernel_param_ops asked_ops = { .get = get_asked };
module_param_cb(asked, &asked_ops, NULL, 0400);

static int get_handles(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%d\n", atomic_read(&handles));
}

static const struct kernel_param_ops handles_ops = { .get = get_handles };
module_param_cb(handles, &handles_ops, NULL, 0400);

/* The device */

static int query_device(struct ib_device *ibdev, struct ib_device_attr *attr, struct ib_udata *udata)
{
	attr->max_qp = 1 << 20;
	attr->max_pkeys = 1;
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	return 0;
}

static int query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	attr->state = IB_PORT_ACTIVE;
	attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_1024;
	attr->gid_tbl_len = 4;
	attr->pkey_tbl_len = 1;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_EDR;
	return 0;
}

static int port_immutable(struct ib_device *ibdev, u32 port, struct ib_port_immutable *immutable)
{
	/* No MADs: there is nobody to send them. */
	immutable->core_cap_flags = RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP;
	immutable->gid_tbl_len = 4;
	immutable->pkey_tbl_len = 1;
	return 0;
}

static int query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	*pkey = 0xffff;
	return index ? -EINVAL : 0;
}

static enum rdma_link_layer link_layer(struct ib_device *ibdev, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

static int alloc_pd(struct ib_pd *new, struct ib_udata *udata)
{
	return 0;
}

static int dealloc_pd(struct ib_pd *old, struct ib_udata *udata)
{
	return 0;
}

/* Queue pairs */

static int create_qp(struct ib_qp *qp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	int ret = xa_alloc_cyclic(&qps, &qp->qp_num, qp, XA_LIMIT(1, 0xffffff), &next_qp, GFP_KERNEL);

	return min(ret, 0);
}

static int modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct fake_qp *qp = container_of(ibqp, struct fake_qp, ib);

	if (fails("modify_qp"))
		return -EIO;
	if (mask & IB_QP_STATE)
		qp->state = attr->qp_state;
	return 0;
}

static int query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_qp_init_attr *init)
{
	attr->qp_state = container_of(ibqp, struct fake_qp, ib)->state;
	return 0;
}

static int destroy_qp(struct ib_qp *qp, struct ib_udata *udata)
{
	if (fails("destroy_qp"))
		return -EIO;
	xa_erase(&qps, qp->qp_num);
	return 0;
}

/* Memory regions */

static struct ib_mr *alloc_mr(struct ib_pd *of, enum ib_mr_type type, u32 max_sg)
{
	struct fake_mr *new = kzalloc(sizeof(*new), GFP_KERNEL);

	return new ? &new->ib : ERR_PTR(-ENOMEM);
}

static int dereg_mr(struct ib_mr *old, struct ib_udata *udata)
{
	kfree(container_of(old, struct fake_mr, ib));
	return 0;
}

static int fill_stat_mr(struct sk_buff *msg, struct ib_mr *of)
{
	struct nlattr *table = nla_nest_start(msg, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);

	if (!table)
		return -EMSGSIZE;
	if (rdma_nl_stat_hwcounter_entry(msg, "page_faults", 7) ||
	    rdma_nl_stat_hwcounter_entry(msg, "page_invalidations", 3)) {
		nla_nest_cancel(msg, table);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, table);
	return 0;
}

/* Counters of ports, and of the device (port 0) */

static const struct rdma_stat_desc descs[] = {
	{ .name = "packets" },
	{ .name = "bytes" },
	{ .name = "marked_packets", .flags = IB_STAT_FLAG_OPTIONAL },
	{ .name = "late_packets", .flags = IB_STAT_FLAG_OPTIONAL },
};

static void count(struct rdma_hw_stats *stats, u64 packets)
{
	stats->value[0] = packets;
	stats->value[1] = packets * BYTES_PER_PACKET;
	if (stats->num_counters == ARRAY_SIZE(descs)) {
		stats->value[2] = test_bit(2, stats->is_disabled) ? 0 : packets / 2;
		stats->value[3] = test_bit(3, stats->is_disabled) ? 0 : packets / 3;
	}
}

static struct rdma_hw_stats *alloc_stats(int counters)
{
	struct rdma_hw_stats *stats = rdma_alloc_hw_stats_struct(descs, counters, 0);
	int nth;

	for (nth = 0; stats && nth < counters; nth++)
		if (descs[nth].flags & IB_STAT_FLAG_OPTIONAL)
			set_bit(nth, stats->is_disabled);
	return stats;
}

static struct rdma_hw_stats *alloc_port_stats(struct ib_device *ibdev, u32 port)
{
	return alloc_stats(ARRAY_SIZE(descs));
}

static struct rdma_hw_stats *alloc_device_stats(struct ib_device *ibdev)
{
	return alloc_stats(2);
}

static int get_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index)
{
	if (fails("get_hw_stats"))
		return -EIO;
	count(stats, port ? port_packets[port] : port_packets[1] + port_packets[2]);
	return stats->num_counters;
}

static int modify_stat(struct ib_device *ibdev, u32 port, unsigned int index, bool enable)
{
	ask("modify_hw_stat port %u %s %d\n", port, descs[index].name, enable);
	return fails("modify_hw_stat") ? -EIO : 0;
}

/* Counters of queue pairs */

static void counter_init(struct rdma_counter *counter)
{
	container_of(counter, struct fake_counter, ib)->packets = 0;
}

static struct rdma_hw_stats *counter_alloc_stats(struct rdma_counter *counter)
{
	return fails("counter_alloc_stats") ? NULL : alloc_stats(ARRAY_SIZE(descs));
}

static int counter_bind_qp(struct rdma_counter *counter, struct ib_qp *qp, u32 port)
{
	u32 id;

	ask("bind qp %u port %u, counter %u mode %u mask %u type %d opcnt %d\n", qp->qp_num, port, counter->id,
	    counter->mode.mode, counter->mode.mask, counter->mode.param.qp_type, counter->mode.bind_opcnt);
	if (fails("counter_bind_qp"))
		return -EIO;
	if (!counter->id) {
		id = find_next_zero_bit(counter_ids, COUNTERS + 1, 1);
		if (id > COUNTERS)
			return -ENOSPC;
		set_bit(id, counter_ids);
		counter->id = id;
	}
	qp->counter = counter;
	return 0;
}

static int counter_unbind_qp(struct ib_qp *qp, u32 port)
{
	ask("unbind qp %u port %u, counter %u\n", qp->qp_num, port, qp->counter->id);
	if (fails("counter_unbind_qp"))
		return -EIO;
	qp->counter = NULL;
	return 0;
}

static int counter_dealloc(struct rdma_counter *counter)
{
	ask("dealloc counter %u\n", counter->id);
	clear_bit(counter->id, counter_ids);
	return fails("counter_dealloc") ? -EIO : 0;
}

static int counter_update(struct rdma_counter *counter)
{
	if (fails("counter_update_stats"))
		return -EIO;
	count(counter->stats, container_of(counter, struct fake_counter, ib)->packets);
	return 0;
}

/* Handles of fast registration */

static int create_frmrs(struct ib_device *ibdev, struct ib_frmr_key *key, u32 *new, u32 wanted)
{
	u32 nth;

	ask("create %u of %u %d %llu %llu %zu\n", wanted, key->ats, key->access_flags, key->vendor_key,
	    key->kernel_vendor_key, key->num_dma_blocks);
	if (fails("create_frmrs"))
		return -EIO;
	for (nth = 0; nth < wanted; nth++)
		new[nth] = atomic_inc_return(&last_handle);
	atomic_add(wanted, &handles);
	return 0;
}

static void destroy_frmrs(struct ib_device *ibdev, u32 *old, u32 given)
{
	atomic_sub(given, &handles);
}

static int build_key(struct ib_device *ibdev, const struct ib_frmr_key *in, struct ib_frmr_key *out)
{
	if (in->vendor_key > 100)
		return -EINVAL;
	*out = *in;
	out->num_dma_blocks = roundup_pow_of_two(in->num_dma_blocks ?: 1);
	return 0;
}

static const struct ib_frmr_pool_ops frmr_ops = {
	.create_frmrs = create_frmrs,
	.destroy_frmrs = destroy_frmrs,
	.build_key = build_key,
};

/* Commands */

static int make_qp(u32 of_kernel, u32 type)
{
	/* It stands for a command of user space, of which the driver wants nothing. */
	static struct uverbs_attr_bundle command;
	struct ib_qp_init_attr attr = { .qp_type = type };
	struct ib_qp *qp;

	if (of_kernel)
		return PTR_ERR_OR_ZERO(ib_create_qp(pd, &attr));
	qp = ib_create_qp_user(device, pd, &attr, &command, NULL, NULL);
	if (!IS_ERR(qp))
		ib_qp_usecnt_inc(qp);
	return PTR_ERR_OR_ZERO(qp);
}

static int set_state(struct ib_qp *qp, enum ib_qp_state state, u32 port)
{
	struct ib_qp_attr attr = { .qp_state = state, .port_num = port };

	return ib_modify_qp(qp, &attr, port ? IB_QP_STATE | IB_QP_PORT : IB_QP_STATE);
}

static void count_packets(struct ib_qp *qp, u32 packets)
{
	if (qp->counter)
		container_of(qp->counter, struct fake_counter, ib)->packets += packets;
	else
		port_packets[qp->port] += packets;
}

static int make_mr(void)
{
	struct ib_mr *new;

	if (mr)
		return -EBUSY;
	new = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, 1);
	if (IS_ERR(new))
		return PTR_ERR(new);
	mr = new;
	return 0;
}

static int remove_mr(void)
{
	int ret = mr ? ib_dereg_mr(mr) : -ENOENT;

	if (!ret)
		mr = NULL;
	return ret;
}

static int pop_handle(struct ib_mr *region, const u64 *arg)
{
	int ret;

	if (region->frmr.handle)
		return -EBUSY;
	region->frmr.key = (struct ib_frmr_key){ .ats = arg[0], .access_flags = arg[1], .vendor_key = arg[2],
						 .kernel_vendor_key = arg[3], .num_dma_blocks = arg[4] };
	ret = ib_frmr_pool_pop(device, region);
	if (!ret)
		ask("popped %u\n", region->frmr.handle);
	return ret;
}

static int return_handle(struct ib_mr *region, bool push)
{
	if (!region->frmr.handle)
		return -ENOENT;
	if (push) {
		ib_frmr_pool_push(device, region);
	} else {
		destroy_frmrs(device, &region->frmr.handle, 1);
		ib_frmr_pool_drop(region);
	}
	region->frmr.handle = 0;
	return 0;
}

static int carry_out(const char *name, u64 *arg, int args)
{
	struct ib_qp *qp = args ? xa_load(&qps, arg[0]) : NULL;
	struct ib_mr *region = args && arg[0] < REGIONS ? &regions[arg[0]] : NULL;

	if (!strcmp(name, "qp") && args == 2)
		return make_qp(arg[0], arg[1]);
	if (!strcmp(name, "init") && args == 2 && qp)
		return set_state(qp, IB_QPS_INIT, arg[1]);
	if (!strcmp(name, "reset") && args == 1 && qp)
		return set_state(qp, IB_QPS_RESET, 0);
	if (!strcmp(name, "count") && args == 2 && qp) {
		count_packets(qp, arg[1]);
		return 0;
	}
	if (!strcmp(name, "destroy") && args == 1 && qp)
		return ib_destroy_qp(qp);
	if (!strcmp(name, "mr") && !args)
		return make_mr();
	if (!strcmp(name, "dereg") && !args)
		return remove_mr();
	if (!strcmp(name, "pop") && args == 6 && region)
		return pop_handle(region, arg + 1);
	if ((!strcmp(name, "push") || !strcmp(name, "drop")) && args == 1 && region)
		return return_handle(region, name[0] == 'p');
	return -EINVAL;
}

static int set_do(const char *text, const struct kernel_param *param)
{
	char name[16];
	u64 arg[6] = {};
	int args, ret;

	args = sscanf(text, "%15s %llu %llu %llu %llu %llu %llu", name, &arg[0], &arg[1], &arg[2], &arg[3], &arg[4],
		      &arg[5]);
	if (args < 1)
		return -EINVAL;
	mutex_lock(&lock);
	ret = pd ? carry_out(name, arg, args - 1) : -ENODEV;
	mutex_unlock(&lock);
	return ret;
}

static const struct kernel_param_ops do_ops = { .set = set_do };
module_param_cb(do, &do_ops, NULL, 0200);

/* Coming and going */

static const struct ib_device_ops ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.query_device = query_device,
	.query_port = query_port,
	.get_port_immutable = port_immutable,
	.query_pkey = query_pkey,
	.get_link_layer = link_layer,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.create_qp = create_qp,
	.modify_qp = modify_qp,
	.query_qp = query_qp,
	.destroy_qp = destroy_qp,
	.alloc_mr = alloc_mr,
	.dereg_mr = dereg_mr,
	.fill_stat_mr_entry = fill_stat_mr,
	.alloc_hw_port_stats = alloc_port_stats,
	.alloc_hw_device_stats = alloc_device_stats,
	.get_hw_stats = get_stats,
	.modify_hw_stat = modify_stat,
	.counter_init = counter_init,
	.counter_alloc_stats = counter_alloc_stats,
	.counter_bind_qp = counter_bind_qp,
	.counter_unbind_qp = counter_unbind_qp,
	.counter_dealloc = counter_dealloc,
	.counter_update_stats = counter_update,
	INIT_RDMA_OBJ_SIZE(ib_pd, fake_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, fake_qp, ib),
	INIT_RDMA_OBJ_SIZE(rdma_counter, fake_counter, ib),
};

static void clean_up(void)
{
	unsigned long number;
	struct ib_qp *qp;
	u32 nth;

	mutex_lock(&lock);
	fail[0] = 0;
	for (nth = 0; nth < REGIONS; nth++)
		return_handle(&regions[nth], true);
	remove_mr();
	xa_for_each(&qps, number, qp)
		ib_destroy_qp(qp);
	if (!IS_ERR_OR_NULL(pd))
		ib_dealloc_pd(pd);
	pd = NULL;
	ib_frmr_pools_cleanup(device);
	mutex_unlock(&lock);
	WARN_ON(atomic_read(&handles));
}

static int __init fake_init(void)
{
	int ret;

	device = _ib_alloc_device(sizeof(*device), &init_net);
	if (!device)
		return -ENOMEM;
	device->phys_port_cnt = PORTS;
	device->node_type = RDMA_NODE_IB_CA;
	strscpy(device->node_desc, "a device that does not exist");
	ib_set_device_ops(device, &ops);
	ret = ib_register_device(device, "fake%d", NULL);
	if (ret)
		goto dealloc;
	ret = ib_frmr_pools_init(device, &frmr_ops);
	if (ret)
		goto unregister;
	pd = ib_alloc_pd(device, 0);
	if (!IS_ERR(pd))
		return 0;
	ret = PTR_ERR(pd);
	clean_up();
unregister:
	ib_unregister_device(device);
dealloc:
	ib_dealloc_device(device);
	return ret;
}

static void __exit fake_exit(void)
{
	clean_up();
	ib_unregister_device(device);
	ib_dealloc_device(device);
}

module_init(fake_init);
module_exit(fake_exit);
