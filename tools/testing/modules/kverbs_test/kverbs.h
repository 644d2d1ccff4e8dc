/* SPDX-License-Identifier: GPL-2.0 */
/* Tests of the verbs in the kernel: what their files share. */
#ifndef KVERBS_H
#define KVERBS_H

#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#undef pr_fmt
#define pr_fmt(fmt) "kverbs_test: " fmt

/* One result: a line in the log that kverbs.sh reads. */
void kv_result(bool ok, const char *name, long long got);
/* A failure that the stock driver is known to have. */
void kv_known(const char *name, long long got);
#define CHECK(name, condition) kv_result(condition, name, 0)
#define CHECK_EQ(name, wanted, got)						\
	do {									\
		long long __got = (long long)(got);				\
		kv_result(__got == (long long)(wanted), name, __got);		\
	} while (0)

#define KV_PORT 1
#define KV_SIZE 4096

/* What the tests have of the device. */
struct kv {
	struct ib_device *device;
	struct ib_pd *pd;		/* with a key for all memory of the kernel */
	struct ib_cq *cq;		/* polled by the tests */
	struct ib_qp *qp[2];		/* connected to each other */
	void *memory[2];		/* KV_SIZE bytes each */
	u64 dma[2];
	union ib_gid gid;		/* of index 0 */
	u8 mac[ETH_ALEN];
};

int kv_open(struct kv *kv, struct ib_device *device);
void kv_close(struct kv *kv);

struct ib_qp *kv_qp(struct kv *kv, enum ib_qp_type type, struct ib_srq *srq);
void kv_path(struct kv *kv, struct rdma_ah_attr *attr);
int kv_to_init(struct ib_qp *qp);
int kv_to_rtr(struct kv *kv, struct ib_qp *qp, u32 peer);
int kv_to_rts(struct ib_qp *qp);
int kv_to(struct ib_qp *qp, enum ib_qp_state state);
int kv_connect(struct kv *kv);		/* makes both queue pairs anew */
void kv_disconnect(struct kv *kv);

int kv_post_recv(struct kv *kv, struct ib_qp *qp, int side, u64 id);
int kv_post_send(struct kv *kv, struct ib_qp *qp, int side, u64 id, u32 length);
int kv_post_rdma(struct kv *kv, enum ib_wr_opcode opcode, u64 addr, u32 rkey, u32 length);
/* A datagram from the memory of side 0. */
int kv_post_datagram(struct kv *kv, struct ib_qp *qp, struct ib_ah *ah, u32 peer);
/* Waits for a completion, 3 s at most: 0 or -ETIMEDOUT. */
int kv_wait(struct ib_cq *cq, struct ib_wc *wc);
void kv_drop_completions(struct ib_cq *cq);

void kv_test_queries(struct kv *kv);
void kv_test_events(struct kv *kv);
void kv_test_states(struct kv *kv);
void kv_test_objects(struct kv *kv);
void kv_test_srq(struct kv *kv);
void kv_test_xrc(struct kv *kv);
void kv_test_ah(struct kv *kv);
void kv_test_qp(struct kv *kv);
void kv_test_cq(struct kv *kv);
void kv_test_moderation(struct kv *kv);
void kv_test_memory(struct kv *kv);
void kv_test_packing(struct kv *kv);
void kv_test_rules(struct kv *kv);

/* The device on a network device, which ib_device_put() gives back, or NULL. */
struct ib_device *kv_device_of(const char *netdev);
/* What "do" asks for, with the names of network devices. */
void kv_test_two_devices(const char *first, const char *second);
void kv_test_pkeys(const char *netdev, int index);
void kv_test_adaptive(const char *netdev);

int kv_clients_register(void);
void kv_clients_unregister(void);

#endif
