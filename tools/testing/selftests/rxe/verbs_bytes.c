// SPDX-License-Identifier: GPL-2.0
/*
 * Every byte of a message between two devices, of many lengths, from and to odd addresses, from three elements of a scatter list.
 *
 *   verbs_bytes DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX
 */
#include "verbs.h"

#define MOST 200000
#define PIECES 3

static const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
static const char *const names[] = { "send", "write", "read" };
static struct end ends[2];

/* Ends on both devices that are connected. */
static void connect_ends(char **argv, const struct setup *setup)
{
	union ibv_gid gids[2];
	int indices[2];

	for (int i = 0; i < 2; i++) {
		open_device(3, (char *[]){ argv[0], argv[1 + 2 * i], argv[2 + 2 * i] });
		gids[i] = gid;
		indices[i] = gid_index;
		end_init(&ends[i], setup);
	}
	for (int i = 0; i < 2; i++) {
		gid = gids[!i];
		gid_index = indices[i];
		if (climb(ends[i].qp, IBV_QPS_RTS, setup, ends[!i].qp->qp_num))
			die("connect two devices");
	}
}

/* Returns whether all bytes of a message came, and no others. */
static bool whole(enum ibv_wr_opcode opcode, uint32_t length, uint32_t from, uint32_t to)
{
	struct end *a = &ends[0], *b = &ends[1];
	bool reads = opcode == IBV_WR_RDMA_READ;
	char *source = (reads ? b : a)->buffer + from, *target = (reads ? a : b)->buffer + to;
	struct ibv_sge pieces[PIECES];
	struct ibv_send_wr wr = request(a, b, opcode, pieces);
	uint32_t each = length / PIECES;

	for (int i = 0; i < PIECES; i++)
		pieces[i] = (struct ibv_sge){ (uintptr_t)(reads ? target : source) + i * each, i < PIECES - 1 ? each : length - i * each, a->mr->lkey };
	wr.num_sge = PIECES;
	wr.wr.rdma.remote_addr = (uintptr_t)(reads ? source : target);
	for (uint32_t i = 0; i < length; i++)
		source[i] = random();
	target[-1] = target[length] = 0x5a;
	if (opcode == IBV_WR_SEND && post_receive(b, 1, to, length))
		return false;
	if (post(a, &wr) || wait_wc(a, 5000).status)
		return false;
	if (opcode == IBV_WR_SEND && wait_wc(b, 5000).status)
		return false;
	return !memcmp(source, target, length) && target[-1] == 0x5a && target[length] == 0x5a;
}

int main(int argc, char **argv)
{
	static const uint32_t lengths[] = { 1, 255, 257, 1023, 4097, 12345, 65536, 100001, MOST };

	if (argc < 5)
		die("usage: DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX");
	for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++) {
		/* A second: what is sent again, because the machine is busy, would be a difference. */
		struct setup setup = { .mtu = mtu, .timeout = 18 };

		connect_ends(argv, &setup);
		for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
			char name[80], why[80] = "";

			for (size_t k = 0; k < ARRAY_SIZE(lengths); k++)
				if (!whole(opcodes[i], lengths[k], 1 + 37 * k, 2 + 1001 * k))
					snprintf(why, sizeof(why), "%u bytes", lengths[k]);
			snprintf(name, sizeof(name), "every byte, MTU %d, %s", 128 << mtu, names[i]);
			verdict(name, !*why, false, why);
		}
		end_destroy(&ends[0]);
		end_destroy(&ends[1]);
	}
	return all_done();
}
