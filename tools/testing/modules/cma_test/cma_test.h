/* SPDX-License-Identifier: GPL-2.0 */
/* Tests of rdma_cm: what their files share. */
#ifndef CMA_TEST_H
#define CMA_TEST_H

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/inet.h>
#include <linux/inetdevice.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <linux/xarray.h>
#include <net/ipv6.h>
#include <rdma/ib.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include <rdma/rdma_cm_ib.h>

#undef pr_fmt
#define pr_fmt(fmt) "cma_test: " fmt

/* A line of the log for each check: "pass|TEST: WHAT", or "fail|TEST: WHAT|got VALUE". */
void rt_result(bool ok, const char *what, long long got);
#define CHECK(what, condition) rt_result(condition, what, 0)
#define CHECK_EQ(what, wanted, got)						\
	do {									\
		long long __got = (long long)(got);				\
		rt_result(__got == (long long)(wanted), what, __got);		\
	} while (0)

/* Whether the module is to do what stock's does not. */
extern bool rt_strict;

/* The addresses that the script has given: the device's, one of a network device without RDMA, one that nobody has. */
#define RT_HERE "10.1.0.1"
#define RT_HERE6 "fd01::1"
#define RT_LINK_LOCAL "fe80::1"
#define RT_SECOND "10.1.1.1"	/* of a second device */
#define RT_PLAIN "10.2.0.1"
#define RT_NEAR_PLAIN "10.2.0.2"
#define RT_NOBODY "10.1.0.77"
#define RT_NEIGHBOUR "10.1.0.50"	/* whose MAC address is said to be known */
#define RT_UNREACHABLE "10.9.0.1"
#define RT_PORT 7471
#define RT_EVENTS 8

/* An event, with what it points to. */
struct rt_event {
	struct rdma_cm_event event;
	u8 data[256];
	bool has_data;
	struct rdma_cm_id *id;
	struct ib_device *device;	/* of the identifier when it was told */
};

/* An end of a connection: its identifier, the events that it was told, and what its handler answers. */
struct rt_end {
	struct rdma_cm_id *id;
	struct rt_end *for_child;	/* whose the identifiers of peers become */
	int fails_at;			/* the number of the event at which the handler returns an error, 0 for none */
	int told, taken;
	struct rt_event events[RT_EVENTS];
	int (*act)(struct rt_end *end, struct rdma_cm_event *event);	/* what the handler does besides */
	int acted;			/* the first error of it */
	struct completion *wait_for;	/* the handler waits for it */
	atomic_t inside, most_inside;
};

extern atomic_t rt_qpn;	/* of the queue pair before, which nobody has */

/* An address of a text, good until sixteen more have been made. */
struct sockaddr *rt_sa(const char *text, u16 port);
struct sockaddr *rt_sa_on(const char *text, u16 port, int ifindex);
struct sockaddr *rt_sib(u64 service, u64 mask, const char *gid);
u16 rt_port(const struct rdma_cm_id *id);	/* of the local address */
bool rt_is(const struct sockaddr_storage *addr, const char *text);	/* whether it has this address */
int rt_ifindex(const char *name);

rdma_cm_event_handler rt_handler_of(void);
int rt_up(struct rt_end *end, enum rdma_ucm_port_space ps, enum ib_qp_type type);	/* creates an identifier */
#define rt_up_tcp(end) rt_up(end, RDMA_PS_TCP, IB_QPT_RC)
#define rt_up_udp(end) rt_up(end, RDMA_PS_UDP, IB_QPT_UD)
void rt_down(struct rt_end *end);		/* destroys it */
bool rt_destroy_rest(void);			/* of all tests; whether there were some */
void rt_forget(struct rt_end *end);		/* makes an end without an identifier */
/* The next event that an end is told; NULL if there is none in time. */
struct rt_event *rt_next(struct rt_end *end);
bool rt_is_next(struct rt_end *end, enum rdma_cm_event_type type);
bool rt_quiet(struct rt_end *end);		/* no event comes for a while */

/* Ends in a state: 0, or the first error. */
int rt_bound(struct rt_end *end, const char *text, u16 port);
int rt_listen(struct rt_end *listener, struct rt_end *child, const char *text, u16 port);
int rt_resolved(struct rt_end *end, const char *text, u16 port);	/* the address of a port */
int rt_routed(struct rt_end *end, const char *text, u16 port);		/* and the route */
int rt_listen_udp(struct rt_end *listener, struct rt_end *child, const char *text, u16 port);
int rt_routed_udp(struct rt_end *end, const char *text, u16 port);

struct rdma_conn_param rt_param(const void *data, u8 length);
int rt_connect(struct rt_end *end, const void *data, u8 length);
int rt_accept(struct rt_end *end, const void *data, u8 length);	/* a request */
int rt_go(struct rt_end *end);					/* an answer */
/* Asks, until the peer is told. */
bool rt_ask(struct rt_end *listener, struct rt_end *active, struct rt_end *passive);
/* A connection: each end established, all events taken. */
bool rt_join(struct rt_end *listener, struct rt_end *active, struct rt_end *passive);
int rt_mask(struct rdma_cm_id *id, enum ib_qp_state state, struct ib_qp_attr *attr);	/* or an errno */

/* A queue pair of an end, with what it needs. */
struct rt_queues {
	struct ib_pd *pd;
	struct ib_cq *cq;
};
int rt_queues_up(struct rt_queues *queues, struct ib_device *device);
void rt_queues_down(struct rt_queues *queues);
int rt_create_qp(struct rt_end *end, struct rt_queues *queues);
enum ib_qp_state rt_qp_state(struct ib_qp *qp);

void rt_test_names(void);
void rt_test_ids(void);
void rt_test_states(void);
void rt_test_bind(void);
/* One that is bound at the second try, and its end. */
void rt_test_bound_later(void);
void rt_test_bound_no_more(void);
void rt_test_resolve(void);
void rt_test_listen(void);
void rt_test_connect(void);
void rt_test_qp(void);
void rt_test_datagram(void);
void rt_test_groups(void);
void rt_test_handlers(void);
void rt_test_storm(void);
/* Routes to a neighbour, which then moves. */
void rt_test_neighbour(void);
void rt_test_moved(void);
/* Identifiers in each state; then their device has gone; then it is there again. */
void rt_test_leave(void);
void rt_test_left(void);
void rt_test_back(void);
/* A listener that is there before a device, with it, without it again, and its end. */
void rt_test_early(void);
void rt_test_second(void);
void rt_test_only(void);
void rt_test_late(void);
void rt_test_iwarp(void);
/* On a device of InfiniBand, and its subnet administrator. */
void rt_test_ib(void);
void rt_test_services(void);
void rt_test_no_services(void);
void rt_test_no_paths(void);
const char *rt_ib_gid(int port);
/* Groups at a network device of it, which the administrator has, refuses, and has again. */
void rt_test_ib_net_device(void);
void rt_test_ib_groups(void);
void rt_test_no_ib_groups(void);
void rt_test_ib_groups_again(void);
/* In network namespaces. */
void rt_test_host_a(void);
void rt_test_host_none(void);
void rt_test_host_b(void);
void rt_test_host_exclusive(void);
void rt_test_host_shared(void);
void rt_test_host_gone(void);

#endif
