/* SPDX-License-Identifier: GPL-2.0 */
/*
 * RoCEv2 packets made by hand: transport headers by opcode, IP and UDP around them, the ICRC, frames of Ethernet.
 */
#ifndef FUZZ_PACKET_H
#define FUZZ_PACKET_H

#include "fuzz.h"
#include <arpa/inet.h>
#include <linux/virtio_net.h>
#include <string.h>

#define ROCE_PORT 4791
#define LARGEST 4600	/* bytes of a transport packet without its ICRC */
#define FRAME (LARGEST + 128)
#define SEGMENTED (65535 + 14)	/* bytes of a frame that consists of several */

/* Opcodes: the operation of a reliable connection; a service is added to it. */
enum {
	SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM, WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM,
	WRITE_ONLY, WRITE_ONLY_IMM, READ_REQUEST, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACK, ATOMIC_ACK, COMPARE_SWAP, FETCH_ADD,
	SEND_LAST_INV = 0x16, SEND_ONLY_INV = 0x17, FLUSH = 0x1c, ATOMIC_WRITE = 0x1d,
	SERVICE_RC = 0x00, SERVICE_UC = 0x20, SERVICE_UD = 0x60, CNP = 0x81, SERVICE_XRC = 0xa0,
};

/* A transport packet without its ICRC. */
struct packet {
	size_t length;
	uint8_t bytes[LARGEST];
};

/* Where a packet goes, as IP sees it. */
struct path {
	bool six;
	uint8_t source[16], target[16];		/* 4 bytes of each, or 16 */
	uint8_t source_mac[6], target_mac[6];
};

struct frame {
	size_t length;
	uint8_t bytes[FRAME];
};

/* Several packets with the same headers of IP and UDP, which are cut at every gso_size bytes (UDP segmentation offload). */
struct segmented {
	struct virtio_net_hdr offload;
	size_t length;
	uint8_t bytes[SEGMENTED];
};

static uint32_t crc_table[4][256];

static void crc_init(void)
{
	for (uint32_t n = 0; n < 256; n++) {
		uint32_t crc = n;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
		crc_table[0][n] = crc;
	}
	for (int slice = 1; slice < 4; slice++)
		for (uint32_t n = 0; n < 256; n++)
			crc_table[slice][n] = crc_table[0][crc_table[slice - 1][n] & 0xff] ^ crc_table[slice - 1][n] >> 8;
}

static uint32_t crc32_over(uint32_t crc, const uint8_t *bytes, size_t length)
{
	for (; length >= 4; bytes += 4, length -= 4) {
		crc ^= bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24;
		crc = crc_table[3][crc & 0xff] ^ crc_table[2][crc >> 8 & 0xff] ^ crc_table[1][crc >> 16 & 0xff] ^ crc_table[0][crc >> 24];
	}
	while (length--)
		crc = crc_table[0][(crc ^ *bytes++) & 0xff] ^ crc >> 8;
	return crc;
}

static void put16(uint8_t *to, uint16_t value) { memcpy(to, &(uint16_t){ htons(value) }, 2); }
static void put32(uint8_t *to, uint32_t value) { memcpy(to, &(uint32_t){ htonl(value) }, 4); }
static inline uint32_t get32(const uint8_t *from) { return (uint32_t)from[0] << 24 | from[1] << 16 | from[2] << 8 | from[3]; }
static inline uint32_t get24(const uint8_t *from) { return from[0] << 16 | from[1] << 8 | from[2]; }

static void append(struct packet *packet, const void *bytes, size_t length)
{
	if (packet->length + length > LARGEST)
		length = LARGEST - packet->length;
	memcpy(packet->bytes + packet->length, bytes, length);
	packet->length += length;
}

static void append32(struct packet *packet, uint32_t value)
{
	uint8_t bytes[4];

	put32(bytes, value);
	append(packet, bytes, 4);
}

static void append64(struct packet *packet, uint64_t value)
{
	append32(packet, value >> 32);
	append32(packet, value);
}

/* Random payload and the pad bytes behind it; the base header learns how many. */
static inline void append_payload(struct packet *packet, size_t length)
{
	uint64_t word = any64();

	while (length % 4 && packet->length + length > LARGEST - 4)
		length--;
	packet->bytes[1] = (packet->bytes[1] & ~0x30) | (-length & 3) << 4;
	for (length += -length & 3; length; length -= length < 8 ? length : 8, word = word * 0x2545f4914f6cdd1dull + 1)
		append(packet, &word, length < 8 ? length : 8);
}

/* The base transport header (IBTA volume 1, section 9.2). */
static void begin(struct packet *packet, uint8_t opcode, uint32_t qpn, uint32_t psn, bool ack)
{
	packet->length = 0;
	append32(packet, (uint32_t)opcode << 24 | one_in(4) << 23 | 0xffff);
	append32(packet, qpn & 0xffffff);
	append32(packet, (uint32_t)ack << 31 | (psn & 0xffffff));
}

/* What the extension headers of requests name. */
struct names {
	uint64_t address;
	uint32_t rkey, length, invalidate, qkey, source_qpn, srq;
};

/* The extension headers that belong to an opcode, of requests. */
static inline void append_names(struct packet *packet, const struct names *names)
{
	uint8_t opcode = packet->bytes[0], operation = opcode & 0x1f;

	if ((opcode & 0xe0) == SERVICE_XRC)
		append32(packet, names->srq);
	if ((opcode & 0xe0) == SERVICE_UD) {
		append32(packet, names->qkey);
		append32(packet, names->source_qpn);
	}
	if (operation == FLUSH)
		append32(packet, one_in(4) ? any() : (1 + below(3)) | below(2) << 4);
	if (operation == WRITE_FIRST || operation == WRITE_ONLY || operation == WRITE_ONLY_IMM || operation == READ_REQUEST ||
	    operation == FLUSH || operation == ATOMIC_WRITE) {
		append64(packet, names->address);
		append32(packet, names->rkey);
		append32(packet, names->length);
	}
	if (operation == COMPARE_SWAP || operation == FETCH_ADD) {
		append64(packet, names->address);
		append32(packet, names->rkey);
		append64(packet, any64());
		append64(packet, any64());
	}
	if (operation == SEND_LAST_IMM || operation == SEND_ONLY_IMM || operation == WRITE_LAST_IMM || operation == WRITE_ONLY_IMM)
		append32(packet, any());
	if (operation == SEND_LAST_INV || operation == SEND_ONLY_INV)
		append32(packet, names->invalidate);
}

/* An answer of a responder. */
static inline void answer(struct packet *packet, uint8_t opcode, uint32_t qpn, uint32_t psn, uint8_t syndrome, uint32_t msn, size_t payload)
{
	begin(packet, opcode, qpn, psn, one_in(8));
	if ((opcode & 0x1f) != READ_MIDDLE)
		append32(packet, (uint32_t)syndrome << 24 | (msn & 0xffffff));
	if ((opcode & 0x1f) == ATOMIC_ACK)
		append64(packet, any64());
	if (payload)
		append_payload(packet, payload);
}

static uint16_t folded(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static uint64_t sum_of(const uint8_t *bytes, size_t length)
{
	uint64_t sum = 0;

	for (; length > 1; bytes += 2, length -= 2)
		sum += bytes[0] << 8 | bytes[1];
	return length ? sum + (bytes[0] << 8) : sum;
}

/* The ICRC of a datagram that begins with its IP header (annexes A17.3.3 and A17.3.4: what changes on the way counts as ones). */
static uint32_t icrc_of(const uint8_t *ip, size_t length, bool six)
{
	size_t header = six ? 40 : 20, head = header + 8 + 12;
	uint8_t masked[8 + 40 + 8 + 12];
	uint8_t *m = masked + 8;

	memset(masked, 0xff, 8);
	if (head > length)
		head = length;
	memcpy(m, ip, head);
	if (six) {
		m[0] |= 0x0f;
		memset(m + 1, 0xff, 3);
		m[7] = 0xff;
	} else {
		m[1] = m[8] = m[10] = m[11] = 0xff;
	}
	m[header + 6] = m[header + 7] = 0xff;
	if (head > header + 12)
		m[header + 12] = 0xff;
	return ~crc32_over(crc32_over(0xffffffff, masked, 8 + head), ip + head, length - head);
}

static inline size_t headers_of(const uint8_t *bytes) { return 14 + (bytes[14] >> 4 == 6 ? 40 : 20) + 8; }

/* Puts Ethernet, IP and UDP around a packet, and the ICRC behind it, which is right if `intact`. */
static void wrap_as(struct frame *frame, const struct path *path, const struct packet *packet, bool intact, uint16_t identification,
		    uint16_t port)
{
	uint8_t *ethernet = frame->bytes, *ip = ethernet + 14, *udp = ip + (path->six ? 40 : 20);
	size_t payload = 8 + packet->length + 4, whole = udp - ip + payload;
	uint32_t crc;

	memcpy(ethernet, path->target_mac, 6);
	memcpy(ethernet + 6, path->source_mac, 6);
	put16(ethernet + 12, path->six ? 0x86dd : 0x0800);
	memset(ip, 0, udp - ip + 8);
	if (path->six) {
		put32(ip, 0x60000000);
		put16(ip + 4, payload);
		ip[6] = 17;
		ip[7] = 64;
		memcpy(ip + 8, path->source, 16);
		memcpy(ip + 24, path->target, 16);
	} else {
		put32(ip, 0x45000000 | whole);
		put16(ip + 4, identification);
		put32(ip + 8, 64 << 24 | 17 << 16);
		memcpy(ip + 12, path->source, 4);
		memcpy(ip + 16, path->target, 4);
		put16(ip + 10, folded(sum_of(ip, 20)));
	}
	put16(udp, port);
	put16(udp + 2, ROCE_PORT);
	put16(udp + 4, payload);
	memcpy(udp + 8, packet->bytes, packet->length);
	crc = intact ? icrc_of(ip, whole - 4, path->six) : any();
	memcpy(ip + whole - 4, &crc, 4);
	if (path->six)
		put16(udp + 6, folded(sum_of(ip + 8, 32) + 17 + payload + sum_of(udp, payload)));
	frame->length = 14 + whole;
}

static inline void wrap(struct frame *frame, const struct path *path, const struct packet *packet, bool intact)
{
	wrap_as(frame, path, packet, intact, any(), 0xc000 | (any() & 0x3fff));
}

/* Adds what a frame has behind its headers; they are those of the first one. Returns whether there was room. */
static inline bool add_segment(struct segmented *all, const struct frame *frame)
{
	size_t head = headers_of(frame->bytes), skipped = all->length ? head : 0;

	if (all->length + frame->length - skipped > SEGMENTED)
		return false;
	memcpy(all->bytes + all->length, frame->bytes + skipped, frame->length - skipped);
	all->length += frame->length - skipped;
	return true;
}

/* Makes the headers those of the whole, whose parts have `size` bytes. */
static inline void finish_segments(struct segmented *all, uint16_t size)
{
	size_t head = headers_of(all->bytes), payload = all->length - head + 8;
	uint8_t *ip = all->bytes + 14, *udp = all->bytes + head - 8;
	bool six = ip[0] >> 4 == 6;

	put16(udp + 4, payload);
	put16(udp + 6, ~folded((six ? sum_of(ip + 8, 32) : sum_of(ip + 12, 8)) + 17 + payload));
	if (six) {
		put16(ip + 4, payload);
	} else {
		put16(ip + 2, all->length - 14);
		put16(ip + 10, 0);
		put16(ip + 10, folded(sum_of(ip, 20)));
	}
	all->offload = (struct virtio_net_hdr){
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
		.hdr_len = head,
		.gso_size = size,
		.csum_start = head - 8,
		.csum_offset = 6,
	};
}

#endif
