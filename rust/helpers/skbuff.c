// SPDX-License-Identifier: GPL-2.0

__rust_helper struct sk_buff *rust_helper_alloc_skb(unsigned int size, gfp_t gfp)
{
	return alloc_skb(size, gfp);
}

__rust_helper bool rust_helper_skb_cloned(const struct sk_buff *skb)
{
	return skb_cloned(skb);
}

__rust_helper bool rust_helper_skb_zcopy(struct sk_buff *skb)
{
	return skb_zcopy(skb);
}

__rust_helper void rust_helper_skb_orphan(struct sk_buff *skb)
{
	skb_orphan(skb);
}

__rust_helper struct skb_shared_info *rust_helper_skb_shinfo(const struct sk_buff *skb)
{
	return skb_shinfo(skb);
}

__rust_helper bool rust_helper_pskb_may_pull(struct sk_buff *skb, unsigned int len)
{
	return pskb_may_pull(skb, len);
}

__rust_helper int rust_helper_pskb_trim(struct sk_buff *skb, unsigned int len)
{
	return pskb_trim(skb, len);
}

__rust_helper void rust_helper_skb_dst_drop(struct sk_buff *skb)
{
	skb_dst_drop(skb);
}

__rust_helper void rust_helper_skb_reset_network_header(struct sk_buff *skb)
{
	skb_reset_network_header(skb);
}

__rust_helper void rust_helper_skb_reset_transport_header(struct sk_buff *skb)
{
	skb_reset_transport_header(skb);
}

__rust_helper int rust_helper_skb_network_offset(const struct sk_buff *skb)
{
	return skb_network_offset(skb);
}

__rust_helper int rust_helper_skb_transport_offset(const struct sk_buff *skb)
{
	return skb_transport_offset(skb);
}

__rust_helper void rust_helper_skb_set_priority(struct sk_buff *skb, u32 priority)
{
	skb->priority = priority;
}

__rust_helper void rust_helper_skb_set_mark(struct sk_buff *skb, u32 mark)
{
	skb->mark = mark;
}

__rust_helper __be16 rust_helper_skb_protocol(const struct sk_buff *skb)
{
	return skb->protocol;
}

/* Where an Ethernet packet came from; false if it came without a header of the link. */
__rust_helper bool rust_helper_skb_ethernet_source(const struct sk_buff *skb, u8 (*source)[ETH_ALEN])
{
	if (!skb_mac_header_was_set(skb) || skb_mac_header_len(skb) < ETH_HLEN)
		return false;
	memcpy(source, eth_hdr(skb)->h_source, ETH_ALEN);
	return true;
}

/* A word of whoever has the packet at the time. */
__rust_helper void rust_helper_skb_set_note(struct sk_buff *skb, u32 note)
{
	*(u32 *)skb->cb = note;
}

__rust_helper u32 rust_helper_skb_note(const struct sk_buff *skb)
{
	return *(const u32 *)skb->cb;
}
