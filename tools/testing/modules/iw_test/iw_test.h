/* SPDX-License-Identifier: GPL-2.0 */
/* Tests of iw_cm: what their files share. */
#ifndef IW_TEST_H
#define IW_TEST_H

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/in.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

#undef pr_fmt
#define pr_fmt(fmt) "iw_test: " fmt

/* A line of the log for each test: "pass|NAME", or "fail|NAME: WHAT|got VALUE" for each check that fails. */
void it_result(bool ok, const char *what, long long got);
#define CHECK(what, condition) it_result(condition, what, 0)
#define CHECK_EQ(what, wanted, got)						\
	do {									\
		long long __got = (long long)(got);				\
		it_result(__got == (long long)(wanted), what, __got);		\
	} while (0)

/* Whether the module is to do what stock's does not. */
extern bool it_strict;

/* The driver: what it answers, and what it was asked for. */
struct it_driver {
	struct ib_device *device;
	int listen_ret, connect_ret, accept_ret;
	atomic_t listens, stops, connects, accepts, rejects;
	atomic_t qp_refs;	/* that are counted */
	atomic_t id_refs;	/* that the driver holds */
	int qp_state;		/* the last one that was set, or -1 */
	int backlog;
	u8 reject_len, reject_data[255];
	struct sockaddr_storage connect_local, connect_remote;
};
extern struct it_driver it_driver;
#define IT_QPN 7		/* of the one queue pair that there is */

int it_device_up(void);
void it_device_down(void);
void it_driver_reset(void);
/* An event of the driver, with interrupts disabled. */
int it_emit(struct iw_cm_id *id, enum iw_cm_event_type type, int status, const char *data);
/* The driver's reference to an identifier that it had from a call. */
void it_put(struct iw_cm_id *id);

/* A client: what its handler answers, and what it was told. */
struct it_client {
	struct iw_cm_id *id;	/* its own */
	int ret;		/* of the handler */
	int calls;
	struct completion called;
	struct completion *wait_for;	/* the handler waits for it */
	struct iw_cm_event last;
	char data[256];
	struct iw_cm_id *child;	/* of the last peer */
	struct it_client *for_child;	/* whose the child becomes */
	atomic_t inside;	/* calls of the handler that have not returned */
};
int it_client_up(struct it_client *client);
bool it_told(struct it_client *client, int calls);	/* waits until it was called so often */
int it_connect(struct it_client *client);
int it_accept(struct iw_cm_id *id);

void it_test_calls(void);
void it_test_events(void);
void it_test_faults(void);
void it_test_storm(void);
/* Executes a command about ports, if it is one. */
bool it_ports(const char *command);

#endif
