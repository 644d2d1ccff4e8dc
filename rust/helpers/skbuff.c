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

/* The first word of the control buffer, which the owner of the packet may use. */
__rust_helper void rust_helper_skb_set_cb_word(struct sk_buff *skb, u32 word)
{
	*(u32 *)skb->cb = word;
}

__rust_helper u32 rust_helper_skb_cb_word(const struct sk_buff *skb)
{
	return *(const u32 *)skb->cb;
}

/*
 * The bytes behind an offset in the page fragments of a packet, of which at least one is there; how many of them lie in one
 * fragment. NULL if they are not the processor's, or do not lie in fragments.
 */
__rust_helper const void *rust_helper_skb_in_frags(const struct sk_buff *skb, size_t offset, size_t *count)
{
	const struct skb_shared_info *shared = skb_shinfo(skb);
	const skb_frag_t *frag;

	for (frag = shared->frags; frag != shared->frags + shared->nr_frags; frag++) {
		const void *start;

		if (offset >= skb_frag_size(frag)) {
			offset -= skb_frag_size(frag);
			continue;
		}
		*count = skb_frag_size(frag) - offset;
		start = skb_frag_address(frag);
		return start ? start + offset : NULL;
	}
	return NULL;
}

/* The private value of such pages is its address. Nobody else uses that; the allocator clears the value when pages are freed. */
static const char packet_pages_mark;

/* Pages for the data of packets; NULL if memory is short. They are no reserves, which would mark packets. */
__rust_helper void *rust_helper_packet_pages_alloc(unsigned int order, gfp_t gfp)
{
	struct page *page;

	gfp = (gfp & ~__GFP_DIRECT_RECLAIM) | __GFP_COMP | __GFP_NOWARN | __GFP_NOMEMALLOC;
	page = alloc_pages(gfp, order);
	if (!page)
		return NULL;
	set_page_private(page, (unsigned long)&packet_pages_mark);
	return page_address(page);
}

/* Whether nobody but the caller refers to such pages. If so, what others read of them was read before. */
__rust_helper bool rust_helper_packet_pages_unused(const void *pages)
{
	if (page_ref_count(virt_to_page(pages)) != 1)
		return false;
	smp_acquire__after_ctrl_dep();
	return true;
}

__rust_helper void rust_helper_packet_pages_put(const void *pages)
{
	put_page(virt_to_page(pages));
}

/* Whether all bytes of a packet lie in such pages, and its checksum is not calculated yet: it has never left this machine. */
__rust_helper bool rust_helper_skb_in_packet_pages(const struct sk_buff *skb)
{
	const struct skb_shared_info *shared = skb_shinfo(skb);
	const skb_frag_t *frag;

	if (skb->ip_summed != CHECKSUM_PARTIAL || skb_headlen(skb) || shared->frag_list)
		return false;
	for (frag = shared->frags; frag != shared->frags + shared->nr_frags; frag++) {
		struct page *page = skb_frag_page(frag);

		if (!page || page_private(compound_head(page)) != (unsigned long)&packet_pages_mark)
			return false;
	}
	return true;
}

/* Adds bytes of such pages to a packet, as a fragment of which nothing is used yet; false if it has as many as it may have. */
__rust_helper bool rust_helper_skb_add_frag(struct sk_buff *skb, const void *pages, size_t offset, unsigned int size)
{
	unsigned int count = skb_shinfo(skb)->nr_frags;

	if (count >= MAX_SKB_FRAGS)
		return false;
	get_page(virt_to_page(pages));
	skb_fill_page_desc(skb, count, virt_to_page(pages), offset, 0);
	skb->truesize += size;
	return true;
}

/* Appends the next bytes of the last fragment to a packet. */
__rust_helper void rust_helper_skb_extend_frag(struct sk_buff *skb, unsigned int len)
{
	struct skb_shared_info *shared = skb_shinfo(skb);

	skb_frag_size_add(&shared->frags[shared->nr_frags - 1], len);
	skb->len += len;
	skb->data_len += len;
}

/* Drops the last fragment of a packet, of which nothing is used. */
__rust_helper void rust_helper_skb_drop_empty_frag(struct sk_buff *skb)
{
	struct skb_shared_info *shared = skb_shinfo(skb);

	skb_frag_unref(skb, --shared->nr_frags);
}

/*
 * Makes datagrams with so many bytes of payload each of a UDP packet whose headers are set: whoever sends it cuts it, or hands it
 * over whole.
 */
__rust_helper void rust_helper_skb_segment_udp(struct sk_buff *skb, u16 size, u16 count)
{
	unsigned int len = skb->len - skb_transport_offset(skb);
	struct skb_shared_info *shared = skb_shinfo(skb);

	udp_hdr(skb)->check = ip_hdr(skb)->version == 6 ?
		~udp_v6_check(len, &ipv6_hdr(skb)->saddr, &ipv6_hdr(skb)->daddr, 0) :
		~udp_v4_check(len, ip_hdr(skb)->saddr, ip_hdr(skb)->daddr, 0);
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
	shared->gso_type = SKB_GSO_UDP_L4;
	shared->gso_size = size;
	shared->gso_segs = count;
}

/* The length of the datagrams that a UDP packet for this host consists of, if its checksum is known to be right; else 0. */
__rust_helper u16 rust_helper_skb_udp_segment_size(const struct sk_buff *skb)
{
	const struct skb_shared_info *shared = skb_shinfo(skb);

	if (!skb_is_gso(skb) || skb->encapsulation || skb->pkt_type != PACKET_HOST || !skb_csum_unnecessary(skb))
		return 0;
	if (!(shared->gso_type & SKB_GSO_UDP_L4) || shared->gso_type & SKB_GSO_FRAGLIST)
		return 0;
	return shared->gso_size;
}

/*
 * Marks datagrams in one packet as those of a tunnel: a socket with a callback gets the packet whole, or, if memory is short, its
 * datagrams one by one.
 */
__rust_helper void rust_helper_skb_keep_segments(struct sk_buff *skb)
{
	if (!skb_unclone(skb, GFP_ATOMIC))
		skb_shinfo(skb)->gso_type |= SKB_GSO_UDP_TUNNEL;
}
