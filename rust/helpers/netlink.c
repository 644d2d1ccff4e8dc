// SPDX-License-Identifier: GPL-2.0
#include <linux/module.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <net/netlink.h>
#include <net/sock.h>
#include <rdma/restrack.h>

__rust_helper void rust_helper_init_rwsem(struct rw_semaphore *sem)
{
	init_rwsem(sem);
}

/* A socket of the kernel, which everybody may send to. */
__rust_helper struct sock *rust_helper_netlink_kernel_open(struct net *net, int unit, unsigned long sndtimeo,
							   void (*input)(struct sk_buff *skb))
{
	struct netlink_kernel_cfg cfg = {
		.input = input,
		.flags = NL_CFG_F_NONROOT_RECV,
	};
	struct sock *sk = netlink_kernel_create(net, unit, &cfg);

	if (sk)
		sk->sk_sndtimeo = sndtimeo;
	return sk;
}

__rust_helper int rust_helper_netlink_dump(struct sk_buff *skb, const struct nlmsghdr *nlh,
					   int (*dump)(struct sk_buff *skb, struct netlink_callback *cb))
{
	struct netlink_dump_control control = { .dump = dump };

	return netlink_dump_start(skb->sk, skb, nlh, &control);
}

__rust_helper struct net *rust_helper_netlink_skb_net(const struct sk_buff *skb)
{
	return sock_net(skb->sk);
}

__rust_helper u32 rust_helper_netlink_portid(struct sk_buff *skb)
{
	return NETLINK_CB(skb).portid;
}

__rust_helper bool rust_helper_netlink_may_admin_net(struct sk_buff *skb, struct net *net)
{
	return netlink_ns_capable(skb, net->user_ns, CAP_NET_ADMIN);
}

__rust_helper struct sk_buff *rust_helper_nlmsg_new_default(gfp_t flags)
{
	return nlmsg_new(NLMSG_DEFAULT_SIZE, flags);
}

__rust_helper void rust_helper_nlmsg_free(struct sk_buff *skb)
{
	nlmsg_free(skb);
}

__rust_helper struct nlmsghdr *rust_helper_nlmsg_put(struct sk_buff *skb, u32 portid, u32 seq, int type,
						     int payload, int flags)
{
	return nlmsg_put(skb, portid, seq, type, payload, flags);
}

__rust_helper void rust_helper_nlmsg_end(struct sk_buff *skb, struct nlmsghdr *nlh)
{
	nlmsg_end(skb, nlh);
}

__rust_helper void rust_helper_nlmsg_cancel(struct sk_buff *skb, struct nlmsghdr *nlh)
{
	nlmsg_cancel(skb, nlh);
}

__rust_helper void *rust_helper_nlmsg_append(struct sk_buff *skb, u32 len)
{
	return nlmsg_append(skb, len);
}

__rust_helper int rust_helper_nlmsg_parse_attrs(const struct nlmsghdr *nlh, struct nlattr **table, int max,
						const struct nla_policy *policy, bool strict,
						struct netlink_ext_ack *extack)
{
	return __nlmsg_parse(nlh, 0, table, max, policy, strict ? NL_VALIDATE_STRICT : NL_VALIDATE_LIBERAL,
			     extack);
}

__rust_helper int rust_helper_nla_parse_nested_attrs(const struct nlattr *attr, struct nlattr **table, int max,
						     const struct nla_policy *policy,
						     struct netlink_ext_ack *extack)
{
	return nla_parse_nested(table, max, attr, policy, extack);
}

__rust_helper int rust_helper_nlmsg_multicast(struct sock *sk, struct sk_buff *skb, u32 portid,
					      unsigned int group, gfp_t flags)
{
	return nlmsg_multicast(sk, skb, portid, group, flags);
}

__rust_helper struct nlattr *rust_helper_nla_nest_start_flagged(struct sk_buff *skb, int type, bool flag)
{
	return flag ? nla_nest_start(skb, type) : nla_nest_start_noflag(skb, type);
}

__rust_helper void rust_helper_nla_nest_end(struct sk_buff *skb, struct nlattr *start)
{
	nla_nest_end(skb, start);
}

__rust_helper void rust_helper_nla_nest_cancel(struct sk_buff *skb, struct nlattr *start)
{
	nla_nest_cancel(skb, start);
}

__rust_helper void rust_helper_restrack_begin(struct rdma_restrack_entry *entry)
{
	kref_init(&entry->kref);
	init_completion(&entry->comp);
}

__rust_helper void rust_helper_restrack_again(struct rdma_restrack_entry *entry)
{
	reinit_completion(&entry->comp);
	kref_init(&entry->kref);
}

__rust_helper bool rust_helper_restrack_get(struct rdma_restrack_entry *entry)
{
	return kref_get_unless_zero(&entry->kref);
}

/* Whether that was the last reference. */
__rust_helper bool rust_helper_restrack_put(struct rdma_restrack_entry *entry)
{
	return refcount_dec_and_test(&entry->kref.refcount);
}

/* The number of a process for the present one; 0 for one that has ended. */
__rust_helper u32 rust_helper_restrack_pid(const struct rdma_restrack_entry *entry)
{
	return entry->task ? task_pid_vnr(entry->task) : 0;
}
