/* SPDX-License-Identifier: GPL-2.0 */
/* Tests of management datagrams: what their files share. */
#ifndef MAD_TEST_H
#define MAD_TEST_H

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/unaligned.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_smi.h>
#include "../fake_ib/fake_ib.h"

#undef pr_fmt
#define pr_fmt(fmt) "mad_test: " fmt

/*
 * A case is a call of a function that checks things: a line in the log that the test programs read if all of them are as they
 * should, else a line for each that is not. MT_FRESH() does so with a wire on which nothing is wrong and nothing was sent.
 */
void mt_case(const char *call);
/* Cases of a test follow. */
void mt_begin(const char *test);
#define MT_CASE(call) do { mt_case(#call); call; } while (0)
#define MT_FRESH(call) do { mt_case(#call); mt_wire_begin(NULL); call; } while (0)

void mt_result(bool ok, long long got, const char *fmt, ...) __printf(3, 4);
#define CHECK(condition, fmt, ...) mt_result(condition, 0, fmt, ##__VA_ARGS__)
#define CHECK_EQ(wanted, got, fmt, ...)							\
	do {										\
		long long __got = (long long)(got);					\
		mt_result(__got == (long long)(wanted), __got, fmt, ##__VA_ARGS__);	\
	} while (0)

/* Classes that nobody else uses. */
#define MT_CLASS 0x09			/* of vendors, without RMPP and OUI */
#define MT_OUI_CLASS 0x30		/* of vendors, with both */
#define MT_FENCE_VERSION 0x70
#define MT_FAR_LID 0x77			/* no port has it */

/* On a slow kernel everything takes longer, and limits are wider. */
extern int mt_slowness;
/* The core is one that keeps to the specification where the stock one is known not to. */
extern bool mt_strict;
/*
 * Milliseconds since a moment, in jiffies: what waits for a timer is measured by what that goes by. A machine that is emulated
 * and busy may count them late, and several at once.
 */
static inline s64 mt_ms_since(unsigned long moment)
{
	return jiffies_to_msecs(jiffies - moment);
}

/* "fakeib0", and a RoCE device or NULL. */
extern struct ib_device *mt_device, *mt_roce;
/* Called before "fakeib0" goes. */
extern void (*mt_on_remove)(void);

/* Agents */

#define MT_EVENTS 1024

/* What a handler was called with. */
struct mt_event {
	bool received;
	struct ib_mad_send_buf *send;	/* only to be compared: it is freed */
	int retries;
	/* Of a send: */
	enum ib_wc_status status;
	u32 vendor_err;
	/* Of a receive: */
	struct ib_mad_recv_wc *mad;	/* until mt_forget(); its completion is this one: */
	struct ib_wc wc;
	bool has_grh_buffer;
	int length;
	struct ib_mad_hdr hdr;
};

struct mt_agent {
	struct ib_mad_agent *agent;
	spinlock_t lock;
	wait_queue_head_t wait;
	struct mt_event *events;
	int count, sent, received;
	/* Called before the event is recorded. */
	void (*on_receive)(struct mt_agent *agent, const struct ib_mad_recv_wc *mad);
	void (*on_sent)(struct mt_agent *agent, const struct ib_mad_send_wc *wc);
	unsigned int sleep_ms;		/* in the send handler, before it is recorded */
};

/* The registration of an agent. */
struct mt_request {
	u32 port;
	enum ib_qp_type type;
	u8 class, version;
	u32 oui;
	const u8 *methods;		/* up to a 0; NULL: no request at all */
	u8 rmpp;
	u32 flags;
};
#define MT_METHODS(...) ((const u8[]){ __VA_ARGS__, 0 })
#define MT_SEND_ONLY(number) ((struct mt_request){ .port = number, .type = IB_QPT_GSI })

void mt_fill_request(struct ib_mad_reg_req *req, const struct mt_request *wanted);
int mt_open(struct mt_agent *agent, const struct mt_request *wanted);
/* Unregisters it; what it has seen stays until it is closed. */
void mt_unregister(struct mt_agent *agent);
void mt_close(struct mt_agent *agent);
/* Whether it could be; it is closed at once. */
int mt_try(const struct mt_request *wanted);
void mt_forget(struct mt_agent *agent);
/* Waits for so many sends that have come to an end, or datagrams received. */
bool mt_wait_sent(struct mt_agent *agent, int count, unsigned int ms);
bool mt_wait_received(struct mt_agent *agent, int count, unsigned int ms);
/* The nth event of a kind, from 0 on, or NULL. */
struct mt_event *mt_sent(struct mt_agent *agent, int nth);
struct mt_event *mt_received(struct mt_agent *agent, int nth);

/* Sends */

/* The way to a LID, without a GRH; it is kept until the device goes. */
struct ib_ah *mt_ah(struct ib_mad_agent *agent, u16 lid);
/* All of them go, before their device. */
void mt_drop_ahs(void);
/* A datagram of a class without RMPP, with a new transaction, whose data is the bytes 0, 1, 2... */
struct ib_mad_send_buf *mt_mad(struct mt_agent *agent, u16 lid, u8 class, u8 method, unsigned int timeout_ms, int retries);
struct ib_mad_send_buf *mt_mad_pkey(struct mt_agent *agent, u16 lid, u8 class, u8 method, unsigned int timeout_ms, int retries,
				    u16 pkey_index);
/* It is freed where it is refused. */
int mt_post(struct ib_mad_send_buf *send);
/* Answers a datagram; fire and forget. */
void mt_answer(struct mt_agent *agent, const struct ib_mad_recv_wc *mad);

/* The wire */

#define MT_PACKETS 4096
struct mt_wire {
	spinlock_t lock;
	struct fake_ib_packet *packets;	/* those that were sent */
	int count;
	/* Says what becomes of them, and may send others. */
	enum fake_ib_fate (*fate)(struct fake_ib_packet *packet, int nth);
};
extern struct mt_wire mt_wire;

/* From now on it is recorded, and these rules hold; NULL: everything arrives. */
void mt_wire_begin(enum fake_ib_fate (*fate)(struct fake_ib_packet *packet, int nth));
void mt_wire_end(void);
/* How many datagrams with this transaction (0: any) the port (0: any) has sent since then. */
int mt_wire_count(u32 port, __be64 tid);
/* The nth of them, from 0 on, or NULL. */
struct fake_ib_packet *mt_wire_packet(u32 port, __be64 tid, int nth);
bool mt_wire_wait(u32 port, __be64 tid, int count, unsigned int ms);

/* A datagram for a port, as if from MT_FAR_LID. */
void mt_make(struct fake_ib_packet *packet, u32 port, u32 qpn, u8 class, u8 version, u8 method, u64 tid);
/* Returns when the port has done all that was delivered to its queue pair before. */
bool mt_fence(u32 port, u32 qpn);

static inline __be64 mt_tid(const struct ib_mad_send_buf *send)
{
	return ((struct ib_mad_hdr *)send->mad)->tid;
}

/* What can be run */
void mt_test_agents(void);
void mt_test_tables(void);
void mt_test_dispatch(void);
void mt_test_sends(void);
void mt_test_queues(void);
void mt_test_smi(void);
void mt_test_sa(void);
void mt_test_manager(void);
void mt_test_mcast(void);
void mt_test_trace(void);
void mt_test_rmpp(void);
void mt_test_rmpp_timeout(void);
/* Parts of the test "rmpp" */
void rmpp_test_sender(void);
void rmpp_test_receiver(void);
void mt_test_removal(void);
void mt_test_storm(void);
int mt_order_path(const char *text);

#endif
