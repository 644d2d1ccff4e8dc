// SPDX-License-Identifier: GPL-2.0
/* Packing of headers and records, address vectors from paths. What is expected was worked out from the specification. */
#include <linux/if_ether.h>
#include <rdma/ib_pack.h>
#include <rdma/ib_sa.h>
#include "kverbs.h"

struct sample {
	u8 a;
	__be16 b;
	__be32 c;
	__be64 d;
	u8 raw[16];
};

#define MEMBER(name)								\
	.struct_offset_bytes = offsetof(struct sample, name),			\
	.struct_size_bytes = sizeof_field(struct sample, name),			\
	.field_name = "sample:" #name

static const struct ib_field fields[] = {
	{ MEMBER(d), .offset_words = 0, .offset_bits = 0, .size_bits = 64 },
	{ MEMBER(a), .offset_words = 2, .offset_bits = 3, .size_bits = 5 },
	{ RESERVED, .offset_words = 2, .offset_bits = 8, .size_bits = 4 },
	{ MEMBER(c), .offset_words = 2, .offset_bits = 12, .size_bits = 20 },
	{ MEMBER(b), .offset_words = 3, .offset_bits = 16, .size_bits = 16 },
	{ MEMBER(raw), .offset_words = 4, .offset_bits = 0, .size_bits = 128 },
};

static void tables(void)
{
	static const u8 head[] = {
		0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0xf5, 0x0a, 0xbc, 0xde, 0xff, 0xff, 0x12, 0x34,
	};
	struct sample in = {
		.a = 0x35, .b = cpu_to_be16(0x1234), .c = cpu_to_be32(0x5abcde), .d = cpu_to_be64(0x0102030405060708ull),
	}, out = {};
	u8 packed[32];

	memset(in.raw, 0x99, sizeof(in.raw));
	memset(packed, 0xff, sizeof(packed));
	ib_pack(fields, ARRAY_SIZE(fields), &in, packed);
	CHECK("ib_pack", !memcmp(packed, head, sizeof(head)) && !memchr_inv(packed + 16, 0x99, 16));
	ib_unpack(fields, ARRAY_SIZE(fields), packed, &out);
	CHECK("ib_unpack", out.a == 0x15 && out.b == in.b && out.c == cpu_to_be32(0xabcde) && out.d == in.d &&
			   !memcmp(out.raw, in.raw, 16));
}

static void headers(void)
{
	static const u8 udp[] = {
		0x45, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x40, 0x11, 0x00, 0x00, 10, 0, 0, 1, 10, 0, 0, 2,
		0x00, 0x00, 0x12, 0xb7, 0x00, 0x2c, 0x00, 0x00,
		0x64, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0x07, 0x00, 0x12, 0x34, 0x56,
		0x80, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
	};
	struct ib_ud_header header;
	u8 packed[128];
	int length;

	CHECK_EQ("UDP without IP is none", -EINVAL, ib_ud_header_init(12, 0, 0, 0, 0, 0, 1, 0, &header));
	CHECK_EQ("headers of a datagram over UDP", 0, ib_ud_header_init(12, 0, 0, 0, 0, 4, 1, 0, &header));
	header.ip4.ttl = 64;
	header.ip4.saddr = cpu_to_be32(0x0a000001);
	header.ip4.daddr = cpu_to_be32(0x0a000002);
	header.udp.dport = cpu_to_be16(4791);
	header.bth.pkey = cpu_to_be16(0xffff);
	header.bth.destination_qpn = cpu_to_be32(7);
	header.bth.psn = cpu_to_be32(0x123456);
	header.deth.qkey = cpu_to_be32(0x80010000);
	header.deth.source_qpn = cpu_to_be32(1);
	CHECK_EQ("their checksum", 0x66ab, be16_to_cpu((__force __be16)ib_ud_ip4_csum(&header)));
	length = ib_ud_header_pack(&header, packed);
	CHECK_EQ("they have so many bytes", sizeof(udp), length);
	CHECK("these", !memcmp(packed, udp, sizeof(udp)));

	CHECK_EQ("headers of InfiniBand", 0, ib_ud_header_init(9, 1, 0, 0, 1, 0, 0, 1, &header));
	CHECK_EQ("the length of the packet in words", 21, be16_to_cpu(header.lrh.packet_length));
	CHECK_EQ("what follows the LRH", IB_LNH_IBA_GLOBAL, header.lrh.link_next_header);
	CHECK_EQ("the length behind the GRH", 36, be16_to_cpu(header.grh.payload_length));
	CHECK_EQ("what follows the GRH", 0x1b, header.grh.next_header);
	CHECK_EQ("the padding", 3, header.bth.pad_count);
	CHECK_EQ("the opcode", IB_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE, header.bth.opcode);
	CHECK_EQ("they have so many bytes with immediate data", 8 + 40 + 12 + 8 + 4, ib_ud_header_pack(&header, packed));
}

static void records(void)
{
	struct sa_path_rec path = {
		.service_id = cpu_to_be64(0x1122334455667788ull), .flow_label = cpu_to_be32(0xabcde), .hop_limit = 5,
		.traffic_class = 6, .reversible = 1, .numb_path = 3, .pkey = cpu_to_be16(0xffff),
		.qos_class = cpu_to_be16(0x123), .sl = 4, .mtu_selector = 2, .mtu = IB_MTU_2048, .rate_selector = 2,
		.rate = 7, .packet_life_time_selector = 1, .packet_life_time = 0x2a, .preference = 9,
		.ib = { .dlid = cpu_to_be16(0x1234), .slid = cpu_to_be16(0x5678), .raw_traffic = 1 },
	}, again = {};
	static const u8 tail[] = { /* from the LIDs on */
		0x12, 0x34, 0x56, 0x78, 0x8a, 0xbc, 0xde, 0x05, 0x06, 0x83, 0xff, 0xff,
		0x12, 0x34, 0x84, 0x87, 0x6a, 0x09, 0x00, 0x00,
	};
	struct sa_service_rec service = { .id = cpu_to_be64(77), .pkey = cpu_to_be16(0x8001), .lease = cpu_to_be32(600) };
	struct sa_service_rec other = {};
	u8 packed[256];

	memset(&path.dgid, 0xd0, 16);
	memset(&path.sgid, 0x50, 16);
	memset(packed, 0xff, sizeof(packed));
	ib_sa_pack_path(&path, packed);
	CHECK("ib_sa_pack_path", !memchr_inv(packed + 8, 0xd0, 16) && !memchr_inv(packed + 24, 0x50, 16) &&
				 packed[0] == 0x11 && packed[7] == 0x88 && !memcmp(packed + 40, tail, sizeof(tail)) &&
				 !memchr_inv(packed + 60, 0, 4) && packed[64] == 0xff);
	ib_sa_unpack_path(packed, &again);
	CHECK("ib_sa_unpack_path", !memcmp(&path, &again, offsetof(struct sa_path_rec, ib)) &&
				   again.ib.dlid == path.ib.dlid && again.ib.slid == path.ib.slid);
	strscpy(service.name, "a service", sizeof(service.name));
	memset(service.data_64, 0x64, sizeof(service.data_64));
	ib_sa_pack_service(&service, packed);
	CHECK("ib_sa_pack_service", packed[7] == 77 && packed[24] == 0x80 && packed[30] == 2 && packed[31] == 0x58 &&
				    !strcmp(packed + 48, "a service") && packed[175] == 0x64);
	ib_sa_unpack_service(packed, &other);
	CHECK("ib_sa_unpack_service", !memcmp(&service, &other, sizeof(other)));
}

static void paths(struct kv *kv)
{
	const struct ib_gid_attr *gid = rdma_get_gid_attr(kv->device, KV_PORT, 0);
	struct sa_path_rec path = {
		.rec_type = SA_PATH_REC_TYPE_ROCE_V2, .sl = 3, .rate = IB_RATE_10_GBPS, .hop_limit = 9, .traffic_class = 8,
		.flow_label = cpu_to_be32(0x12345), .sgid = kv->gid, .dgid = kv->gid,
	};
	struct ib_sa_mcmember_rec member = {
		.port_gid = kv->gid, .mlid = cpu_to_be16(0xc001), .sl = 2, .rate = IB_RATE_10_GBPS, .hop_limit = 7,
		.flow_label = cpu_to_be32(0x54321),
	};
	struct rdma_ah_attr attr;

	if (IS_ERR(gid))
		return;
	memset(path.roce.dmac, 0x42, ETH_ALEN);
	CHECK_EQ("a path of RoCE needs its source", -EINVAL,
		 ib_init_ah_attr_from_path(kv->device, KV_PORT, &path, &attr, NULL));
	CHECK_EQ("ib_init_ah_attr_from_path", 0, ib_init_ah_attr_from_path(kv->device, KV_PORT, &path, &attr, gid));
	CHECK("takes over what the path has", attr.type == RDMA_AH_ATTR_TYPE_ROCE && attr.roce.dmac[5] == 0x42 &&
	      rdma_ah_get_sl(&attr) == 3 && attr.grh.hop_limit == 9 && attr.grh.flow_label == 0x12345 &&
	      attr.grh.traffic_class == 8 && attr.grh.sgid_attr == gid &&
	      !memcmp(&attr.grh.dgid, &kv->gid, sizeof(union ib_gid)));
	CHECK("and remembers that there is a route", path.roce.route_resolved);
	rdma_destroy_ah_attr(&attr);
	CHECK_EQ("ib_init_ah_from_mcmember", 0,
		 ib_init_ah_from_mcmember(kv->device, KV_PORT, &member, gid->ndev, gid->gid_type, &attr));
	CHECK("takes over what the member has", rdma_ah_get_sl(&attr) == 2 && attr.grh.hop_limit == 7 &&
	      attr.grh.flow_label == 0x54321 && attr.grh.sgid_attr == gid);
	rdma_destroy_ah_attr(&attr);
	member.port_gid.raw[15] ^= 0x55;
	CHECK_EQ("a member of another port", -ENOENT,
		 ib_init_ah_from_mcmember(kv->device, KV_PORT, &member, gid->ndev, gid->gid_type, &attr));
	rdma_put_gid_attr(gid);
}

static void setup(struct net_device *ndev)
{
}

void kv_test_packing(struct kv *kv)
{
	tables();
	headers();
	records();
	paths(kv);
	CHECK_EQ("rdma_alloc_netdev is for drivers that have a hand in it", -EOPNOTSUPP,
		 PTR_ERR(rdma_alloc_netdev(kv->device, KV_PORT, RDMA_NETDEV_IPOIB, "kv%d", NET_NAME_UNKNOWN, setup)));
}
