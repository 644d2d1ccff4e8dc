// SPDX-License-Identifier: GPL-2.0
/* Agents and transfers of the tests of RMPP, and their segments on the wire. */
#include "rmpp_packets.h"

int rmpp_open(struct mt_agent *agent, u32 port, u32 flags)
{
	struct mt_request wanted = { .port = port, .type = IB_QPT_GSI, .class = MT_OUI_CLASS, .version = 1, .oui = RMPP_OUI,
				     .rmpp = 1, .methods = MT_METHODS(IB_MGMT_METHOD_SEND, IB_MGMT_METHOD_SET), .flags = flags };

	return mt_open(agent, &wanted);
}

struct ib_mad_send_buf *rmpp_send(struct mt_agent *agent, u16 lid, u8 method, u32 length, u32 seed, unsigned int timeout_ms,
				  int retries)
{
	static atomic_t last;
	struct ib_mad_send_buf *send;
	struct ib_vendor_mad *mad;
	u32 place;

	send = ib_create_send_mad(agent->agent, 1, 0, 1, IB_MGMT_VENDOR_HDR, length, GFP_KERNEL, IB_MGMT_BASE_VERSION);
	if (WARN_ON(IS_ERR(send)))
		return NULL;
	mad = send->mad;
	mad->mad_hdr.base_version = IB_MGMT_BASE_VERSION;
	mad->mad_hdr.mgmt_class = MT_OUI_CLASS;
	mad->mad_hdr.class_version = 1;
	mad->mad_hdr.method = method;
	mad->mad_hdr.tid = cpu_to_be64((u64)agent->agent->hi_tid << 32 | 0x10000 | atomic_inc_return(&last));
	put_unaligned_be24(RMPP_OUI, mad->oui);
	for (place = 0; place < length; place++)
		((u8 *)ib_get_rmpp_segment(send, 1 + place / RMPP_SEGMENT))[place % RMPP_SEGMENT] = rmpp_byte(seed, place);
	send->ah = mt_ah(agent->agent, lid);
	send->timeout_ms = timeout_ms;
	send->retries = retries;
	return send;
}

bool rmpp_is(struct mt_event *event, u32 length, u32 seed)
{
	struct ib_mad_recv_buf *buffer;
	u32 place = 0, nth = 0;

	if (!event || event->length != IB_MGMT_VENDOR_HDR + length)
		return false;
	list_for_each_entry(buffer, &event->mad->rmpp_list, list) {
		const struct ib_vendor_mad *mad = (const struct ib_vendor_mad *)buffer->mad;
		u32 end = min(length, place + RMPP_SEGMENT);

		if (be32_to_cpu(mad->rmpp_hdr.seg_num) != ++nth)
			return false;
		for (; place < end; place++)
			if (mad->data[place % RMPP_SEGMENT] != rmpp_byte(seed, place))
				return false;
	}
	return place == length && nth == max(DIV_ROUND_UP(length, RMPP_SEGMENT), 1);
}

void rmpp_make(struct fake_ib_packet *packet, u64 tid, u8 method, u8 type, u8 flags, u32 segment, u32 length)
{
	u32 place;

	mt_make(packet, 1, 1, MT_OUI_CLASS, 1, method, tid);
	fake_ib_hdr(packet)->attr_id = 0;
	put_unaligned_be24(RMPP_OUI, packet->mad + 37);
	*rmpp(packet) = (struct rmpp_header){ 1, type, flags, 0, cpu_to_be32(segment), cpu_to_be32(length) };
	for (place = 0; type == DATA && place < RMPP_SEGMENT; place++)
		packet->mad[40 + place] = rmpp_byte(0, (segment - 1) * RMPP_SEGMENT + place);
}

void rmpp_deliver(u64 tid, u8 method, u8 type, u8 flags, u32 segment, u32 length)
{
	struct fake_ib_packet *packet = kmalloc_obj(*packet);

	if (!packet)
		return;
	rmpp_make(packet, tid, method, type, flags, segment, length);
	fake_ib_deliver(packet);
	kfree(packet);
}

struct fake_ib_packet *rmpp_sent(u8 type, int nth)
{
	struct fake_ib_packet *sent;
	int this;

	for (this = 0; (sent = mt_wire_packet(1, 0, this)); this++)
		if (fake_ib_hdr(sent)->mgmt_class == MT_OUI_CLASS && (rmpp(sent)->flags & ACTIVE) && rmpp(sent)->type == type &&
		    !nth--)
			return sent;
	return NULL;
}

int rmpp_count(u8 type)
{
	int count = 0;

	while (rmpp_sent(type, count))
		count++;
	return count;
}

bool rmpp_wait(u8 type, int count, unsigned int ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(ms * mt_slowness);

	while (!rmpp_sent(type, count - 1)) {
		if (time_after(jiffies, end))
			return false;
		usleep_range(500, 1000);
	}
	return true;
}
