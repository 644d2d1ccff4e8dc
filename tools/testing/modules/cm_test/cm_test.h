/* SPDX-License-Identifier: GPL-2.0 */
/* Tests of ib_cm: what their files share. */
#ifndef CM_TEST_H
#define CM_TEST_H

#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_sa.h>
#include <rdma/ib_verbs.h>

#undef pr_fmt
#define pr_fmt(fmt) "cm_test: " fmt

/* A line of the log for each check: "pass|TEST: WHAT", or "fail|TEST: WHAT|got VALUE". */
void ct_result(bool ok, const char *what, long long got);
#define CHECK(what, condition) ct_result(condition, what, 0)
#define CHECK_EQ(what, wanted, got)						\
	do {									\
		long long __got = (long long)(got);				\
		ct_result(__got == (long long)(wanted), what, __got);		\
	} while (0)

/* Whether the module is to do what stock's does not. */
extern bool ct_strict;

#define CT_SERVICE cpu_to_be64(0x1122334400000001ULL)
#define CT_EVENTS 8

/* An event, with what it points to. */
struct ct_event {
	struct ib_cm_event event;
	struct sa_path_rec path, alternate;
	u8 data[IB_CM_RTU_PRIVATE_DATA_SIZE];
	u8 info[IB_CM_REJ_ARI_LENGTH];
	enum ib_cm_state state;		/* of the identifier when it was told */
	bool has_listener, has_alternate;
	u32 gid_port;			/* of the attribute of the local GID, 0 without one */
};

/* An end of a connection: its identifier, the events that it was told, and what its handler answers. */
struct ct_end {
	struct ib_cm_id *id;
	struct ct_end *for_child;	/* whose the identifiers of peers become */
	int ret;
	int told, taken;
	struct ct_event events[CT_EVENTS];
	struct completion *wait_for;	/* the handler waits for it */
	atomic_t inside, most_inside;
};

/* The device under test, and whether it is one of InfiniBand, whose two ports are joined. */
extern struct ib_device *ct_device;
extern bool ct_ib;
extern u32 ct_qpn;		/* for the next queue pair, which nobody has */

void ct_path(struct sa_path_rec *path, u8 life_time);
/* From a port of a device of InfiniBand to the other one. */
void ct_ib_path(struct sa_path_rec *path, u32 port, u8 life_time);
const struct ib_gid_attr *ct_gid(void);		/* of port 1, with a reference */

int ct_up(struct ct_end *end);			/* creates an identifier */
void ct_down(struct ct_end *end);		/* destroys it */
/* The next event that an end is told; NULL if there is none in time. */
struct ct_event *ct_next(struct ct_end *end);
bool ct_is_next(struct ct_end *end, enum ib_cm_event_type type);
bool ct_quiet(struct ct_end *end);		/* no event comes for a while */

int ct_listen(struct ct_end *listener, struct ct_end *child);
/* How a request waits for its answer: the sum is doubled with each 1 that is added. */
struct ct_req {
	u8 life_time, response, retries;
	int data_len;
	u32 qpn;
	struct sa_path_rec *alternate;
};
int ct_req(struct ct_end *end, const struct ct_req *how);
int ct_rep(struct ct_end *end);
int ct_req_id(struct ib_cm_id *id, const struct ct_req *how);
int ct_rep_id(struct ib_cm_id *id);
/* A connection: each end established, all events taken. */
bool ct_connect(struct ct_end *listener, struct ct_end *active, struct ct_end *passive);
/* An agent that sends messages of CM to the device itself, whose data `body` has after the header: as long as a struct ib_mad. */
int ct_forge_begin(void);
int ct_forge(__be16 attribute, const void *body);
void ct_forge_end(void);		/* when all are sent */
int ct_mask(struct ib_cm_id *id, enum ib_qp_state state, struct ib_qp_attr *attr);	/* or an errno */

void ct_test_calls(void);
void ct_test_listen(void);
void ct_test_connect(void);
void ct_test_refuse(void);
void ct_test_time(void);
void ct_test_datagram(void);
void ct_test_end(void);
void ct_test_storm(void);
void ct_test_early(void);
void ct_test_inbox(void);
void ct_test_inbox_end(void);
void ct_test_waiting(void);
void ct_test_waiting_end(void);
void ct_test_paths(void);
void ct_test_lap(void);
void ct_test_lap_again(void);
void ct_test_lap_delayed(void);
void ct_test_lap_end(void);
void ct_test_roce_paths(void);

#endif
