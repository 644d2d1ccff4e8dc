/* SPDX-License-Identifier: GPL-2.0 */
/* Tests of the midlayer's law, Documentation/infiniband/core_locking.rst: what their files share. */
#ifndef RULES_H
#define RULES_H

#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#undef pr_fmt
#define pr_fmt(fmt) "rules_test: " fmt

/* One result: a line in the log that the test programs read. */
void rules_result(bool ok, const char *test, const char *name, long long got);
#define CHECK(test, name, condition) rules_result(condition, test, name, 0)
#define CHECK_EQ(test, name, wanted, got)					\
	do {									\
		long long __got = (long long)(got);				\
		rules_result(__got == (long long)(wanted), test, name, __got);	\
	} while (0)

#define RULES_PORT 1
#define RULES_SIZE 64		/* bytes of a message */
#define RULES_DEPTH 32		/* requests of a queue */

/* The device that is tested, and the path from it to itself. */
struct rules_device {
	struct ib_device *device;
	struct ib_pd *pd;
	union ib_gid gid;	/* of index 0 */
	u8 mac[ETH_ALEN];
	void *memory;		/* messages go from its first half to its second one */
	u64 dma;
};

/* Two queue pairs that are connected to each other, of type RC. */
struct rules_pair {
	struct rules_device *on;
	struct ib_qp *from, *to;
};

void rules_path(struct rules_device *on, struct rdma_ah_attr *attr);
int rules_connect(struct rules_pair *pair, struct rules_device *on, struct ib_cq *cq, struct ib_srq *srq,
		  void (*event)(struct ib_event *event, void *context), void *context);
void rules_disconnect(struct rules_pair *pair);

/* The request is named by its number or, for a CQ of ib_alloc_cq(), by what handles it. */
int rules_send(struct rules_pair *pair, u64 id, struct ib_cqe *cqe);
int rules_receive(struct rules_pair *pair, u64 id, struct ib_cqe *cqe);

void rules_contexts(struct rules_device *on, const char *how);
void rules_dispatch(struct rules_device *on, const char *how);
void rules_callbacks(struct rules_device *on, const char *how);
int rules_events_begin(struct rules_device *on);
void rules_events_end(void);
bool rules_object_event(struct rules_device *on, const char *command);

#endif
