// SPDX-License-Identifier: GPL-2.0
/*
 * Multicast among UD QPs of one device, in a group that this program joins at the IP layer too.
 *
 *   verbs_mcast DEVICE GID_INDEX GROUP MAC NETDEV [MLIDS]
 *
 * GROUP is an IP address of the kind that the GID is, MAC is what it is mapped to, in the form of /proc/net/dev_mcast. With MLIDS a
 * member is attached by two MLIDs, which the stock driver does not survive: it detaches by the GID alone.
 */
#include "verbs.h"
#include <arpa/inet.h>
#include <net/if.h>
#include <sys/socket.h>
/* After the C library's headers of the network: the kernel's leave out what they have. */
#include "uverbs_raw.h"

#define QPS 4	/* the last one is no member */

static struct end ends[QPS];
static union ibv_gid group;
static const char *mac;
static struct ibv_ah *ah;

/* The group as a GID; the host joins it. */
static void join(const char *name, const char *netdev)
{
	unsigned int index = if_nametoindex(netdev);
	struct ip_mreqn four = { .imr_ifindex = index };
	struct ipv6_mreq six = { .ipv6mr_interface = index };
	int error;

	if (inet_pton(AF_INET, name, &four.imr_multiaddr) == 1) {
		group.raw[10] = group.raw[11] = 0xff;
		memcpy(&group.raw[12], &four.imr_multiaddr, 4);
		error = setsockopt(socket(AF_INET, SOCK_DGRAM, 0), IPPROTO_IP, IP_ADD_MEMBERSHIP, &four, sizeof(four));
	} else {
		inet_pton(AF_INET6, name, &six.ipv6mr_multiaddr);
		memcpy(group.raw, &six.ipv6mr_multiaddr, 16);
		error = setsockopt(socket(AF_INET6, SOCK_DGRAM, 0), IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &six, sizeof(six));
	}
	if (error)
		die("join the group");
}

static void send_to_group(uint32_t qkey)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&ends[0], &ends[0], IBV_WR_SEND_WITH_IMM, &sge);

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = qkey;
	wr.imm_data = 77;
	sge.length = 1000;
	post(&ends[0], &wr);
}

/* What each QP gets of one datagram: "1" for a right copy; the sender's own completion is not counted. */
static const char *copies(uint32_t qkey)
{
	static char got[QPS + 1];

	memset(got, '0', QPS);
	for (int i = 0; i < QPS; i++) {
		memset(ends[i].buffer + 4096, 0, 2048);
		post_receive(&ends[i], 100 + i, 4096, 2048);
		post_receive(&ends[i], 200 + i, 8192, 2048);
	}
	memset(ends[0].buffer, rand(), 1000);
	send_to_group(qkey);
	for (int i = 0; i < QPS; i++) {
		struct ibv_wc wc;

		while ((int)(wc = wait_wc(&ends[i], 200)).status != -1) {
			if (wc.status)
				got[i] = 'E';
			else if (wc.opcode == IBV_WC_RECV)
				got[i] += wc.byte_len == 1040 && wc.imm_data == 77 && wc.src_qp == ends[0].qp->qp_num &&
					  !memcmp(ends[0].buffer, ends[i].buffer + (wc.wr_id < 200 ? 4096 : 8192) + 40, 1000) ? 1 : 5;
		}
	}
	/* Whatever is still posted goes. */
	for (int i = 0; i < QPS; i++) {
		static const struct setup ud = { .type = IBV_QPT_UD };

		move(ends[i].qp, IBV_QPS_RESET);
		if (climb(ends[i].qp, IBV_QPS_RTS, &ud, 0))
			die("UD to RTS again");
	}
	return got;
}

static void expect(const char *name, const char *wanted, uint32_t qkey)
{
	const char *got = copies(qkey);
	char why[80];

	snprintf(why, sizeof(why), "wanted %s, got %s", wanted, got);
	verdict(name, !strcmp(wanted, got), false, why);
}

static void refusals(void)
{
	static const struct setup rc = { 0 };
	struct end other;

	end_init(&other, &rc);
	verdict("no RC QP in a group", ibv_attach_mcast(other.qp, &group, 0) == EINVAL, false, "attached");
	end_destroy(&other);
	verdict("no unicast GID", ibv_attach_mcast(ends[0].qp, &gid, 0) == EINVAL, false, "attached");
	verdict("EINVAL: detach what is not attached", ibv_detach_mcast(ends[0].qp, &group, 0) == EINVAL, false, "detached");
}

/* A UD QP with flags of its creation, which the library would not let pass. */
static int create_flagged(uint32_t flags)
{
	struct ib_uverbs_ex_create_qp create = {
		.pd_handle = pd->handle, .send_cq_handle = ends[0].cq->handle, .recv_cq_handle = ends[0].cq->handle, .qp_type = IBV_QPT_UD,
		.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .create_flags = flags,
		.source_qpn = 1,
	};
	struct { struct ib_uverbs_ex_create_qp_resp core; struct rxe_create_qp_resp driver; } made = { { { 0 } } };
	struct ib_uverbs_destroy_qp destroy = { 0 };
	struct ib_uverbs_destroy_qp_resp gone;
	int error = raw_write_ex_driver(context->cmd_fd, IB_USER_VERBS_EX_CMD_CREATE_QP, &create, sizeof(create), &made, sizeof(made),
					sizeof(made.driver));

	destroy.qp_handle = made.core.base.qp_handle;
	if (!error && raw_write(context->cmd_fd, IB_USER_VERBS_CMD_DESTROY_QP, &destroy, sizeof(destroy), &gone, sizeof(gone)))
		die("destroy a QP");
	return error;
}

/* A sender that is a member gets its own datagrams, and no flag of its QP can change that; nor has the device what the other flags say. */
static void flags(void)
{
	static const struct { const char *name; uint32_t flag; } table[] = {
		{ "BLOCK_SELF_MCAST_LB", IBV_QP_CREATE_BLOCK_SELF_MCAST_LB }, { "SCATTER_FCS", IBV_QP_CREATE_SCATTER_FCS },
		{ "CVLAN_STRIPPING", IBV_QP_CREATE_CVLAN_STRIPPING }, { "SOURCE_QPN", IBV_QP_CREATE_SOURCE_QPN },
		{ "PCI_WRITE_END_PADDING", IBV_QP_CREATE_PCI_WRITE_END_PADDING },
	};
	int error = create_flagged(0);

	verdict("a QP without flags", !error, false, strerror(error));
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		char name[64];

		error = create_flagged(table[i].flag);
		snprintf(name, sizeof(name), "EOPNOTSUPP: a QP with %s", table[i].name);
		verdict(name, error == EOPNOTSUPP, false, strerror(error));
	}
}

int main(int argc, char **argv)
{
	static const struct setup ud = { .type = IBV_QPT_UD };
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	struct ibv_device_attr limits;
	int before;

	open_device(argc, argv);
	if (argc < 6)
		die("usage");
	mac = argv[4];
	join(argv[3], argv[5]);
	before = mcast_users(mac);
	ibv_query_device(context, &limits);
	verdict("the device has multicast groups", limits.max_mcast_grp > 0 && limits.max_mcast_qp_attach > 0 &&
		limits.max_total_mcast_qp_attach > 0, false, "attributes");
	for (int i = 0; i < QPS; i++) {
		end_init(&ends[i], &ud);
		if (climb(ends[i].qp, IBV_QPS_RTS, &ud, 0))
			die("UD to RTS");
	}
	attr.grh.dgid = group;
	attr.grh.sgid_index = gid_index;
	attr.grh.hop_limit = 1;
	ah = ibv_create_ah(pd, &attr);
	if (!ah)
		die("create an AH of a group");
	refusals();
	flags();
	expect("nobody is attached", "0000", QKEY);
	for (int i = 0; i < QPS - 1; i++)
		if (ibv_attach_mcast(ends[i].qp, &group, 0))
			die("attach");
	verdict("attached twice", !ibv_attach_mcast(ends[1].qp, &group, 0), false, strerror(errno));
	verdict("the net device listens", mcast_users(mac) == before + 1, true, "/proc/net/dev_mcast");
	expect("one copy for each member, the sender too", "1110", QKEY);
	expect("a wrong Q_Key is for nobody", "0000", QKEY + 1);
	verdict("EBUSY: a QP that is attached", ibv_destroy_qp(ends[1].qp) == EBUSY, false, "destroyed");
	ibv_detach_mcast(ends[1].qp, &group, 0);
	expect("no copy for who left", "1010", QKEY);
	ibv_detach_mcast(ends[0].qp, &group, 0);
	ibv_detach_mcast(ends[2].qp, &group, 0);
	verdict("the net device listens no more", mcast_users(mac) == before, true, "/proc/net/dev_mcast");
	expect("nobody is left", "0000", QKEY);
	ibv_attach_mcast(ends[0].qp, &group, 0);
	expect("the sender alone", "1000", QKEY);
	ibv_detach_mcast(ends[0].qp, &group, 0);
	ibv_attach_mcast(ends[3].qp, &group, 0);
	expect("a new member", "0001", QKEY);
	if (argc > 6) {
		verdict("attached by another MLID", !ibv_attach_mcast(ends[3].qp, &group, 1), false, strerror(errno));
		expect("one copy for it", "0001", QKEY);
		verdict("detached by one of them", !ibv_detach_mcast(ends[3].qp, &group, 0), false, strerror(errno));
		expect("it is a member", "0001", QKEY);
		verdict("attached by both", !ibv_attach_mcast(ends[3].qp, &group, 0), false, strerror(errno));
	}
	/* Ends with a member attached: the kernel detaches it. */
	return all_done();
}
