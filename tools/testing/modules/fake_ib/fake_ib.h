/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A fake InfiniBand device with QP0 and QP1: what a test in the kernel may do with it, and what its files share. main.c tells
 * what the device is, and what programs may do with it.
 */
#ifndef FAKE_IB_H
#define FAKE_IB_H

#include <rdma/ib_mad.h>
#include <rdma/ib_verbs.h>

#define FAKE_IB_PORTS 2
#define FAKE_IB_PKEYS 4
#define FAKE_IB_GIDS 4
#define FAKE_IB_SM_LID 0x30		/* where the subnet manager is at first */
#define FAKE_IB_SMP_MTU 256
#define FAKE_IB_PREFIX 0xfe80000000000000ULL

/* What a port tells of itself. A test changes it and raises the event that goes with it. */
struct fake_ib_port {
	u16 lid, sm_lid;
	u8 lmc, sm_sl, subnet_timeout;
	enum ib_port_state state;
	u32 cap_mask;
	u16 pkeys[FAKE_IB_PKEYS];
	union ib_gid gids[FAKE_IB_GIDS];
};

/* From index 1 on. */
extern struct fake_ib_port fake_ib_ports[FAKE_IB_PORTS + 1];

/* A datagram on the wire. */
struct fake_ib_packet {
	u32 number;			/* from 1 on */
	u8 port;			/* of this device that has sent it; 0: somebody else */
	u8 to_port;			/* if not 0: the port that gets it, whatever LID it is for */
	u32 src_qpn, dest_qpn;
	u32 qkey;			/* as it is on the wire */
	u32 wr_qkey;			/* as the sender has given it */
	u16 pkey, pkey_index;		/* the index is the sender's */
	u16 slid, dlid;
	u8 sl;
	bool has_grh;
	struct ib_grh grh;
	u32 length;
	unsigned int delay_ms;		/* until it arrives */
	unsigned long time;		/* in jiffies: when it was sent */
	u8 mad[FAKE_IB_SMP_MTU] __aligned(8);
};

static inline struct ib_mad_hdr *fake_ib_hdr(struct fake_ib_packet *packet)
{
	return (struct ib_mad_hdr *)packet->mad;
}

/* What becomes of a datagram. */
enum fake_ib_fate { FAKE_IB_PASS, FAKE_IB_LOSE, FAKE_IB_TWICE };

/*
 * Sees each datagram that goes on the wire, may change it, and decides what becomes of it. It is called by a work item, with
 * the send queue's next request waiting; it may sleep, send, and deliver.
 */
typedef enum fake_ib_fate (*fake_ib_watcher)(struct fake_ib_packet *packet, void *context);

/* One watcher at a time, or NULL. Waits until the last one is not called any more. */
void fake_ib_watch(fake_ib_watcher watcher, void *context);

/* Puts a datagram on the wire: it arrives a little later, or after its delay. The watcher does not see it. */
int fake_ib_send(const struct fake_ib_packet *packet);
/* It arrives at once: 0, or why the port does not take it. */
int fake_ib_deliver(const struct fake_ib_packet *packet);
/* Turns a datagram round: an answer goes to its sender. */
void fake_ib_turn(struct fake_ib_packet *packet);
/* Waits until nothing is on the wire and no send queue has anything to do. */
void fake_ib_settle(void);

/* Of send queues: what waits until it is let go. */
#define FAKE_IB_HOLD_SENDS 1		/* nothing is sent */
#define FAKE_IB_HOLD_COMPLETIONS 2	/* it is sent, but not completed */
void fake_ib_hold(u32 port, u32 qpn, u32 what);
/* The nth next send completes with an error and is not sent; the queue pair goes to SQE. nth 0: none. */
void fake_ib_fail_send(u32 port, u32 qpn, u32 nth, enum ib_wc_status status);
/* The nth next send is refused at once. */
void fake_ib_refuse_send(u32 port, u32 qpn, u32 nth, int error);
/* How many sends the queue has, and how many it had at most since it was last asked. */
u32 fake_ib_queued(u32 port, u32 qpn, u32 *most);
/* How many receive requests wait. */
u32 fake_ib_receives(u32 port, u32 qpn);

void fake_ib_event(u32 port, enum ib_event_type type);
/* The device goes, and comes again; its ports stay as they are. */
void fake_ib_remove(void);
int fake_ib_add(void);

/* Answers instead of the agent in the driver: a result of process_mad, or -1: the agent answers. */
typedef int (*fake_ib_processor)(u32 port, const struct ib_wc *wc, const struct ib_mad *in, struct ib_mad *out);
void fake_ib_process(fake_ib_processor processor);

/* The subnet administrator answers (at first it does), or what is for it is seen by the watcher alone. */
void fake_ib_administrate(bool on);
/* It answers requests with this status; 0: as it should. */
void fake_ib_sa_status(u16 status);
/* How many service records it has; what the nth one is, 176 bytes. */
void fake_ib_sa_services(u32 count);
void fake_ib_sa_service(u32 nth, u8 *record);
/* The states in which a port has joined a group; it knows of no group any more. */
u8 fake_ib_sa_joined(const union ib_gid *mgid, u32 port);
void fake_ib_sa_forget(void);

/* Between the files of the device, from the lowest one up: each calls those before it. */

/* ports.c */
extern struct ib_device *fake_ib_device;
void fake_ib_port_start(u32 number);
__printf(1, 2) void fake_ib_ask(const char *fmt, ...);

struct fake_ah {
	struct ib_ah ib;
	struct rdma_ah_attr attr;
};

static inline struct rdma_ah_attr *fake_ib_ah_attr(struct ib_ah *ah)
{
	return &container_of(ah, struct fake_ah, ib)->attr;
}

/* wire.c; to whom it brings datagrams: the receive queue of a port, and the subnet administrator. */
struct fake_ib_ends {
	int (*receive)(u32 port, u32 path_bits, const struct fake_ib_packet *packet);
	void (*administrator)(const struct fake_ib_packet *packet);
	/* Waits until no send queue has anything to do. */
	void (*settle)(void);
};
int fake_ib_wire_start(const struct fake_ib_ends *whom);
void fake_ib_wire_stop(void);
/* From the send queue to the wire. */
int fake_ib_transmit(struct fake_ib_packet *packet);
int fake_ib_sma(struct ib_device *device, int flags, u32 port, const struct ib_wc *wc, const struct ib_grh *grh,
		const struct ib_mad *in, struct ib_mad *out, size_t *out_size, u16 *out_pkey_index);
void fake_ib_tell_sent(struct seq_file *file);
/* Of the datagrams that are sent from now on so many from the nth on; each takes so long. */
void fake_ib_lose(u32 nth, u32 count);
void fake_ib_double(u32 nth, u32 count);
void fake_ib_delay(unsigned int ms);

/* completions.c: adds a completion; calls the completion handler, without locks; removes the completions of a queue pair. */
void fake_ib_complete(struct ib_cq *cq, const struct ib_wc *wc);
void fake_ib_announce(struct ib_cq *cq);
void fake_ib_forget(struct ib_cq *cq, struct ib_qp *of);
extern const struct ib_device_ops fake_ib_completion_ops;

/* queues.c */
int fake_ib_queues_start(void);
void fake_ib_queues_stop(void);
void fake_ib_queues_settle(void);
/* From the wire to a receive queue. */
int fake_ib_receive(u32 port, u32 path_bits, const struct fake_ib_packet *packet);
extern const struct ib_device_ops fake_ib_queue_ops;

/* sa.c */
void fake_ib_sa_receive(const struct fake_ib_packet *packet);
void fake_ib_sa_stop(void);

/* commands.c */
void fake_ib_accept_commands(bool value);

#endif
