// SPDX-License-Identifier: GPL-2.0
/*
 * A device without a data path that logs all that the core knows about its GIDs, P_Keys and addresses. gids.sh writes
 * commands to the parameter "cmd" and compares the log with that of the stock core.
 *
 * Parameters: netdev (of port 1), proto (roce, ib or iwarp), len (GIDs of the port), gidops (has add_gid, del_gid).
 * Each line begins with "gids: ".
 */
#define pr_fmt(fmt) "gids: " fmt

#include <linux/delay.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <net/addrconf.h>
#include <net/ip.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#define HELD 8

static char *netdev = "d0";
module_param(netdev, charp, 0444);
static int len = 24;
module_param(len, int, 0444);
static bool gidops = true;
module_param(gidops, bool, 0444);
static char *proto = "roce";
module_param(proto, charp, 0444);

static struct ib_device *dev;
static struct net_device *port_netdev;
static const struct ib_gid_attr *held[HELD];
static struct ib_event_handler handler;
static unsigned long gids_added, gids_deleted;
static atomic_t events;
static int generation;
static bool ready;
/* The next GID is refused, and the handler of events that follows asks for it again. */
static bool refuses, rescans;

/* The device */

static bool is(const char *name)
{
	return !strcmp(proto, name);
}

static int query_device(struct ib_device *ibdev, struct ib_device_attr *attr, struct ib_udata *udata)
{
	memset(attr, 0, sizeof(*attr));
	return 0;
}

static int query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	attr->gid_tbl_len = is("iwarp") ? 1 : len;
	attr->pkey_tbl_len = is("iwarp") ? 0 : 3;
	attr->state = ib_get_curr_port_state(port_netdev);
	attr->lmc = 2;
	attr->active_mtu = IB_MTU_1024;
	attr->max_mtu = IB_MTU_4096;
	return 0;
}

static int query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	static const u16 table[] = { 0x7fff, 0x8001, 0x0002 };

	if (index >= ARRAY_SIZE(table))
		return -EINVAL;
	*pkey = table[index] + (index == 2 ? generation : 0);
	return 0;
}

/* For "ib" and "iwarp": GIDs that the device itself has, one of which it fails to tell at times. */
static int query_gid(struct ib_device *ibdev, u32 port, int index, union ib_gid *gid)
{
	if (generation == 3 && index == 2)
		return -EIO;
	memset(gid, 0, sizeof(*gid));
	if (index == 4)
		return 0;
	gid->raw[0] = 0xfe;
	gid->raw[1] = 0x80;
	gid->raw[7] = index + generation;
	gid->raw[15] = index + 1;
	return 0;
}

static int get_port_immutable(struct ib_device *ibdev, u32 port, struct ib_port_immutable *immutable)
{
	if (is("iwarp")) {
		immutable->core_cap_flags = RDMA_CORE_PORT_IWARP;
		immutable->gid_tbl_len = 1;
		return 0;
	}
	immutable->core_cap_flags = is("ib") ? RDMA_CORE_PORT_IBA_IB & ~RDMA_CORE_CAP_IB_MAD :
				    (RDMA_CORE_PORT_IBA_ROCE | RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP) & ~RDMA_CORE_CAP_IB_MAD;
	immutable->gid_tbl_len = len;
	immutable->pkey_tbl_len = 3;
	return 0;
}

static enum rdma_link_layer get_link_layer(struct ib_device *ibdev, u32 port)
{
	return is("ib") ? IB_LINK_LAYER_INFINIBAND : IB_LINK_LAYER_ETHERNET;
}

static int add_gid(const struct ib_gid_attr *attr, void **context)
{
	u16 vlan = 1;
	u8 mac[ETH_ALEN] = {};
	int ret = rdma_read_gid_l2_fields(attr, &vlan, mac);

	if (xchg(&refuses, false)) {
		pr_info("refused type %u %pI6\n", attr->gid_type, attr->gid.raw);
		return -ENOSPC;
	}
	gids_added++;
	*context = (void *)(unsigned long)(0x1000 + attr->index);
	pr_info("add %u type %u %pI6 l2 %d %u %pM\n", attr->index, attr->gid_type, attr->gid.raw, ret, vlan, mac);
	return 0;
}

static int del_gid(const struct ib_gid_attr *attr, void **context)
{
	gids_deleted++;
	pr_info("del %u type %u %pI6 context %lx\n", attr->index, attr->gid_type, attr->gid.raw, (unsigned long)*context);
	return 0;
}

static const struct ib_device_ops ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = 1,
	.query_device = query_device,
	.query_port = query_port,
	.query_pkey = query_pkey,
	.get_port_immutable = get_port_immutable,
	.get_link_layer = get_link_layer,
};
static const struct ib_device_ops gid_ops = { .add_gid = add_gid, .del_gid = del_gid };
static const struct ib_device_ops query_gid_ops = { .query_gid = query_gid };

static void on_event(struct ib_event_handler *h, struct ib_event *event)
{
	atomic_inc(&events);
	pr_info("event %s port %u\n", ib_event_msg(event->event), event->element.port_num);
	if (event->event == IB_EVENT_GID_CHANGE && xchg(&rescans, false))
		rdma_roce_rescan_device(dev);
}

/* Output */

static void put_found(const char *what, const struct ib_gid_attr *found)
{
	pr_info("  %s %ld\n", what, IS_ERR(found) ? PTR_ERR(found) : found->index);
	if (!IS_ERR(found))
		rdma_put_gid_attr(found);
}

static void tell_gid(const struct ib_gid_attr *attr)
{
	struct net_device *ndev;
	u8 mac[ETH_ALEN] = {};
	u16 vlan = 7;
	int ret;

	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(attr);
	pr_info("gid %d %pI6 type %d dev %s port %u context %lx\n", attr->index, attr->gid.raw, attr->gid_type,
		IS_ERR(ndev) ? "?" : ndev->name, attr->port_num, (unsigned long)rdma_read_gid_hw_context(attr));
	rcu_read_unlock();
	ret = rdma_read_gid_l2_fields(attr, &vlan, mac);
	pr_info("  l2 %d vlan %u mac %pM\n", ret, vlan, mac);
	if (IS_ERR(ndev))
		return;
	put_found("found by port", rdma_find_gid_by_port(dev, &attr->gid, attr->gid_type, 1, ndev));
	put_found("found", rdma_find_gid(dev, &attr->gid, attr->gid_type, NULL));
}

static void tell_gids(void)
{
	static struct ib_uverbs_gid_entry entries[64];
	const struct ib_gid_attr *attr;
	union ib_gid gid;
	ssize_t count, small;
	int i, ret;

	for (i = 0; i < len; i++) {
		attr = rdma_get_gid_attr(dev, 1, i);
		ret = rdma_query_gid(dev, 1, i, &gid);
		if (!IS_ERR(attr)) {
			tell_gid(attr);
			rdma_put_gid_attr(attr);
		} else if (PTR_ERR(attr) != -ENODATA || ret != -ENOENT) {
			pr_info("none at %d: %ld %d\n", i, PTR_ERR(attr), ret);
		}
	}
	memset(entries, 0, sizeof(entries));
	count = rdma_query_gid_table(dev, entries, ARRAY_SIZE(entries));
	small = rdma_query_gid_table(dev, entries + 60, 1);
	pr_info("table %zd, of one entry %zd\n", count, small);
	for (i = 0; i < count; i++)
		pr_info("  entry %u port %u type %u netdev %d\n", entries[i].gid_index, entries[i].port_num, entries[i].gid_type,
			!!entries[i].netdev_ifindex);
	pr_info("added %lu deleted %lu events %d\n", gids_added, gids_deleted, atomic_xchg(&events, 0));
	gids_added = 0;
	gids_deleted = 0;
	pr_info("errors %ld %ld %ld %d\n", PTR_ERR(rdma_get_gid_attr(dev, 2, 0)), PTR_ERR(rdma_get_gid_attr(dev, 1, len)),
		PTR_ERR(rdma_get_gid_attr(dev, 1, -1)), rdma_query_gid(dev, 1, 100, &gid));
}

static void tell_pkeys(void)
{
	static const u16 wanted[] = { 0xffff, 0x7fff, 1, 0x8002, 5 };
	enum ib_port_state state = 0;
	u16 pkey = 0, index = 1;
	u8 lmc = 9;
	int i, ret;

	for (i = -1; i < 4; i++) {
		ret = ib_get_cached_pkey(dev, 1, i, &pkey);
		pr_info("pkey %d: %d %x\n", i, ret, pkey);
	}
	for (i = 0; i < ARRAY_SIZE(wanted); i++) {
		ret = ib_find_cached_pkey(dev, 1, wanted[i], &index);
		pr_info("find pkey %x: %d %u\n", wanted[i], ret, index);
	}
	pr_info("no such port %d %d\n", ib_get_cached_pkey(dev, 3, 0, &pkey), ib_find_cached_pkey(dev, 0, 1, &index));
	ret = ib_get_cached_lmc(dev, 1, &lmc);
	pr_info("lmc %d %u\n", ret, lmc);
	ret = ib_get_cached_port_state(dev, 1, &state);
	pr_info("state %d %d\n", ret, state);
}

static void tell_numbers(void)
{
	struct ib_port_attr attr = {};
	struct ib_port_speed_info speed;
	int i, ret;

	for (i = 0; i < 30; i++)
		pr_info("rate %d %d %d %d\n", i, ib_rate_to_mult(i), ib_rate_to_mbps(i), mult_to_ib_rate(i * 4));
	for (i = 0; i < 25; i++)
		pr_info("text %d %s | %s\n", i, ib_event_msg(i), ib_wc_status_msg(i));
	for (i = 0; i < 9; i++)
		pr_info("transport %d\n", rdma_node_get_transport(i));
	for (i = 0; i < 34; i++) {
		attr.active_speed = i == 33 ? 256 : i;
		attr.active_width = i;
		ret = ib_port_attr_to_speed_info(&attr, &speed);
		pr_info("speed %d %s %d\n", ret, speed.str, speed.rate);
	}
}

static void tell_ah_attrs(void)
{
	struct rdma_ah_attr a = {}, b = {};
	const struct ib_gid_attr *sgid = rdma_get_gid_attr(dev, 1, 0);
	union ib_gid gid = { .raw = { [3] = 4 } };

	if (IS_ERR(sgid))
		return;
	rdma_move_grh_sgid_attr(&a, &gid, 5, 6, 7, sgid);
	rdma_copy_ah_attr(&b, &a);
	rdma_replace_ah_attr(&b, &a);
	pr_info("ah %x %u %u %u %u %d\n", a.ah_flags, a.grh.flow_label, a.grh.sgid_index, a.grh.hop_limit, a.grh.traffic_class,
		b.grh.sgid_attr == a.grh.sgid_attr);
	rdma_destroy_ah_attr(&a);
	rdma_move_ah_attr(&a, &b);
	pr_info("ah moved %d %d %u\n", !!a.grh.sgid_attr, !!b.grh.sgid_attr, b.grh.sgid_index);
	rdma_destroy_ah_attr(&a);
	rdma_destroy_ah_attr(&a);
}

static void tell_headers(void)
{
	static union rdma_network_hdr header;
	u8 *bytes = (u8 *)&header;
	union ib_gid source = {}, destination = {};
	int i, version, ret;

	for (i = 0; i < 40; i++)
		bytes[i] = i * 7;
	bytes[0] = 0x60;
	for (i = 0; i < 16; i++) {
		bytes[20] = i * 0x11;
		version = ib_get_rdma_header_version(&header);
		ret = ib_get_gids_from_rdma_hdr(&header, i, &source, &destination);
		pr_info("header %d %d %pI6 %pI6\n", version, ret, source.raw, destination.raw);
	}
	bytes[20] = 0x45;
	header.roce4grh.check = 0;
	header.roce4grh.check = ip_fast_csum((u8 *)&header.roce4grh, 5);
	pr_info("IPv4 header %d\n", ib_get_rdma_header_version(&header));
	header.roce4grh.check ^= 1;
	pr_info("wrong checksum %d\n", ib_get_rdma_header_version(&header));
	bytes[0] = 0x10;
	pr_info("neither %d\n", ib_get_rdma_header_version(&header));
}

static void tell_own_gids(void)
{
	struct ib_port_attr attr = {};
	union ib_gid gid;
	u16 index = 0, pkey;
	u32 port = 0;
	int i, ret;

	for (i = 0; i < (is("iwarp") ? 1 : 5); i++) {
		query_gid(dev, 1, i, &gid);
		ret = ib_find_gid(dev, &gid, &port, &index);
		pr_info("ib_find_gid %d %u %u\n", ret, port, index);
	}
	ret = ib_query_port(dev, 1, &attr);
	pr_info("subnet prefix %d %llx\n", ret, attr.subnet_prefix);
	for (i = 0; i < 3; i++) {
		ret = ib_get_cached_pkey(dev, 1, i, &pkey);
		pr_info("pkey %d %x\n", ret, ret ? 0 : pkey);
	}
}

/* Addresses */

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage storage;
};

struct answer {
	struct completion done;
	union address source;
	int status;
};

static void resolved(int status, struct sockaddr *source, struct rdma_dev_addr *addr, void *context)
{
	struct answer *answer = context;

	answer->status = status;
	memcpy(&answer->source, source, rdma_addr_size(source));
	complete(&answer->done);
}

static void read_address(const char *text, union address *address)
{
	memset(address, 0, sizeof(*address));
	if (in4_pton(text, -1, (u8 *)&address->v4.sin_addr, -1, NULL)) {
		address->any.sa_family = AF_INET;
		return;
	}
	address->any.sa_family = AF_INET6;
	in6_pton(text, -1, (u8 *)&address->v6.sin6_addr, -1, NULL);
}

static void resolve(const char *text, int gid)
{
	struct rdma_dev_addr addr = { .net = &init_net };
	union address source = {}, destination;
	struct answer answer;
	int ret;

	read_address(text, &destination);
	source.any.sa_family = destination.any.sa_family;
	init_completion(&answer.done);
	if (gid >= 0) {
		addr.sgid_attr = rdma_get_gid_attr(dev, 1, gid);
		if (IS_ERR(addr.sgid_attr)) {
			pr_info("resolve %s: no GID\n", text);
			return;
		}
	}
	ret = rdma_resolve_ip(gid >= 0 ? NULL : &source.any, &destination.any, &addr, 600, resolved, gid >= 0, &answer);
	if (ret) {
		pr_info("resolve %s: %d net %d bound %d\n", text, ret, addr.net == &init_net, addr.bound_dev_if);
	} else {
		wait_for_completion(&answer.done);
		pr_info("resolve %s: status %d source %pIS dmac %*ph smac %*ph type %u hops %d network %d bound %d\n", text,
			answer.status, &answer.source, 6, addr.dst_dev_addr, 6, addr.src_dev_addr, addr.dev_type, addr.hoplimit,
			addr.network, !!addr.bound_dev_if);
	}
	if (gid >= 0)
		rdma_put_gid_attr(addr.sgid_attr);
	addr.bound_dev_if = 0;
	ret = rdma_translate_ip(&destination.any, &addr);
	pr_info("  translate %d %*ph size %d\n", ret, 6, addr.src_dev_addr, rdma_addr_size(&destination.any));
}

static void cancel(const char *text)
{
	struct rdma_dev_addr addr = { .net = &init_net };
	union address destination;
	struct answer answer;
	bool before;
	int ret;

	read_address(text, &destination);
	init_completion(&answer.done);
	ret = rdma_resolve_ip(NULL, &destination.any, &addr, 5000, resolved, false, &answer);
	rdma_addr_cancel(&addr);
	rdma_addr_cancel(&addr);
	/* The answer may have been quicker; after the call there is none. */
	before = completion_done(&answer.done);
	msleep(50);
	pr_info("cancel %d, answered after it %d\n", ret, completion_done(&answer.done) != before);
}

/* Commands */

static void hold(int index)
{
	held[index] = rdma_get_gid_attr(dev, 1, index);
	pr_info("hold %d: %d\n", index, IS_ERR(held[index]));
	if (IS_ERR(held[index])) {
		held[index] = NULL;
		return;
	}
	rdma_hold_gid_attr(held[index]);
	rdma_put_gid_attr(held[index]);
}

static void put(int index)
{
	struct net_device *ndev;

	if (!held[index])
		return;
	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(held[index]);
	pr_info("put %d: netdev %ld l2 %d\n", index, IS_ERR(ndev) ? PTR_ERR(ndev) : 1,
		rdma_read_gid_l2_fields(held[index], NULL, NULL));
	rcu_read_unlock();
	rdma_put_gid_attr(held[index]);
	held[index] = NULL;
	msleep(50);
}

static void dispatch(int kind)
{
	struct ib_event event = { .device = dev, .event = kind, .element.port_num = 1 };

	generation++;
	ib_dispatch_event(&event);
}

static int run(const char *value, const struct kernel_param *param)
{
	char text[64];
	int n;

	if (!ready)
		return -EAGAIN;
	if (!strncmp(value, "say ", 4))
		pr_info("%s", value + 4);
	else if (sscanf(value, "hold %d", &n) == 1 && n >= 0 && n < HELD)
		hold(n);
	else if (sscanf(value, "put %d", &n) == 1 && n >= 0 && n < HELD)
		put(n);
	else if (sscanf(value, "event %d", &n) == 1)
		dispatch(n);
	else if (sscanf(value, "resolve %63s %d", text, &n) == 2)
		resolve(text, n);
	else if (sscanf(value, "cancel %63s", text) == 1)
		cancel(text);
	else if (sysfs_streq(value, "gids"))
		tell_gids();
	else if (sysfs_streq(value, "own"))
		tell_own_gids();
	else if (sysfs_streq(value, "pkeys"))
		tell_pkeys();
	else if (sysfs_streq(value, "numbers"))
		tell_numbers();
	else if (sysfs_streq(value, "vectors"))
		tell_ah_attrs();
	else if (sysfs_streq(value, "headers"))
		tell_headers();
	else if (sysfs_streq(value, "refuse"))
		refuses = rescans = true;
	else if (sysfs_streq(value, "rescan")) {
		rdma_roce_rescan_device(dev);
		rdma_roce_rescan_port(dev, 1);
	} else
		return -EINVAL;
	return 0;
}

static const struct kernel_param_ops run_ops = { .set = run };
module_param_cb(cmd, &run_ops, NULL, 0200);

static void set_ready(bool value)
{
	kernel_param_lock(THIS_MODULE);
	ready = value;
	kernel_param_unlock(THIS_MODULE);
}

static int __init gid_device_init(void)
{
	int ret = -ENOMEM;

	port_netdev = dev_get_by_name(&init_net, netdev);
	if (!port_netdev)
		return -ENODEV;
	dev = _ib_alloc_device(sizeof(*dev), &init_net);
	if (!dev)
		goto put_netdev;
	dev->node_type = is("iwarp") ? RDMA_NODE_RNIC : RDMA_NODE_IB_CA;
	dev->phys_port_cnt = 1;
	dev->num_comp_vectors = 1;
	strscpy(dev->node_desc, "gids", sizeof(dev->node_desc));
	addrconf_addr_eui48((u8 *)&dev->node_guid, port_netdev->dev_addr);
	ib_set_device_ops(dev, &ops);
	if (!is("roce"))
		ib_set_device_ops(dev, &query_gid_ops);
	else if (gidops)
		ib_set_device_ops(dev, &gid_ops);
	ret = ib_device_set_netdev(dev, port_netdev, 1);
	if (!ret)
		ret = ib_register_device(dev, "gids%d", NULL);
	if (ret)
		goto dealloc;
	INIT_IB_EVENT_HANDLER(&handler, dev, on_event);
	ib_register_event_handler(&handler);
	set_ready(true);
	return 0;

dealloc:
	ib_dealloc_device(dev);
put_netdev:
	dev_put(port_netdev);
	return ret;
}

static void __exit gid_device_exit(void)
{
	int i;

	set_ready(false);
	for (i = 0; i < HELD; i++)
		if (held[i])
			rdma_put_gid_attr(held[i]);
	ib_unregister_event_handler(&handler);
	ib_unregister_device(dev);
	pr_info("added %lu deleted %lu since\n", gids_added, gids_deleted);
	ib_dealloc_device(dev);
	dev_put(port_netdev);
}

module_init(gid_device_init);
module_exit(gid_device_exit);
MODULE_DESCRIPTION("Tells what the RDMA core knows of GIDs");
MODULE_LICENSE("GPL");
