// SPDX-License-Identifier: GPL-2.0
/*
 * The subnet administrator, at the LID of the subnet manager: ClassPortInfo, paths between the ports, multicast groups, and
 * as many service records as it was told to have, in segments (RMPP) where they do not fit. It reads and writes bytes by their
 * place in the specification's tables: it shares no code with what it judges.
 */
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include "fake_ib.h"

#define NO_RESOURCES 0x0100
#define REQUEST_INVALID 0x0200
#define NO_RECORDS 0x0300

#define GROUPS 16
#define MEMBER_SIZE 52
#define PATH_SIZE 64
#define SERVICE_SIZE 176
#define SEGMENT_SIZE 200		/* of data, behind the header of subnet administration */

/* Attributes and methods */
#define CLASS_PORT_INFO 0x01
#define SERVICE_RECORD 0x31
#define PATH_RECORD 0x35
#define MEMBER_RECORD 0x38
#define GUID_INFO_RECORD 0x30
#define GET 0x01
#define SET 0x02
#define GET_TABLE 0x12
#define DELETE 0x15

/* Places in a MAD */
#define RMPP 24
#define SA_HEADER 36
#define ATTRIBUTE_OFFSET 44
#define COMPONENT_MASK 48
#define DATA 56

struct group {
	bool used;
	u8 record[MEMBER_SIZE];
	u8 joined[FAKE_IB_PORTS + 1];	/* states, by port */
};

/* A table that is being sent. */
static struct transfer {
	struct fake_ib_packet packet;	/* the first segment */
	u8 *data;
	u32 length, segments, sent;
} transfer;

static struct group groups[GROUPS];
static u32 next_mgid;
static u32 services;
static u16 ordered_status;
static DEFINE_MUTEX(lock);

void fake_ib_sa_status(u16 status)
{
	mutex_lock(&lock);
	ordered_status = status;
	mutex_unlock(&lock);
}
EXPORT_SYMBOL_GPL(fake_ib_sa_status);

void fake_ib_sa_services(u32 count)
{
	mutex_lock(&lock);
	services = count;
	mutex_unlock(&lock);
}
EXPORT_SYMBOL_GPL(fake_ib_sa_services);

void fake_ib_sa_service(u32 nth, u8 *record)
{
	u32 byte;

	memset(record, 0, SERVICE_SIZE);
	put_unaligned_be64(0x1000 + nth, record);
	memcpy(record + 8, fake_ib_ports[1].gids[0].raw, 16);
	put_unaligned_be16(0xffff, record + 24);
	put_unaligned_be32(0x100 + nth, record + 28);
	snprintf(record + 48, 64, "service %u", nth);
	for (byte = 112; byte < SERVICE_SIZE; byte++)
		record[byte] = byte + nth;
}
EXPORT_SYMBOL_GPL(fake_ib_sa_service);

static void reply(struct fake_ib_packet *packet, u16 status)
{
	struct ib_mad_hdr *header = fake_ib_hdr(packet);

	header->method = header->method == SET ? IB_MGMT_METHOD_GET_RESP : header->method | IB_MGMT_METHOD_RESP;
	header->status = cpu_to_be16(status);
	fake_ib_send(packet);
}

/* Paths */

static u32 port_of_gid(const u8 *gid)
{
	u32 port, index;

	for (port = 1; port <= FAKE_IB_PORTS; port++)
		for (index = 0; index < FAKE_IB_GIDS; index++)
			if (!memcmp(gid, fake_ib_ports[port].gids[index].raw, 16))
				return port;
	return 0;
}

static u16 answer_path(u8 *record)
{
	u32 to = port_of_gid(record + 8), from = port_of_gid(record + 24);

	if (!to || !from)
		return NO_RECORDS;
	put_unaligned_be16(fake_ib_ports[to].lid, record + 40);
	put_unaligned_be16(fake_ib_ports[from].lid, record + 42);
	record[49] = 0x81;			/* reversible, one path */
	if (!get_unaligned_be16(record + 50))
		put_unaligned_be16(0xffff, record + 50);
	record[54] = 2 << 6 | IB_MTU_2048;
	record[55] = 2 << 6 | IB_RATE_100_GBPS;
	record[56] = 2 << 6 | 14;
	return 0;
}

/* Groups */

static struct group *find_group(const u8 *mgid)
{
	struct group *group;

	for (group = groups; group < groups + GROUPS; group++)
		if (group->used && !memcmp(group->record, mgid, 16))
			return group;
	return NULL;
}

static struct group *make_group(const u8 *wanted)
{
	static const u8 zero[16];
	struct group *group;

	for (group = groups; group < groups + GROUPS && group->used; group++)
		;
	if (group == groups + GROUPS)
		return NULL;
	memset(group, 0, sizeof(*group));
	group->used = true;
	memcpy(group->record, wanted, MEMBER_SIZE);
	if (!memcmp(wanted, zero, 16)) {
		group->record[0] = 0xff;
		group->record[1] = 0x12;
		group->record[2] = 0xa0;
		group->record[3] = 0x1b;
		put_unaligned_be32(++next_mgid, group->record + 12);
	}
	if (!get_unaligned_be16(wanted + 36))
		put_unaligned_be16(0xc000 + (group - groups), group->record + 36);
	if (!(wanted[38] & 0x3f))
		group->record[38] = IB_MTU_2048;
	if (!(wanted[42] & 0x3f))
		group->record[42] = IB_RATE_100_GBPS;
	if (!(wanted[43] & 0x3f))
		group->record[43] = 14;
	/* What the answer tells is exact. */
	group->record[38] = 2 << 6 | (group->record[38] & 0x3f);
	group->record[42] = 2 << 6 | (group->record[42] & 0x3f);
	group->record[43] = 2 << 6 | (group->record[43] & 0x3f);
	return group;
}

static void tell_member(struct group *group, const u8 *port_gid, u8 joined, u8 *record)
{
	u8 gid[16];

	memcpy(gid, port_gid, 16);
	memcpy(record, group->record, MEMBER_SIZE);
	memcpy(record + 16, gid, 16);
	record[48] = (record[48] & 0xf0) | joined;
}

static u16 join(u8 *record)
{
	struct group *group = find_group(record);
	u32 port = port_of_gid(record + 16);

	if (!port)
		return REQUEST_INVALID;
	if (!group) {
		/* Only a full member makes one. */
		if (!(record[48] & 1))
			return REQUEST_INVALID;
		group = make_group(record);
		if (!group)
			return NO_RESOURCES;
	}
	group->joined[port] |= record[48] & 0xf;
	tell_member(group, record + 16, group->joined[port], record);
	return 0;
}

static u16 leave(u8 *record)
{
	struct group *group = find_group(record);
	u32 port = port_of_gid(record + 16);
	u8 left;

	if (!group || !port || !(group->joined[port] & record[48] & 0xf))
		return REQUEST_INVALID;
	left = group->joined[port] & record[48] & 0xf;
	group->joined[port] &= ~left;
	tell_member(group, record + 16, left, record);
	for (port = 1; port <= FAKE_IB_PORTS; port++)
		if (group->joined[port] & 1)
			return 0;
	group->used = false;
	return 0;
}

static u16 answer_member(u8 method, u8 *record)
{
	struct group *group;

	switch (method) {
	case SET:
		return join(record);
	case DELETE:
		return leave(record);
	case GET:
		group = find_group(record);
		if (!group)
			return NO_RECORDS;
		tell_member(group, record + 16, group->record[48] & 0xf, record);
		return 0;
	}
	return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
}

/* The states in which a port has joined a group; 0: the group is not there, or the port not in it. */
u8 fake_ib_sa_joined(const union ib_gid *mgid, u32 port)
{
	struct group *group;
	u8 joined = 0;

	mutex_lock(&lock);
	group = find_group(mgid->raw);
	if (group)
		joined = group->joined[port];
	mutex_unlock(&lock);
	return joined;
}
EXPORT_SYMBOL_GPL(fake_ib_sa_joined);

/* A subnet manager that has come anew knows of no group. */
void fake_ib_sa_forget(void)
{
	mutex_lock(&lock);
	memset(groups, 0, sizeof(groups));
	mutex_unlock(&lock);
}
EXPORT_SYMBOL_GPL(fake_ib_sa_forget);

/* Tables */

static void send_segment(u32 segment)
{
	struct fake_ib_packet *packet = &transfer.packet;
	u32 from = (segment - 1) * SEGMENT_SIZE, length = min(transfer.length - from, (u32)SEGMENT_SIZE);
	bool first = segment == 1, last = segment == transfer.segments;
	u8 *rmpp = packet->mad + RMPP;

	rmpp[0] = IB_MGMT_RMPP_VERSION;
	rmpp[1] = IB_MGMT_RMPP_TYPE_DATA;
	rmpp[2] = IB_MGMT_RMPP_NO_RESPTIME << 3 | IB_MGMT_RMPP_FLAG_ACTIVE | (first ? IB_MGMT_RMPP_FLAG_FIRST : 0) |
		  (last ? IB_MGMT_RMPP_FLAG_LAST : 0);
	rmpp[3] = 0;
	put_unaligned_be32(segment, rmpp + 4);
	put_unaligned_be32(last ? length + 20 : first ? transfer.length + 20 * transfer.segments : 0, rmpp + 8);
	memset(packet->mad + DATA, 0, SEGMENT_SIZE);
	memcpy(packet->mad + DATA, transfer.data + from, length);
	fake_ib_send(packet);
}

static void end_transfer(void)
{
	kfree(transfer.data);
	transfer.data = NULL;
}

/* A transfer that its receiver has not finished ends with the module. */
void fake_ib_sa_stop(void)
{
	end_transfer();
}

static void answer_services(struct fake_ib_packet *packet)
{
	struct ib_mad_hdr *header = fake_ib_hdr(packet);
	u32 nth;

	end_transfer();
	transfer.length = services * SERVICE_SIZE;
	transfer.segments = max(DIV_ROUND_UP(transfer.length, SEGMENT_SIZE), 1);
	transfer.data = kzalloc(max(transfer.length, 1), GFP_KERNEL);
	if (!transfer.data)
		return;
	for (nth = 0; nth < services; nth++)
		fake_ib_sa_service(nth, transfer.data + nth * SERVICE_SIZE);
	header->method |= IB_MGMT_METHOD_RESP;
	header->status = 0;
	put_unaligned_be16(SERVICE_SIZE / 8, packet->mad + ATTRIBUTE_OFFSET);
	transfer.packet = *packet;
	transfer.sent = 1;
	send_segment(1);
}

/* The receiver of the table tells how far it is, or gives up. */
static void go_on(const struct fake_ib_packet *packet)
{
	const u8 *rmpp = packet->mad + RMPP;
	u32 window;

	if (!transfer.data || memcmp(packet->mad + 8, transfer.packet.mad + 8, 8))
		return;
	if (rmpp[1] != IB_MGMT_RMPP_TYPE_ACK || get_unaligned_be32(rmpp + 4) == transfer.segments) {
		end_transfer();
		return;
	}
	window = min(get_unaligned_be32(rmpp + 8), transfer.segments);
	while (transfer.sent < window)
		send_segment(++transfer.sent);
}

static void answer(struct fake_ib_packet *packet)
{
	struct ib_mad_hdr *header = fake_ib_hdr(packet);
	u8 *record = packet->mad + DATA, method = header->method;
	u16 status = IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;

	switch (be16_to_cpu(header->attr_id)) {
	case CLASS_PORT_INFO:
		if (method != GET)
			break;
		memset(record, 0, SEGMENT_SIZE);
		record[0] = IB_MGMT_BASE_VERSION;
		record[1] = 2;
		record[7] = 18;
		status = 0;
		break;
	case PATH_RECORD:
		if (method == GET)
			status = answer_path(record);
		put_unaligned_be16(PATH_SIZE / 8, packet->mad + ATTRIBUTE_OFFSET);
		break;
	case MEMBER_RECORD:
		status = answer_member(method, record);
		put_unaligned_be16(56 / 8, packet->mad + ATTRIBUTE_OFFSET);
		break;
	case GUID_INFO_RECORD:
		/* As if it had been set. */
		if (method == GET || method == SET || method == DELETE)
			status = 0;
		break;
	case SERVICE_RECORD:
		if (method == GET_TABLE) {
			answer_services(packet);
			return;
		}
		break;
	}
	reply(packet, status);
}

void fake_ib_sa_receive(const struct fake_ib_packet *packet)
{
	struct fake_ib_packet *copy = kmemdup(packet, sizeof(*packet), GFP_KERNEL);
	struct ib_mad_hdr *header;

	if (!copy)
		return;
	header = fake_ib_hdr(copy);
	mutex_lock(&lock);
	if (header->mgmt_class != IB_MGMT_CLASS_SUBN_ADM || header->class_version != 2)
		goto out;
	fake_ib_turn(copy);
	if (copy->mad[RMPP + 2] & IB_MGMT_RMPP_FLAG_ACTIVE)
		go_on(copy);
	else if (ordered_status)
		reply(copy, ordered_status);
	else
		answer(copy);
out:
	mutex_unlock(&lock);
	kfree(copy);
}
