/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Frames to a device from the network namespace of its peer, and a look at all that comes back.
 */
#ifndef FUZZ_WIRE_H
#define FUZZ_WIRE_H

#include "fuzz_packet.h"
#include "verbs.h"
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define BATCH 64
#define SEGMENTED_BATCH 8

static int sender, segment_sender, listener;
static struct frame frames[BATCH + 4];
static size_t frame_count;
static struct segmented segmented[SEGMENTED_BATCH];	/* sent after the frames */
static size_t segmented_count;
static uint64_t segmented_refused;	/* by the socket they were sent to */
static struct segmented heard[BATCH];
static struct path paths[2], group_paths[2];	/* by IP version */

static void flush(void)
{
	static struct mmsghdr messages[BATCH + 4];
	static struct iovec pieces[BATCH + 4];
	size_t sent = 0;

	for (size_t i = 0; i < frame_count; i++) {
		pieces[i] = (struct iovec){ frames[i].bytes, frames[i].length };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &pieces[i], .msg_iovlen = 1 };
	}
	while (sent < frame_count) {
		int count = sendmmsg(sender, messages + sent, frame_count - sent, 0);

		if (count <= 0 && errno != ENOBUFS && errno != EAGAIN && errno != EINTR)
			die("send frames");
		if (count > 0)
			sent += count;
	}
	frame_count = 0;
	for (size_t i = 0; i < segmented_count; i++) {
		struct iovec parts[] = { { &segmented[i].offload, sizeof(segmented[i].offload) }, { segmented[i].bytes, segmented[i].length } };

		while (writev(segment_sender, parts, 2) < 0)
			/* With other lengths than it has, a buffer is refused, or cannot be cut. */
			if (errno == EINVAL || errno == ENOBUFS) {
				segmented_refused++;
				break;
			} else if (errno != EAGAIN && errno != EINTR) {
				die("send a frame of several packets");
			}
	}
	segmented_count = 0;
}

/* What has come since the last time; how many frames, 0 for none. */
static inline int receive_frames(void)
{
	static struct mmsghdr messages[BATCH];
	static struct iovec pieces[BATCH][2];
	int count;

	for (int i = 0; i < BATCH; i++) {
		pieces[i][0] = (struct iovec){ &heard[i].offload, sizeof(heard[i].offload) };
		pieces[i][1] = (struct iovec){ heard[i].bytes, SEGMENTED };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = pieces[i], .msg_iovlen = 2 };
	}
	count = recvmmsg(listener, messages, BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < count; i++)
		heard[i].length = messages[i].msg_len - sizeof(heard[i].offload);
	return count;
}

static void in_namespace(const char *name)
{
	char file[128];
	int fd;

	snprintf(file, sizeof(file), "/run/netns/%s", name);
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(file);
	close(fd);
}

static void mac_of(const char *netdev, uint8_t *mac)
{
	struct ifreq request = {};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	strncpy(request.ifr_name, netdev, IFNAMSIZ - 1);
	if (ioctl(fd, SIOCGIFHWADDR, &request))
		die(netdev);
	memcpy(mac, request.ifr_hwaddr.sa_data, 6);
	close(fd);
}

static int packet_socket(const char *netdev, int protocol, int option, bool offload)
{
	struct sockaddr_ll address = { .sll_family = AF_PACKET, .sll_protocol = htons(protocol), .sll_ifindex = if_nametoindex(netdev) };
	int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1, size = 32 << 20;

	if (fd < 0 || setsockopt(fd, SOL_PACKET, option, &one, sizeof(one)) ||
	    (offload && setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one))) || bind(fd, (void *)&address, sizeof(address)))
		die("open a packet socket");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	return fd;
}

/* Joins two groups, of IPv4 and IPv6; their GIDs. */
static inline void groups_init(const char *netdev, union ibv_gid *groups)
{
	struct ip_mreqn four = { .imr_ifindex = if_nametoindex(netdev) };
	struct ipv6_mreq six = { .ipv6mr_interface = if_nametoindex(netdev) };

	inet_pton(AF_INET, "239.5.134.7", &four.imr_multiaddr);
	inet_pton(AF_INET6, "ff15::5:6:7", &six.ipv6mr_multiaddr);
	if (setsockopt(socket(AF_INET, SOCK_DGRAM, 0), IPPROTO_IP, IP_ADD_MEMBERSHIP, &four, sizeof(four)) ||
	    setsockopt(socket(AF_INET6, SOCK_DGRAM, 0), IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &six, sizeof(six)))
		die("join the groups");
	groups[0].raw[10] = groups[0].raw[11] = 0xff;
	memcpy(groups[0].raw + 12, &four.imr_multiaddr, 4);
	memcpy(groups[1].raw, &six.ipv6mr_multiaddr, 16);
	memcpy(group_paths, paths, sizeof(paths));
	for (int version = 0; version < 2; version++) {
		memcpy(group_paths[version].target, groups[version].raw + (version ? 0 : 12), version ? 16 : 4);
		memcpy(group_paths[version].target_mac, version ? "\x33\x33" : "\x01\x00\x5e", 3 - version);
		memcpy(group_paths[version].target_mac + 3 - version, groups[version].raw + (version ? 12 : 13), version ? 4 : 3);
	}
	group_paths[0].target_mac[3] &= 0x7f;
}

/* `here` and `there` are a network namespace and its device; the GIDs are those of here and there, by IP version. */
static void wire_init(char **here, char **there, union ibv_gid gids[2][2])
{
	uint8_t mac[6], peer_mac[6];

	crc_init();
	in_namespace(there[0]);
	mac_of(there[1], peer_mac);
	sender = packet_socket(there[1], 0, PACKET_QDISC_BYPASS, false);
	segment_sender = packet_socket(there[1], 0, PACKET_QDISC_BYPASS, true);
	listener = packet_socket(there[1], ETH_P_ALL, PACKET_IGNORE_OUTGOING, true);
	in_namespace(here[0]);
	mac_of(here[1], mac);
	for (int six = 0; six < 2; six++) {
		size_t from = six ? 0 : 12;

		paths[six].six = six;
		memcpy(paths[six].source, gids[1][six].raw + from, 16 - from);
		memcpy(paths[six].target, gids[0][six].raw + from, 16 - from);
		memcpy(paths[six].source_mac, peer_mac, 6);
		memcpy(paths[six].target_mac, mac, 6);
	}
}

#endif
