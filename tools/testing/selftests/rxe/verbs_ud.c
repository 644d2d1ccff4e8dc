// SPDX-License-Identifier: GPL-2.0
/*
 * Datagrams: the 40 bytes before the data, an answer to the sender that a completion names, keys that do not fit, GIDs that go.
 *
 *   verbs_ud DEVICE GID_INDEX NETDEV
 */
#include "verbs.h"

#define AT 8192

static struct end a, b;

/* Sends from one end to the other; the completion at the receiver. */
static struct ibv_wc say(struct end *from, struct end *to, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(from, to, IBV_WR_SEND, &sge);

	sge.length = 200;
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = qkey;
	post_receive(to, 5, AT, 4096);
	if (!ah || post(from, &wr) || wait_wc(from, 3000).status)
		die("send a datagram");
	return wait_wc(to, 500);
}

/* RoCE v2: an IPv6 header, or 20 bytes and an IPv4 header. */
static void header(const char *name, bool v4)
{
	struct ibv_ah_attr attr = address();
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	struct ibv_wc wc = say(&a, &b, ah, b.qp->qp_num, QKEY);
	const uint8_t *grh = (uint8_t *)b.buffer + AT, *self = gid.raw;
	bool good = !wc.status && wc.wc_flags & IBV_WC_GRH && wc.byte_len == 240 && !memcmp(grh + 40, a.buffer, 200);
	char why[200] = "";

	if (v4)
		good = good && grh[20] == 0x45 && grh[29] == 17 && !memcmp(grh + 32, self + 12, 4) && !memcmp(grh + 36, self + 12, 4);
	else
		good = good && grh[0] >> 4 == 6 && grh[6] == 17 && !memcmp(grh + 8, self, 16) && !memcmp(grh + 24, self, 16);
	for (int i = 0; i < 40; i++)
		sprintf(why + strlen(why), "%02x", grh[i]);
	verdict(name, good, false, why);
	/* As mlx5 tells it, and UCX before 1.19 reads it: bit 3 is a UDP header, below it are 2 for IPv4 and 1 for IPv6. */
	snprintf(why, sizeof(why), "%d", wc.sl);
	verdict(v4 ? "the service level says IPv4 and UDP" : "the service level says IPv6 and UDP", wc.sl == (v4 ? 10 : 9), true, why);
	ibv_destroy_ah(ah);
}

/* A peer without a known address is answered at the address in the completion. */
static void echo(const char *name)
{
	struct ibv_ah_attr attr = address(), back = { 0 };
	struct ibv_ah *ah = ibv_create_ah(pd, &attr), *answer;
	struct ibv_wc wc = say(&a, &b, ah, b.qp->qp_num, QKEY);
	char title[80];
	bool init = !ibv_init_ah_from_wc(context, 1, &wc, (struct ibv_grh *)(b.buffer + AT), &back);

	snprintf(title, sizeof(title), "ibv_init_ah_from_wc, %s", name);
	verdict(title, init && back.is_global && back.port_num == 1 && !memcmp(&back.grh.dgid, &gid, 16) && back.grh.sgid_index == gid_index,
		false, "attributes");
	memset(b.buffer, 0x77, 200);
	answer = ibv_create_ah(pd, &back);
	wc = say(&b, &a, answer, wc.src_qp, QKEY);
	snprintf(title, sizeof(title), "an answer by it, %s", name);
	verdict(title, !wc.status && wc.byte_len == 240 && wc.src_qp == b.qp->qp_num && !memcmp(a.buffer + AT + 40, b.buffer, 200), false,
		"nothing comes");
	if (answer)
		ibv_destroy_ah(answer);
	ibv_destroy_ah(ah);
}

/* A wrong Q_Key is counted, and the datagram dropped. */
static void wrong_key(void)
{
	struct ibv_ah_attr attr = address();
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	struct ibv_port_attr before, after;
	char why[80];
	struct ibv_wc wc;

	ibv_query_port(context, 1, &before);
	wc = say(&a, &b, ah, b.qp->qp_num, QKEY + 1);
	ibv_query_port(context, 1, &after);
	snprintf(why, sizeof(why), "status %d, counter %u to %u", wc.status, before.qkey_viol_cntr, after.qkey_viol_cntr);
	verdict("a wrong Q_Key is dropped", (int)wc.status == -1, false, why);
	verdict("qkey_viol_cntr counts it", after.qkey_viol_cntr == before.qkey_viol_cntr + 1, false, why);
	ibv_destroy_ah(ah);
}

/* A Q_Key with its highest bit set stands for that of the sender's own queue pair. */
static void own_key(void)
{
	struct ibv_ah_attr attr = address();
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	struct ibv_wc wc = say(&a, &b, ah, b.qp->qp_num, 0x80000000 | (QKEY + 1));
	char why[32];

	snprintf(why, sizeof(why), "status %d", (int)wc.status);
	verdict("a Q_Key with the highest bit: the queue pair's own is sent", !wc.status && wc.byte_len == 240, true, why);
	ibv_destroy_ah(ah);
}

/* A process without CAP_NET_RAW cannot set a Q_Key with the highest bit. */
static void privileged_key(void)
{
	struct setup ud = { .type = IBV_QPT_UD };
	struct ibv_qp_attr attr;
	int mask = step(IBV_QPS_INIT, &ud, 0, &attr), refused, usual, allowed;
	char why[80];

	attr.qkey = 0x80010000;
	if (move(a.qp, IBV_QPS_RESET) || seteuid(65534))
		die("be nobody");
	refused = ibv_modify_qp(a.qp, &attr, mask);
	attr.qkey = QKEY;
	usual = ibv_modify_qp(a.qp, &attr, mask);
	if (move(a.qp, IBV_QPS_RESET) || seteuid(0))
		die("be root");
	attr.qkey = 0x80010000;
	allowed = ibv_modify_qp(a.qp, &attr, mask);
	snprintf(why, sizeof(why), "errors %d, %d, %d", refused, usual, allowed);
	verdict("a privileged Q_Key: EPERM without CAP_NET_RAW", refused == EPERM && !usual && !allowed, false, why);
}

/* The index of the GID of an address 10.0.9.x, -1 without one; waits until there is one, or none. */
static int find_gid(uint8_t x, bool there)
{
	static const uint8_t start[] = { [10] = 0xff, 0xff, 10, 0, 9 };
	long until = now_ms() + 5000;
	int found;

	do {
		found = -1;
		for (int i = 0; i < 64; i++) {
			struct ibv_gid_entry entry;

			if (!ibv_query_gid_ex(context, 1, i, &entry, 0) && !memcmp(entry.gid.raw, start, 15) && entry.gid.raw[15] == x)
				found = i;
		}
		if ((found >= 0) == there)
			break;
		usleep(20000);
	} while (now_ms() < until);
	return found;
}

static int change(const char *what, uint8_t x, const char *netdev)
{
	char command[128];

	snprintf(command, sizeof(command), "ip addr %s 10.0.9.%d/32 dev %s", what, x, netdev);
	if (system(command))
		die(command);
	return find_gid(x, *what == 'a');
}

/* A queue pair keeps nothing of the GID that it has sent from: once its address has gone, another one has its place. */
static void gid_goes(const char *netdev)
{
	struct ibv_ah_attr attr = address();
	int first = change("add", 1, netdev), left, second;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	char why[80];

	attr.grh.sgid_index = first;
	ah = ibv_create_ah(pd, &attr);
	wc = say(&a, &b, ah, b.qp->qp_num, QKEY);
	ibv_destroy_ah(ah);
	left = change("del", 1, netdev);
	second = change("add", 2, netdev);
	change("del", 2, netdev);
	snprintf(why, sizeof(why), "status %d, entries %d, %d, %d", (int)wc.status, first, left, second);
	verdict("a GID that goes leaves its entry to the next one", !wc.status && first >= 0 && left < 0 && second == first, false, why);
}

int main(int argc, char **argv)
{
	static const struct setup ud = { .type = IBV_QPT_UD };
	struct ibv_gid_entry entry;

	if (argc < 4)
		die("usage: DEVICE GID_INDEX NETDEV");
	open_device(argc, argv);
	pair_init(&a, &b, &ud);
	for (int i = 0; i < 200; i++)
		a.buffer[i] = i * 3;
	header("GRH: an IPv4 header in its last 20 bytes", true);
	echo("IPv4");
	gid_goes(argv[3]);
	wrong_key();
	own_key();
	for (int i = 0; i < 16; i++) /* the address fd00::1 */
		if (!ibv_query_gid_ex(context, 1, i, &entry, 0) && entry.gid.raw[0] == 0xfd)
			gid = entry.gid, gid_index = i;
	end_destroy(&a);
	end_destroy(&b);
	pair_init(&a, &b, &ud);
	header("GRH: an IPv6 header", false);
	echo("IPv6");
	privileged_key();
	end_destroy(&a);
	end_destroy(&b);
	return all_done();
}
