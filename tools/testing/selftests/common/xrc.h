/* SPDX-License-Identifier: GPL-2.0 */
/*
 * XRC by commands of the device file and the shared rings: rdma-core's provider of rxe has none of it. The number of the shared receive
 * queue that a request is for is in the word of the request that the header calls reserved.
 */
#ifndef XRC_H
#define XRC_H

#include "verbs.h"
#include "uverbs_raw.h"

#define XRC_INI 9
#define XRC_TGT 10

struct xrc_ring { struct rxe_queue_buf *queue; size_t size; };
struct xrc_qp { uint32_t handle, number; struct xrc_ring sends; int fd; };
struct xrc_srq { uint32_t handle, number; struct xrc_ring recvs; int fd; };

/* Where the library counts the events of what it has not made: an event has the address that a command has named. */
static struct ibv_qp xrc_qp_events;
static struct ibv_srq xrc_srq_events;

static inline struct xrc_ring xrc_map(int fd, const struct mminfo *info)
{
	struct xrc_ring ring = { mmap(NULL, info->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, info->offset), info->size };

	if (ring.queue == MAP_FAILED)
		die("map a ring");
	return ring;
}

static inline void *xrc_slot(const struct xrc_ring *ring)
{
	uint32_t index = ring->queue->producer_index & ring->queue->index_mask;

	return ring->queue->data + ((size_t)index << ring->queue->log2_elem_size);
}

static inline void xrc_advance(const struct xrc_ring *ring)
{
	uint32_t next = (ring->queue->producer_index + 1) & ring->queue->index_mask;

	__atomic_store_n(&ring->queue->producer_index, next, __ATOMIC_RELEASE);
}

static inline int xrc_open(int cmd_fd, int file, uint32_t oflags, uint32_t *domain)
{
	struct ib_uverbs_open_xrcd request = { .fd = file, .oflags = oflags };
	struct ib_uverbs_open_xrcd_resp response = { 0 };
	int error = raw_write(cmd_fd, IB_USER_VERBS_CMD_OPEN_XRCD, &request, sizeof(request), &response, sizeof(response));

	*domain = response.xrcd_handle;
	return error;
}

static inline int xrc_close(int cmd_fd, uint32_t domain)
{
	struct ib_uverbs_close_xrcd request = { domain };

	return raw_write(cmd_fd, IB_USER_VERBS_CMD_CLOSE_XRCD, &request, sizeof(request), NULL, 0);
}

/* A shared receive queue of `domain`, whose completions go to `cq`. */
static inline int xrc_create_srq(struct ibv_pd *of, struct ibv_cq *cq, uint32_t domain, uint32_t max_wr, struct xrc_srq *srq)
{
	struct ib_uverbs_create_xsrq request = {
		.user_handle = (uintptr_t)&xrc_srq_events, .srq_type = IBV_SRQT_XRC, .pd_handle = of->handle, .cq_handle = cq->handle,
		.xrcd_handle = domain, .max_wr = max_wr, .max_sge = 1,
	};
	struct { struct ib_uverbs_create_srq_resp core; struct rxe_create_srq_resp driver; } made = { 0 };
	int fd = of->context->cmd_fd, error = raw_write(fd, IB_USER_VERBS_CMD_CREATE_XSRQ, &request, sizeof(request), &made, sizeof(made));

	if (!error)
		*srq = (struct xrc_srq){ made.core.srq_handle, made.core.srqn, xrc_map(fd, &made.driver.mi), fd };
	return error;
}

static inline int xrc_destroy_srq(struct xrc_srq *srq)
{
	struct ib_uverbs_destroy_srq request = { .srq_handle = srq->handle };
	struct ib_uverbs_destroy_srq_resp response;

	munmap(srq->recvs.queue, srq->recvs.size);
	return raw_write(srq->fd, IB_USER_VERBS_CMD_DESTROY_SRQ, &request, sizeof(request), &response, sizeof(response));
}

static inline void xrc_post_recv(const struct xrc_srq *srq, uint64_t id, const void *at, uint32_t length, uint32_t lkey)
{
	struct rxe_recv_wqe *wqe = xrc_slot(&srq->recvs);

	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = id;
	wqe->dma.num_sge = 1;
	wqe->dma.length = wqe->dma.resid = length;
	wqe->dma.sge[0] = (struct rxe_sge){ (uintptr_t)at, length, lkey };
	xrc_advance(&srq->recvs);
}

/* An end of a connection: an initiator of a PD and a CQ, or a target of a domain. */
static inline int xrc_create_qp(int fd, uint8_t type, uint32_t domain_or_pd, uint32_t cq, struct xrc_qp *qp)
{
	struct ib_uverbs_create_qp request = {
		.user_handle = (uintptr_t)&xrc_qp_events, .pd_handle = domain_or_pd, .send_cq_handle = cq, .max_send_wr = 64, .max_send_sge = 1,
		.qp_type = type,
	};
	struct { struct ib_uverbs_create_qp_resp core; struct rxe_create_qp_resp driver; } made = { 0 };
	int error = raw_write(fd, IB_USER_VERBS_CMD_CREATE_QP, &request, sizeof(request), &made, sizeof(made));

	if (error)
		return error;
	*qp = (struct xrc_qp){ made.core.qp_handle, made.core.qpn, .fd = fd };
	if (type == XRC_INI)
		qp->sends = xrc_map(fd, &made.driver.sq_mi);
	return 0;
}

static inline int xrc_open_qp(int fd, uint32_t domain, uint32_t number, struct xrc_qp *qp)
{
	struct ib_uverbs_open_qp request = { .user_handle = (uintptr_t)&xrc_qp_events, .pd_handle = domain, .qpn = number, .qp_type = XRC_TGT };
	struct ib_uverbs_create_qp_resp opened = { 0 };
	int error = raw_write(fd, IB_USER_VERBS_CMD_OPEN_QP, &request, sizeof(request), &opened, sizeof(opened));

	*qp = (struct xrc_qp){ opened.qp_handle, opened.qpn, .fd = fd };
	return error;
}

static inline int xrc_destroy_qp(struct xrc_qp *qp)
{
	struct ib_uverbs_destroy_qp request = { .qp_handle = qp->handle };
	struct ib_uverbs_destroy_qp_resp response;

	if (qp->sends.queue)
		munmap(qp->sends.queue, qp->sends.size);
	return raw_write(qp->fd, IB_USER_VERBS_CMD_DESTROY_QP, &request, sizeof(request), &response, sizeof(response));
}

static inline int xrc_state(const struct xrc_qp *qp)
{
	struct ib_uverbs_query_qp request = { .qp_handle = qp->handle, .attr_mask = IBV_QP_STATE };
	struct ib_uverbs_query_qp_resp response = { 0 };

	if (raw_write(qp->fd, IB_USER_VERBS_CMD_QUERY_QP, &request, sizeof(request), &response, sizeof(response)))
		return -1;
	return response.qp_state;
}

static inline int xrc_modify(const struct xrc_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct ibv_ah_attr *to = &attr->ah_attr;
	struct ib_uverbs_modify_qp request = {
		.qp_handle = qp->handle, .attr_mask = mask, .qp_state = attr->qp_state, .pkey_index = attr->pkey_index, .port_num = attr->port_num,
		.qp_access_flags = attr->qp_access_flags, .path_mtu = attr->path_mtu, .dest_qp_num = attr->dest_qp_num, .rq_psn = attr->rq_psn,
		.sq_psn = attr->sq_psn, .max_rd_atomic = attr->max_rd_atomic, .max_dest_rd_atomic = attr->max_dest_rd_atomic,
		.min_rnr_timer = attr->min_rnr_timer, .timeout = attr->timeout, .retry_cnt = attr->retry_cnt, .rnr_retry = attr->rnr_retry,
		.dest = { .sgid_index = to->grh.sgid_index, .hop_limit = to->grh.hop_limit, .is_global = 1, .port_num = to->port_num },
	};

	memcpy(request.dest.dgid, &to->grh.dgid, 16);
	return raw_write(qp->fd, IB_USER_VERBS_CMD_MODIFY_QP, &request, sizeof(request), NULL, 0);
}

/* Takes an end from RESET to RTS; `rnr_retry` is the initiator's. */
static inline int xrc_connect(const struct xrc_qp *qp, bool target, uint32_t peer, const union ibv_gid *to, int sgid_index, int rnr_retry)
{
	struct ibv_qp_attr attr = {
		.port_num = 1, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .rq_psn = 100, .sq_psn = 100, .max_rd_atomic = 4,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 1, .timeout = 14, .retry_cnt = 7, .rnr_retry = rnr_retry, .qp_access_flags = ACCESS_ALL,
		.ah_attr = { .grh = { .dgid = *to, .sgid_index = sgid_index, .hop_limit = 64 }, .is_global = 1, .port_num = 1 },
	};
	int masks[] = {
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			(target ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0),
		IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | (target ? 0 : IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
	};

	for (int i = 0; i < 3; i++) {
		int error;

		attr.qp_state = IBV_QPS_INIT + i;
		error = xrc_modify(qp, &attr, masks[i]);
		if (error)
			return error;
	}
	return 0;
}

/* A request of one element. `srq` is written as it is. */
struct xrc_request {
	uint32_t opcode, srq, imm, length, lkey, rkey;
	uint64_t id, remote, add;
	const void *at;
};

static inline void xrc_post_send(const struct xrc_qp *qp, const struct xrc_request *request)
{
	struct rxe_send_wqe *wqe = xrc_slot(&qp->sends);

	memset(wqe, 0, sizeof(*wqe));
	wqe->wr.wr_id = request->id;
	wqe->wr.reserved = request->srq;
	wqe->wr.opcode = request->opcode;
	wqe->wr.send_flags = IBV_SEND_SIGNALED;
	wqe->wr.ex.imm_data = request->imm;
	if (request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wqe->wr.wr.atomic.remote_addr = request->remote;
		wqe->wr.wr.atomic.rkey = request->rkey;
		wqe->wr.wr.atomic.compare_add = request->add;
	} else {
		wqe->wr.wr.rdma.remote_addr = request->remote;
		wqe->wr.wr.rdma.rkey = request->rkey;
	}
	wqe->dma.num_sge = 1;
	wqe->dma.length = wqe->dma.resid = request->length;
	wqe->dma.sge[0] = (struct rxe_sge){ (uintptr_t)request->at, request->length, request->lkey };
	xrc_advance(&qp->sends);
}

static inline int xrc_doorbell(const struct xrc_qp *qp)
{
	struct ib_uverbs_post_send request = { .qp_handle = qp->handle, .wqe_size = sizeof(struct ib_uverbs_send_wr) };
	struct ib_uverbs_post_send_resp response;

	return raw_write(qp->fd, IB_USER_VERBS_CMD_POST_SEND, &request, sizeof(request), &response, sizeof(response));
}

/* One completion within so many milliseconds; a status of -1 when there was none. */
static inline struct ibv_wc xrc_wait(struct ibv_cq *cq, int ms)
{
	struct end end = { .cq = cq };

	return wait_wc(&end, ms);
}

#endif
