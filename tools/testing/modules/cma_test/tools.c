// SPDX-License-Identifier: GPL-2.0
/* Addresses and queue pairs for the tests. */
#include <linux/netdevice.h>

#include "cma_test.h"

static struct sockaddr_storage *slot(void)
{
	static struct sockaddr_storage slots[16];
	static unsigned int next;
	struct sockaddr_storage *addr = &slots[next++ % ARRAY_SIZE(slots)];

	memset(addr, 0, sizeof(*addr));
	return addr;
}

struct sockaddr *rt_sa_on(const char *text, u16 port, int ifindex)
{
	struct sockaddr_storage *addr = slot();
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;
	struct sockaddr_in *in = (struct sockaddr_in *)addr;

	if (strchr(text, ':')) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		in6->sin6_scope_id = ifindex;
		if (!in6_pton(text, -1, in6->sin6_addr.s6_addr, -1, NULL))
			pr_err("%s is no address\n", text);
	} else {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		if (!in4_pton(text, -1, (u8 *)&in->sin_addr, -1, NULL))
			pr_err("%s is no address\n", text);
	}
	return (struct sockaddr *)addr;
}

struct sockaddr *rt_sa(const char *text, u16 port)
{
	return rt_sa_on(text, port, 0);
}

struct sockaddr *rt_sib(u64 service, u64 mask, const char *gid)
{
	struct sockaddr_storage *addr = slot();
	struct sockaddr_ib *ib = (struct sockaddr_ib *)addr;

	ib->sib_family = AF_IB;
	ib->sib_pkey = cpu_to_be16(0xffff);
	ib->sib_sid = cpu_to_be64(service);
	ib->sib_sid_mask = cpu_to_be64(mask);
	if (!in6_pton(gid, -1, (u8 *)&ib->sib_addr, -1, NULL))
		pr_err("%s is no GID\n", gid);
	return (struct sockaddr *)addr;
}

u16 rt_port(const struct rdma_cm_id *id)
{
	const struct sockaddr_storage *addr = &id->route.addr.src_addr;

	if (addr->ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *)addr)->sin6_port);
	return ntohs(((struct sockaddr_in *)addr)->sin_port);
}

bool rt_is(const struct sockaddr_storage *addr, const char *text)
{
	const struct sockaddr *other = rt_sa(text, 0);

	if (addr->ss_family != other->sa_family)
		return false;
	if (addr->ss_family == AF_INET6)
		return ipv6_addr_equal(&((struct sockaddr_in6 *)addr)->sin6_addr, &((struct sockaddr_in6 *)other)->sin6_addr);
	return ((struct sockaddr_in *)addr)->sin_addr.s_addr == ((struct sockaddr_in *)other)->sin_addr.s_addr;
}

int rt_ifindex(const char *name)
{
	struct net_device *netdev = dev_get_by_name(current->nsproxy->net_ns, name);
	int ifindex = netdev ? netdev->ifindex : -1;

	dev_put(netdev);
	return ifindex;
}

int rt_queues_up(struct rt_queues *queues, struct ib_device *device)
{
	queues->pd = ib_alloc_pd(device, 0);
	if (IS_ERR(queues->pd))
		return PTR_ERR(queues->pd);
	queues->cq = ib_alloc_cq(device, NULL, 16, 0, IB_POLL_DIRECT);
	if (!IS_ERR(queues->cq))
		return 0;
	ib_dealloc_pd(queues->pd);
	return PTR_ERR(queues->cq);
}

void rt_queues_down(struct rt_queues *queues)
{
	ib_free_cq(queues->cq);
	ib_dealloc_pd(queues->pd);
}

int rt_create_qp(struct rt_end *end, struct rt_queues *queues)
{
	struct ib_qp_init_attr attr = {
		.send_cq = queues->cq, .recv_cq = queues->cq, .qp_type = end->id->qp_type, .sq_sig_type = IB_SIGNAL_ALL_WR,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	return rdma_create_qp(end->id, queues->pd, &attr);
}

enum ib_qp_state rt_qp_state(struct ib_qp *qp)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	return ib_query_qp(qp, &attr, IB_QP_STATE, &init) ? -1 : attr.qp_state;
}
