// SPDX-License-Identifier: GPL-2.0
/*
 * Forged packets to UDP port 4791, with right ICRCs and some wrong ones, to QPs in RTS that have receives posted, memory
 * registered and requests under way. The fuzzer is their peer: it sees what they send, so it knows their PSNs.
 *
 *   fuzz_packets DEVICE NETNS NETDEV PEER_DEVICE PEER_NETNS PEER_NETDEV COUNT [SEED [FIRST_ROUND]]
 *
 * A round is a number of packets that follows from the seed and the number of the round (and from what the QPs answer); after
 * each the QPs that have failed are built anew, and memory that nobody had a right to is looked at. A connection between the
 * two devices works all the while, and must go on to. Needs root, for it sends frames in the network namespace of the peer.
 */
#define _GNU_SOURCE
#include "fuzz_bystander.h"
#include "fuzz_victim.h"
#include "fuzz_wire.h"

#define ROUND 1024
#define RECORDED 128
#define LENGTHS 4480	/* of transport packets in the sweep: more than a path MTU of 4096 needs */

enum kind { SWEEP, REQUEST, RESPONSE, MUTATED, NOISE, BYSTANDER, MULTICAST, MANAGEMENT, NETWORK, SEGMENTS, KINDS };

static const char *const kinds[] = { "opcode and length", "requests", "responses", "mutated traffic", "noise", "to the bystander",
				     "to groups", "to QP 0 and 1", "IP and UDP", "several in a buffer" };

static uint64_t counts[KINDS], wrong_icrcs, sixes, seen_of[256], leaks, rounds;
static bool opcodes_swept[256], lengths_swept[LENGTHS];
static struct packet recorded[RECORDED];
static size_t recorded_count;
static struct bystander bystander;
static struct ibv_ah *peer_ah[2];
static enum kind kind;
static uint32_t swept;

/* Never to the bystander, unless that is what it is about. */
static struct frame *emit(const struct path *path, struct packet *packet, bool intact)
{
	struct frame *frame = &frames[frame_count++];

	if (kind != BYSTANDER && packet->length >= 8 && get24(packet->bytes + 5) == bystander.ends[0].qp->qp_num)
		packet->bytes[5] ^= 0x80;
	wrap(frame, path, packet, intact);
	counts[kind]++;
	wrong_icrcs += !intact;
	sixes += path->six;
	return frame;
}

static void emit_to(const struct victim *victim, struct packet *packet)
{
	emit(&paths[one_in(100) ? !victim->six : victim->six], packet, !one_in(64));
}

static uint8_t service_of(const struct victim *victim)
{
	switch ((int)victim->type) {
	case IBV_QPT_RC: return SERVICE_RC;
	case IBV_QPT_UC: return SERVICE_UC;
	case XRC_TGT: return SERVICE_XRC;
	default: return SERVICE_UD;
	}
}

static struct victim *some_victim(void) { return &victims[below(VICTIMS)]; }

static uint32_t some_qpn(void) { return one_in(8) ? any() & 0xffffff : some_victim()->qp->qp_num; }

static uint32_t near(uint32_t psn)
{
	switch (below(20)) {
	case 0: return any();
	case 1: return psn + 0x7fffff + below(4);
	case 2: case 3: return psn - below(8);
	case 4: case 5: return psn + below(8);
	default: return psn;
	}
}

static struct names some_names(uint32_t length)
{
	struct names names = { .length = length, .rkey = open_mr->rkey, .qkey = one_in(16) ? any() : QKEY, .source_qpn = PEER };
	struct victim *victim = some_victim();

	names.address = somewhere((uintptr_t)arena + OPEN_AT, OPEN_SIZE, length);
	switch (below(12)) {
	case 0:
		names.rkey = fixed_mr->rkey;
		names.address = somewhere((uintptr_t)arena + FIXED_AT, FIXED_SIZE, length);
		break;
	case 1:
		names.rkey = victim->mw ? victim->mw->rkey : land_mr->rkey;
		names.address = somewhere((uintptr_t)arena + OPEN_AT + 100, 8000, length);
		break;
	case 2: names.rkey = one_in(2) ? any() : open_mr->rkey ^ 1u << below(32); break;
	}
	names.srq = one_in(16) ? odd_number() : queues[one_in(16) ? 2 : below(2)].number;
	names.invalidate = one_in(2) || !victim->mw ? any() : one_in(4) ? open_mr->rkey : victim->mw->rkey;
	if (one_in(24))
		names.length = odd_number();
	return names;
}

/* Changes one thing of a packet's transport headers. */
static void spoil(struct packet *packet)
{
	uint8_t *bytes = packet->bytes;

	switch (below(12)) {
	case 0: bytes[0] = any(); break;
	case 1: bytes[1] ^= 0x30 & any(); break;
	case 2: bytes[1] = any(); break;
	case 3: put16(bytes + 2, odd_number()); break;
	case 4: packet->length -= below(packet->length); break;
	case 5: append(packet, arena, below(300)); break;
	case 6: bytes[8] ^= 0x80; break;
	case 7: put32(bytes + below(packet->length > 48 ? 44 : 9), odd_number()); break;
	case 8: bytes[below(packet->length)] = any(); break;
	case 9: bytes[below(packet->length)] ^= 1 << below(8); break;
	case 10: packet->length = packet->length / 4 * 4; break;
	default: put32(bytes + 8, (uint32_t)bytes[8] << 24 | (near(get24(bytes + 9)) & 0xffffff)); break;
	}
}

static void send_one(struct victim *victim, struct packet *packet)
{
	if (one_in(12))
		spoil(packet);
	emit_to(victim, packet);
	if (one_in(24) && frame_count < BATCH)
		emit_to(victim, packet);
}

static size_t mtu_of(const struct victim *victim) { return victim->type == IBV_QPT_UD ? 4096 : 128 << victim->mtu; }

/* The packets of a SEND or a WRITE; some are wrong, some missing. */
static void send_message(struct victim *victim, bool write)
{
	uint8_t service = service_of(victim), last = write ? WRITE_LAST : SEND_LAST;
	uint32_t mtu = mtu_of(victim), left = one_in(3) ? below(mtu) : below(4 * mtu), psn = near(victim->expected);
	struct names names = some_names(left);
	static struct packet packet;

	for (bool first = true; frame_count < BATCH; first = false, left -= left < mtu ? left : mtu, psn++) {
		bool ends = left <= mtu;
		uint8_t operation = ends ? last + below(2) : last - 1u;
		uint32_t length = ends ? left : mtu;

		if (first)
			operation = ends ? last + 2 + below(2) : last - 2u;
		if (!write && ends && one_in(6))
			operation = first ? SEND_ONLY_INV : SEND_LAST_INV;
		begin(&packet, service | operation, victim->qp->qp_num, psn, ends ? !one_in(4) : one_in(4));
		append_names(&packet, &names);
		append_payload(&packet, one_in(32) ? below(2 * mtu) : length);
		if (!one_in(40))
			send_one(victim, &packet);
		if (ends)
			break;
	}
	if ((psn & 0xffffff) >= victim->expected || service == SERVICE_UC)
		victim->expected = (psn + 1) & 0xffffff;
}

/* A request of one packet: READ, ATOMIC, FLUSH, ATOMIC WRITE. */
static void send_request(struct victim *victim)
{
	static const uint8_t operations[] = { READ_REQUEST, READ_REQUEST, COMPARE_SWAP, FETCH_ADD, FLUSH, ATOMIC_WRITE };
	uint8_t operation = operations[below(ARRAY_SIZE(operations))];
	uint32_t length = operation == READ_REQUEST ? (one_in(4) ? below(200) : below(9000)) : operation == FLUSH ? below(5000) : 8;
	struct names names = some_names(length);
	static struct packet packet;

	if (operation != READ_REQUEST && operation != FLUSH && !one_in(16))
		names.address &= ~7ull;
	begin(&packet, service_of(victim) | operation, victim->qp->qp_num, near(victim->expected), !one_in(8));
	append_names(&packet, &names);
	if (operation == ATOMIC_WRITE)
		append_payload(&packet, one_in(8) ? below(20) : 8);
	send_one(victim, &packet);
	victim->expected = (victim->expected + (operation == READ_REQUEST && length ? (length - 1) / mtu_of(victim) + 1 : 1)) & 0xffffff;
}

static void send_datagram(struct victim *victim, const struct path *path, uint32_t qpn)
{
	struct names names = some_names(0);
	static struct packet packet;

	begin(&packet, SERVICE_UD | (SEND_ONLY + below(2)), qpn, any(), one_in(4));
	append_names(&packet, &names);
	append_payload(&packet, one_in(3) ? below(4200) : below(300));
	if (path) {
		if (one_in(12))
			spoil(&packet);
		emit(path, &packet, !one_in(64));
	} else {
		send_one(victim, &packet);
	}
}

static void requests(void)
{
	struct victim *victim = some_victim();

	if (victim->type == IBV_QPT_UD)
		send_datagram(victim, NULL, victim->qp->qp_num);
	else if (victim->type == IBV_QPT_UC || one_in(2))
		send_message(victim, one_in(2));
	else
		send_request(victim);
}

static uint8_t some_syndrome(void)
{
	switch (below(16)) {
	case 0: return 0x20 | below(32);		/* RNR NAK */
	case 1: return 0x60 | below(6);		/* NAK */
	case 2: return any();
	default: return below(32);		/* ACK */
	}
}

/* The answer to a READ, packet by packet. */
static void send_read_response(struct victim *victim, uint32_t psn, uint32_t length)
{
	uint32_t mtu = mtu_of(victim), left = one_in(24) ? below(20000) : length;
	static struct packet packet;

	for (bool first = true; frame_count < BATCH; first = false, left -= left < mtu ? left : mtu, psn++) {
		bool ends = left <= mtu;
		uint8_t operation = first ? (ends ? READ_ONLY : READ_FIRST) : ends ? READ_LAST : READ_MIDDLE;

		answer(&packet, service_of(victim) | operation, victim->qp->qp_num, psn, one_in(16) ? some_syndrome() : below(32), any(),
		       one_in(24) ? below(2 * mtu) : ends ? left : mtu);
		if (!one_in(40))
			send_one(victim, &packet);
		if (ends)
			break;
	}
}

/* Answers to what a QP has asked, or to nothing. */
static void responses(void)
{
	struct victim *victim = some_victim();
	size_t count = victim->asked_count < ASKED ? victim->asked_count : ASKED, nth;
	uint32_t psn = near(victim->sent - 1);
	uint8_t operation = ACK + below(2);
	static struct packet packet;

	if (count && !one_in(10)) {
		nth = below(count);
		psn = near(victim->asked[nth].psn);
		if (victim->asked[nth].opcode == READ_REQUEST && !one_in(6))
			return send_read_response(victim, psn, victim->asked[nth].length);
		operation = victim->asked[nth].opcode == COMPARE_SWAP || victim->asked[nth].opcode == FETCH_ADD ? ATOMIC_ACK : ACK;
	}
	if (one_in(12))
		operation = READ_FIRST + below(ATOMIC_ACK - READ_FIRST + 1);
	answer(&packet, operation | (one_in(40) ? SERVICE_UC : victim->xrc ? SERVICE_XRC : 0), victim->qp->qp_num, psn, some_syndrome(), any(),
	       operation < ACK ? mtu_of(victim) : 0);
	send_one(victim, &packet);
}

static void sweep(void)
{
	uint8_t opcode = swept;
	uint32_t length = (uint64_t)swept * 2741 % LENGTHS, number = some_qpn();
	struct victim *victim = &victims[(opcode >> 5 == 1 ? 6 : opcode >> 5 == 3 ? 8 : opcode >> 5 == 5 ? 10 : 0) +
					 (opcode >> 5 == 0 ? below(6) : opcode >> 5 == 5 ? 0 : below(2))];
	struct names names = some_names(below(5000));
	static struct packet packet;

	begin(&packet, opcode, one_in(8) ? number : victim->qp->qp_num, near(victim->expected), one_in(2));
	append_names(&packet, &names);
	if (packet.length < length)
		append_payload(&packet, length - packet.length);
	packet.length = length;
	if (length > 1 && one_in(4))
		packet.bytes[1] = (packet.bytes[1] & ~0x30) | below(4) << 4;
	opcodes_swept[opcode] |= length > 0;
	lengths_swept[length] = true;
	swept++;
	emit_to(victim, &packet);
}

/* What a QP or the bystander has sent, changed a little and sent to a QP. */
static void mutated(void)
{
	struct victim *victim = some_victim();
	static struct packet packet, other;

	if (!recorded_count)
		return;
	packet = recorded[below(recorded_count)];
	if (packet.length < 12)
		return;
	put32(packet.bytes + 4, (uint32_t)packet.bytes[4] << 24 | victim->qp->qp_num);
	if (!one_in(4))
		packet.bytes[0] = (packet.bytes[0] & 0x1f) | service_of(victim);
	if (!one_in(4))
		put32(packet.bytes + 8, (uint32_t)packet.bytes[8] << 24 | (near(one_in(3) ? victim->sent - 1 : victim->expected) & 0xffffff));
	if (one_in(8)) {
		/* The head of one and the end of another. */
		other = recorded[below(recorded_count)];
		packet.length = below(packet.length) & ~3u;
		append(&packet, other.bytes + other.length / 2, other.length - other.length / 2);
	}
	for (uint32_t times = below(4); times && packet.length >= 12; times--)
		spoil(&packet);
	emit_to(victim, &packet);
}

static void noise(void)
{
	static struct packet packet;
	struct victim *victim = some_victim();
	uint32_t length = one_in(2) ? below(64) : below(LENGTHS);

	begin(&packet, any(), some_qpn(), any(), one_in(2));
	if (one_in(2))
		packet.length = 0;
	while (packet.length < length)
		append32(&packet, one_in(2) ? any() : odd_number());
	packet.length = length;
	emit_to(victim, &packet);
}

/* To a QP that must not notice: each has one thing that forbids to take it. */
static void to_bystander(void)
{
	struct path stranger = paths[0];
	struct names names = some_names(100);
	static struct packet packet;
	uint32_t what = below(4);

	begin(&packet, what == 0 ? SERVICE_UC | below(12) : below(0x18), bystander.ends[0].qp->qp_num, any(), true);
	if (what == 1)
		put16(packet.bytes + 2, one_in(2) ? below(0x7fff) : 0x8000 | below(0x7fff));
	if (what == 2)
		stranger.source[3] = 3 + below(200);
	append_names(&packet, &names);
	append_payload(&packet, below(200));
	emit(&stranger, &packet, what != 3);
}

static void to_groups(void)
{
	struct victim *victim = &victims[VICTIMS - 1];
	bool six = one_in(2);

	send_datagram(victim, one_in(16) ? &paths[six] : &group_paths[six], one_in(8) ? some_qpn() : 0xffffff);
}

static void to_managers(void)
{
	struct names names = { .qkey = one_in(4) ? any() : 0x80010000, .source_qpn = one_in(4) ? any() : 1 };
	static struct packet packet;

	begin(&packet, one_in(8) ? any() : SERVICE_UD | (SEND_ONLY + below(2)), below(2), any(), one_in(2));
	append_names(&packet, &names);
	if (!one_in(4))
		append32(&packet, one_in(8) ? any() : 0x01000000 | (one_in(2) ? 0x07 : below(0x60)) << 16 | below(3) << 8 | below(0x97));
	append_payload(&packet, one_in(2) ? 252 : below(400));
	emit(&paths[one_in(2)], &packet, !one_in(32));
}

/* Splits a frame of IPv4 in two, or in what pretends to be. */
static void fragment(struct frame *frame)
{
	size_t payload = frame->length - 34, cut = below(payload / 8 + 1) * 8, overlap = one_in(8) && cut >= 8 ? 8 : 0;
	struct frame *second = &frames[frame_count++];

	memcpy(second->bytes, frame->bytes, 34);
	memcpy(second->bytes + 34, frame->bytes + 34 + cut - overlap, payload - cut + overlap);
	second->length = 34 + payload - cut + overlap;
	frame->length = 34 + cut;
	put16(frame->bytes + 16, 20 + cut);
	put16(frame->bytes + 20, 0x2000);
	put16(second->bytes + 16, 20 + payload - cut + overlap);
	put16(second->bytes + 20, (cut - overlap) / 8);
	for (int i = 0; i < 2; i++) {
		uint8_t *ip = (i ? second : frame)->bytes + 14;

		put16(ip + 10, 0);
		put16(ip + 10, folded(sum_of(ip, 20)));
	}
	if (one_in(16))
		frame_count--;
}

static void spoil_network(struct frame *frame)
{
	uint8_t *ip = frame->bytes + 14, *udp = ip + 20;

	switch (below(8)) {
	case 0: put16(udp + 4, odd_number()); break;
	case 1: put16(udp + 4, frame->length - 34 - below(40)); break;
	case 2: frame->length -= below(frame->length - 34); break;
	case 3: ip[0] = 0x40 | below(16); break;
	case 4: put16(ip + 2, one_in(2) ? odd_number() : frame->length - 14 - below(60)); break;
	case 5: put16(udp + 6, any()); break;
	case 6: put32(ip + 12, any()); break;
	default: ip[9] = any(); break;
	}
	put16(ip + 10, 0);
	put16(ip + 10, folded(sum_of(ip, (ip[0] & 15) * 4)));
}

static void network(void)
{
	struct victim *victim = some_victim();
	struct names names = some_names(1000);
	static struct packet packet;
	struct frame *frame;

	begin(&packet, service_of(victim) | SEND_ONLY, victim->qp->qp_num, victim->expected, true);
	append_names(&packet, &names);
	append_payload(&packet, one_in(2) ? below(64) : below(mtu_of(victim)));
	frame = emit(&paths[0], &packet, true);
	if (one_in(2))
		fragment(frame);
	else
		spoil_network(frame);
}

/* The next part of a message for a buffer of several packets; most are right, but for the last one all of the same length. */
static bool next_segment(struct segmented *all, struct victim *victim, uint8_t operation, uint32_t psn, size_t payload, uint16_t number)
{
	uint8_t service = service_of(victim);
	struct names names = some_names(100);
	static struct packet packet;
	static struct frame frame;
	size_t whole;

	if (operation >= READ_FIRST && operation <= READ_ONLY) {
		answer(&packet, victim->xrc ? SERVICE_XRC | operation : operation, victim->qp->qp_num, psn, below(32), any(), payload);
	} else {
		begin(&packet, service | operation, victim->qp->qp_num, psn, one_in(4));
		append_names(&packet, &names);
		append_payload(&packet, payload);
	}
	whole = packet.length;
	if (one_in(40))
		put32(packet.bytes + 4, some_qpn());
	if (one_in(30))
		spoil(&packet);
	if (!one_in(200))
		packet.length = whole;
	if (packet.length >= 8 && get24(packet.bytes + 5) == bystander.ends[0].qp->qp_num)
		packet.bytes[5] ^= 0x80;
	wrap_as(&frame, &paths[victim->six], &packet, !one_in(100), number, 0xc000 | victim->qp->qp_num);
	if (!add_segment(all, &frame))
		return false;
	counts[kind]++;
	return true;
}

/* Packets of a SEND, of a WRITE or of the answer to a READ in one buffer, which may be cut at the wrong place, or end too early. */
static void segments(void)
{
	struct victim *victim = some_victim();
	struct segmented *all = &segmented[segmented_count];
	uint32_t mtu = mtu_of(victim), psn = near(victim->expected), count = 2 + below(20), size = 12 + mtu + 4;
	uint8_t middle = one_in(2) ? SEND_MIDDLE : WRITE_MIDDLE;
	bool counts_up = !one_in(4);
	uint16_t number = any();

	if (segmented_count == SEGMENTED_BATCH)
		return;
	if (victim->type == IBV_QPT_UD)
		middle = SEND_ONLY, size += 8;
	if (victim->xrc)
		size += 4;
	if (victim->asked_count && one_in(3)) {
		middle = READ_MIDDLE;
		psn = near(victim->asked[below(victim->asked_count < ASKED ? victim->asked_count : ASKED)].psn);
	} else if (middle == WRITE_MIDDLE) {
		struct names names = some_names(count * mtu - below(mtu));
		static struct packet first;

		begin(&first, service_of(victim) | WRITE_FIRST, victim->qp->qp_num, psn++, false);
		append_names(&first, &names);
		append_payload(&first, mtu);
		send_one(victim, &first);
	}
	all->length = 0;
	for (uint32_t i = 0; i < count; i++, psn++) {
		bool ends = i + 1 == count && !one_in(4);
		uint8_t operation = middle == SEND_ONLY ? SEND_ONLY : ends ? middle + 1u : middle;

		if (i == 0 && middle == SEND_MIDDLE && !one_in(4))
			operation = SEND_FIRST;
		if (middle == SEND_MIDDLE && one_in(6) && !ends)
			operation = SEND_LAST;
		psn += one_in(60) - (one_in(60) ? 2 : 0);
		if (!next_segment(all, victim, operation, psn, ends ? below(mtu + 1) : mtu, counts_up ? number + i : number))
			break;
	}
	if (one_in(12))
		all->length -= below(all->length / 2);
	if (middle != READ_MIDDLE)
		victim->expected = psn & 0xffffff;
	finish_segments(all, one_in(16) ? (one_in(2) ? below(9000) : size / 2 + below(size)) : size);
	segmented_count++;
}

static void (*const makers[KINDS])(void) = { sweep, requests, responses, mutated, noise, to_bystander, to_groups, to_managers, network, segments };
static const uint8_t shares[KINDS] = { 21, 23, 21, 14, 5, 4, 4, 2, 3, 3 };

static void one(void)
{
	uint32_t at = below(100);

	for (kind = 0; at >= shares[kind]; kind++)
		at -= shares[kind];
	makers[kind]();
}

static void note(const uint8_t *bth, size_t length)
{
	uint32_t nth = get24(bth + 5) - PEER, psn = get24(bth + 9);
	struct victim *victim = nth < VICTIMS ? &victims[nth] : NULL;
	uint8_t operation = bth[0] & 0x1f;
	struct packet *keep = &recorded[recorded_count < RECORDED ? recorded_count++ : below(RECORDED)];

	seen_of[bth[0]]++;
	keep->length = 0;
	append(keep, bth, length);
	if (memmem(bth, length, &(uint64_t){ SECRET }, 8))
		leaks++;
	if (!victim)
		return;
	if (operation >= READ_FIRST && operation <= ATOMIC_ACK) {
		victim->expected = (psn + (operation != ACK || bth[12] < 32)) & 0xffffff;
		return;
	}
	victim->sent = (psn + 1) & 0xffffff;
	nth = victim->asked_count++ % ASKED;
	victim->asked[nth].psn = psn;
	victim->asked[nth].opcode = operation;
	victim->asked[nth].length = operation == READ_REQUEST && length >= 28 ? get32(bth + 24) : 0;
}

/* Looks at what the device has sent. */
static void listen_in(void)
{
	int count;

	while ((count = receive_frames()) > 0)
		for (int i = 0; i < count; i++) {
			const uint8_t *bytes = heard[i].bytes;
			size_t head = headers_of(bytes), each = heard[i].offload.gso_size, left = heard[i].length - head;

			if (heard[i].length < head || bytes[head - 6] != ROCE_PORT >> 8 || bytes[head - 5] != (ROCE_PORT & 0xff))
				continue;
			for (size_t now; left; bytes += now, left -= now) {
				now = each && each < left ? each : left;
				if (now >= 16)
					note(bytes + head, now - 4);
			}
		}
}

static void look_after(struct victim *victim)
{
	drain(victim);
	/* A QP may fail with nothing to complete. */
	if (one_in(16))
		victim->broken |= state_of(victim) != IBV_QPS_RTS;
	if (victim->broken)
		build(victim, peer_ah[victim->six]);
	else if (victim->send_count <= SENDS / 2)
		give_sends(victim, 1 + below(SENDS / 2), peer_ah[victim->six]);
}

static void drain_events(void)
{
	while (wait_event(0) != -1)
		events++;
}

/* The queues of XRC anew, with their target. */
static void renew_queues(struct victim *victim)
{
	if (victim->qp) {
		unmake_victim(victim);
		victim->qp = NULL;
	} else {
		queue_cq = ibv_create_cq(context, 8 * RECEIVES, NULL, NULL, 0);
	}
	for (int i = 0; i < 2; i++)
		if (!domains[i] && xrc_open(context->cmd_fd, -1, O_CREAT, &domains[i]))
			die("make a domain of XRC");
	for (int i = 0; i < 3; i++) {
		if (queues[i].recvs.queue && xrc_destroy_srq(&queues[i]))
			die("destroy a queue of XRC");
		if (xrc_create_srq(pd, queue_cq, domains[i == 2], 2 * RECEIVES, &queues[i]))
			die("make a queue of XRC");
	}
	for (uint32_t i = 0; i < RECEIVES; i++)
		give_receive(victim, victim->number * RECEIVES + i);
	build(victim, NULL);
}

/* The shared receive queue anew: receives that QPs had taken are gone with them. */
static void renew_shared(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 2 * RECEIVES, .max_sge = 1 } };

	for (size_t i = 0; i < VICTIMS; i++)
		if (victims[i].shared && victims[i].qp) {
			unmake_victim(&victims[i]);
			victims[i].qp = NULL;
		}
	if (srq && ibv_destroy_srq(srq))
		die("destroy an SRQ");
	srq = ibv_create_srq(pd, &init);
	if (!srq)
		die("make an SRQ");
	for (uint32_t i = 0; i < RECEIVES; i++)
		give_receive(&(struct victim){ .shared = true }, VICTIMS * RECEIVES + i);
	for (size_t i = 0; i < VICTIMS; i++)
		if (victims[i].shared)
			build(&victims[i], peer_ah[victims[i].six]);
		else if (victims[i].xrc)
			renew_queues(&victims[i]);
}

static void round_of(uint64_t seed, uint64_t number)
{
	const char *where;

	fuzz_seed(seed, number);
	swept = number * (ROUND / 5);
	if (number % 32 == 0)
		renew_shared();
	if (number % 64 == 5)
		register_open();
	for (int sent = 0; sent < ROUND; sent += BATCH) {
		while (frame_count < BATCH)
			one();
		flush();
		listen_in();
		for (size_t i = 0; i < VICTIMS; i++)
			if (!one_in(8))
				look_after(&victims[i]);
	}
	drain_events();
	rounds++;
	where = damage();
	if (where || leaks || bystander.failed) {
		printf("round %lu of seed %lu\n", (unsigned long)number, (unsigned long)seed);
		verdict("memory that is not registered stays as it is", !where, false, where);
		verdict("no byte of it was sent", !leaks, false, "a packet has it");
		verdict("the connection beside it goes on", !bystander.failed, false, bystander.failed);
		exit(1);
	}
}

/* The index of the GID that an IP version's address has, and the GID: the first of RoCE v2 that is no link-local one. */
static int gid_of(struct ibv_context *device, bool six, union ibv_gid *found)
{
	struct ibv_gid_entry entries[64];
	ssize_t count = ibv_query_gid_table(device, entries, 64, 0);

	for (ssize_t i = 0; i < count; i++) {
		bool mapped = !memcmp(entries[i].gid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);

		if (entries[i].gid_type != IBV_GID_TYPE_ROCE_V2 || mapped == six || entries[i].gid.raw[0] == 0xfe)
			continue;
		*found = entries[i].gid;
		return entries[i].gid_index;
	}
	die("there is no such GID");
	return -1;
}

/* Both ends of the bystander; what verbs.h takes for the device is the one under attack afterwards. */
static void bystander_init(char **argv, union ibv_gid gids[2][2], int indices[2][2])
{
	static const struct setup setup = { 0 };

	for (int end = 1; end >= 0; end--) {
		open_device(3, (char *[]){ argv[0], argv[end ? 4 : 1], "0" });
		for (int six = 0; six < 2; six++)
			indices[end][six] = gid_of(context, six, &gids[end][six]);
		end_init(&bystander.ends[end], &setup);
	}
	for (int end = 0; end < 2; end++) {
		gid = gids[!end][0];
		gid_index = indices[end][0];
		bystander_connect(&bystander.ends[end], &bystander.ends[!end]);
	}
}

static void set_up(char **argv)
{
	static union ibv_gid gids[2][2];
	static int indices[2][2];

	bystander_init(argv, gids, indices);
	wire_init(&argv[2], &argv[5], gids);
	for (int six = 0; six < 2; six++) {
		peer_gid[six] = gids[1][six];
		gid_indices[six] = indices[0][six];
	}
	groups_init(argv[3], groups);
	for (size_t i = 0; i < VICTIMS; i++)
		victims[i].number = i;
	arena_init();
	for (int six = 0; six < 2; six++) {
		struct ibv_ah_attr attr = to_peer(&(struct victim){ .six = six });

		peer_ah[six] = ibv_create_ah(pd, &attr);
		if (!peer_ah[six])
			die("make an AH");
	}
}

static void report(uint64_t total)
{
	uint64_t opcodes = 0, lengths = 0, rebuilt = 0, received = 0, done = 0, answers = 0, asked = 0;

	for (int i = 0; i < KINDS; i++)
		printf("%9lu %s\n", (unsigned long)counts[i], kinds[i]);
	for (int i = 0; i < 256; i++) {
		opcodes += opcodes_swept[i];
		*((i & 0x1f) >= READ_FIRST && (i & 0x1f) <= ATOMIC_ACK && i < 0x20 ? &answers : &asked) += seen_of[i];
	}
	for (int i = 0; i < LENGTHS; i++)
		lengths += lengths_swept[i];
	for (size_t i = 0; i < VICTIMS; i++) {
		rebuilt += victims[i].rebuilt;
		received += victims[i].received;
		done += victims[i].done;
	}
	printf("%9lu packets in all, %lu of them with a wrong ICRC, %lu IPv6\n", (unsigned long)total, (unsigned long)wrong_icrcs, (unsigned long)sixes);
	printf("%lu opcodes, %lu lengths\n", (unsigned long)opcodes, (unsigned long)lengths);
	printf("%lu buffers of several packets were refused where they were sent\n", (unsigned long)segmented_refused);
	printf("the device sent %lu answers and %lu requests; %lu receives and %lu sends succeeded, QPs were built %lu times, %lu events\n",
	       (unsigned long)answers, (unsigned long)asked, (unsigned long)received, (unsigned long)done, (unsigned long)rebuilt, (unsigned long)events);
	for (size_t i = 0; i < ARRAY_SIZE(completions); i++)
		if (completions[i])
			printf("%9lu completions: %s\n", (unsigned long)completions[i], ibv_wc_status_str(i));
	printf("%lu exchanges of the connection beside it\n", (unsigned long)bystander.messages);
	verdict("forged packets reach both sides of QPs", answers > total / 1000 && received > total / 1000 && done > total / 1000, false, "too few");
}

int main(int argc, char **argv)
{
	uint64_t count, seed, number, total = 0;

	if (argc < 8)
		die("usage: DEVICE NETNS NETDEV PEER_DEVICE PEER_NETNS PEER_NETDEV COUNT [SEED [FIRST_ROUND]]");
	count = strtoull(argv[7], NULL, 0);
	seed = argc > 8 ? strtoull(argv[8], NULL, 0) : 1;
	number = argc > 9 ? strtoull(argv[9], NULL, 0) : 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("seed %lu\n", (unsigned long)seed);
	set_up(argv);
	fuzz_seed(seed, ~0ull);
	renew_shared();
	for (size_t i = 0; i < VICTIMS; i++)
		if (!victims[i].shared)
			build(&victims[i], peer_ah[victims[i].six]);
	pthread_create(&bystander.thread, NULL, exchanges, &bystander);
	for (; total < count; number++) {
		round_of(seed, number);
		total = 0;
		for (int i = 0; i < KINDS; i++)
			total += counts[i];
	}
	bystander_stop(&bystander);
	report(total);
	verdict("memory that is not registered stays as it is", !damage(), false, damage());
	verdict("no byte of it was sent", !leaks, false, "a packet has it");
	verdict("the connection beside it goes on", !bystander.failed && bystander.messages, false, bystander.failed ?: "no exchange");
	return all_done();
}
