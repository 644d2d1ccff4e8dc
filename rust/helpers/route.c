// SPDX-License-Identifier: GPL-2.0

/* Routes of UDP packets: a dst with a reference, or an ERR_PTR. */

__rust_helper struct dst_entry *
rust_helper_udp_route4(struct net *net, int oif, __be32 saddr, __be32 daddr, u8 tos,
		       __be16 sport, __be16 dport)
{
	struct flowi4 fl4 = {
		.flowi4_oif = oif,
		.flowi4_dscp = inet_dsfield_to_dscp(tos),
		.flowi4_proto = IPPROTO_UDP,
		.saddr = saddr,
		.daddr = daddr,
		.fl4_sport = sport,
		.fl4_dport = dport,
	};
	struct rtable *rt = ip_route_output_flow(net, &fl4, NULL);

	return IS_ERR(rt) ? ERR_CAST(rt) : &rt->dst;
}

__rust_helper struct dst_entry *
rust_helper_udp_route6(struct net *net, int oif, const struct in6_addr *saddr,
		       const struct in6_addr *daddr, u8 tclass, __be16 sport, __be16 dport)
{
	struct flowi6 fl6 = {
		.flowi6_oif = oif,
		.flowi6_proto = IPPROTO_UDP,
		.flowlabel = ip6_make_flowinfo(tclass, 0),
		.saddr = *saddr,
		.daddr = *daddr,
		.fl6_sport = sport,
		.fl6_dport = dport,
	};
	struct dst_entry *dst = ip6_dst_lookup_flow(net, NULL, &fl6, NULL);
	int err;

	/* IPv6 has routes that say that there is none. */
	if (IS_ERR(dst) || !dst->error)
		return dst;
	err = dst->error;
	dst_release(dst);
	return ERR_PTR(err);
}

__rust_helper u32 rust_helper_route6_cookie(struct dst_entry *dst)
{
	return rt6_get_cookie(dst_rt6_info(dst));
}

__rust_helper struct dst_entry *rust_helper_dst_check(struct dst_entry *dst, u32 cookie)
{
	return dst_check(dst, cookie);
}

__rust_helper void rust_helper_dst_hold(struct dst_entry *dst)
{
	dst_hold(dst);
}

__rust_helper u32 rust_helper_rt_tos2priority(u8 tos)
{
	return rt_tos2priority(tos);
}

__rust_helper u32 rust_helper_dst_mtu(const struct dst_entry *dst)
{
	return dst_mtu(dst);
}

__rust_helper struct net_device *rust_helper_dst_dev_rcu(const struct dst_entry *dst)
{
	return dst_dev_rcu(dst);
}

/*
 * Sends a packet that begins with its IP header, on the route whose reference is handed over: one call for all of it,
 * since it is made for every packet. The control block is the IP layer's from here on, and must be clear.
 */
static void rust_net_prepare(struct sk_buff *skb, struct dst_entry *dst, __be16 protocol,
			     unsigned int header)
{
	BUILD_BUG_ON(sizeof(struct inet_skb_parm) > sizeof(skb->cb));
	BUILD_BUG_ON(sizeof(struct inet6_skb_parm) > sizeof(skb->cb));
	memset(skb->cb, 0, sizeof(skb->cb));
	skb_dst_drop(skb);
	skb_dst_set(skb, dst);
	skb->protocol = protocol;
	skb_reset_network_header(skb);
	skb_set_transport_header(skb, header);
}

__rust_helper int rust_helper_ip4_send(struct sk_buff *skb, struct dst_entry *dst)
{
	int ret;

	rust_net_prepare(skb, dst, htons(ETH_P_IP), sizeof(struct iphdr));
	rcu_read_lock();
	ret = ip_local_out(dst_dev_net_rcu(dst), skb->sk, skb);
	rcu_read_unlock();
	return ret;
}

__rust_helper int rust_helper_ip6_send(struct sk_buff *skb, struct dst_entry *dst)
{
	int ret;

	rust_net_prepare(skb, dst, htons(ETH_P_IPV6), sizeof(struct ipv6hdr));
	rcu_read_lock();
	ret = ip6_local_out(dst_dev_net_rcu(dst), skb->sk, skb);
	rcu_read_unlock();
	return ret;
}
