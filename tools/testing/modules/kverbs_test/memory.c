// SPDX-License-Identifier: GPL-2.0
/* Memory: mapped for DMA, read and written by the peer, registered and invalidated. */
#include <linux/scatterlist.h>
#include <rdma/mr_pool.h>
#include "kverbs.h"

/* The peer reads, or writes, memory of side 1. */
static int rdma(struct kv *kv, enum ib_wr_opcode opcode, u64 addr, u32 rkey)
{
	int ret = kv_post_rdma(kv, opcode, addr, rkey, 512);
	struct ib_wc wc;

	if (ret)
		return ret;
	return kv_wait(kv->cq, &wc) ?: wc.status;
}

static int invalidate(struct kv *kv, struct ib_mr *mr)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_LOCAL_INV, .send_flags = IB_SEND_SIGNALED, .ex.invalidate_rkey = mr->rkey,
	};
	struct ib_wc wc;

	return ib_post_send(kv->qp[1], &wr, NULL) ?: kv_wait(kv->cq, &wc) ?: wc.status;
}

static int register_mr(struct kv *kv, struct ib_qp *qp, struct ib_mr *mr, struct page *page)
{
	struct scatterlist sg;
	struct ib_reg_wr wr = {
		.wr = { .opcode = IB_WR_REG_MR, .send_flags = IB_SEND_SIGNALED },
		.mr = mr,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ,
	};
	struct ib_wc wc;
	int ret;

	sg_init_table(&sg, 1);
	sg_set_page(&sg, page, PAGE_SIZE, 0);
	if (ib_dma_map_sg_attrs(kv->device, &sg, 1, DMA_BIDIRECTIONAL, DMA_ATTR_WEAK_ORDERING) != 1)
		return -ENOMEM;
	ret = ib_map_mr_sg(mr, &sg, 1, NULL, PAGE_SIZE);
	if (ret == 1) {
		ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
		wr.key = mr->rkey;
		ret = ib_post_send(qp, &wr.wr, NULL) ?: kv_wait(kv->cq, &wc) ?: wc.status;
	}
	ib_dma_unmap_sg_attrs(kv->device, &sg, 1, DMA_BIDIRECTIONAL, DMA_ATTR_WEAK_ORDERING);
	return ret;
}

/* A device that takes addresses of the kernel: each element of a list gets its own one. */
static void virtual_list(struct kv *kv)
{
	struct scatterlist sg[2];
	int i, wrong = 0;

	sg_init_table(sg, 2);
	for (i = 0; i < 2; i++)
		sg_set_buf(&sg[i], kv->memory[i], 512 * (i + 1));
	CHECK("the device takes addresses of the kernel", ib_uses_virt_dma(kv->device));
	CHECK_EQ("ib_dma_virt_map_sg", 2, ib_dma_virt_map_sg(kv->device, sg, 2));
	for (i = 0; i < 2; i++)
		wrong += sg_dma_address(&sg[i]) != (uintptr_t)kv->memory[i] || sg_dma_len(&sg[i]) != 512 * (i + 1);
	CHECK_EQ("the addresses and lengths of the elements", 0, wrong);
	for (i = 0; i < 2; i++)
		sg_dma_address(&sg[i]) = 0;
	CHECK_EQ("ib_dma_map_sg_attrs with attributes", 2,
		 ib_dma_map_sg_attrs(kv->device, sg, 2, DMA_BIDIRECTIONAL, DMA_ATTR_SKIP_CPU_SYNC | DMA_ATTR_WEAK_ORDERING));
	for (i = 0; i < 2; i++)
		wrong += sg_dma_address(&sg[i]) != (uintptr_t)kv->memory[i] || sg_dma_len(&sg[i]) != 512 * (i + 1);
	CHECK_EQ("which gives the same", 0, wrong);
	ib_dma_unmap_sg_attrs(kv->device, sg, 2, DMA_BIDIRECTIONAL, DMA_ATTR_SKIP_CPU_SYNC | DMA_ATTR_WEAK_ORDERING);
	memset(kv->memory[0], 0x12, 512);
	CHECK_EQ("the peer reads into a list that was unmapped, whose memory is as good as before", IB_WC_SUCCESS,
		 rdma(kv, IB_WR_RDMA_READ, kv->dma[1], kv->pd->unsafe_global_rkey));
}

static void fast_registration(struct kv *kv)
{
	struct ib_mr *mr = ib_alloc_mr(kv->pd, IB_MR_TYPE_MEM_REG, 4);
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	u32 stale;

	CHECK("ib_alloc_mr", !IS_ERR(mr));
	if (IS_ERR(mr) || !page)
		goto out;
	memset(kv->memory[0], 0x33, 512);
	CHECK_EQ("a region is registered", 0, register_mr(kv, kv->qp[1], mr, page));
	CHECK_EQ("the peer writes to it", IB_WC_SUCCESS, rdma(kv, IB_WR_RDMA_WRITE, mr->iova, mr->rkey));
	CHECK("what it has", !memchr_inv(page_address(page), 0x33, 512));
	CHECK_EQ("the region is invalidated", 0, invalidate(kv, mr));
	CHECK_EQ("the peer cannot write to it any more", IB_WC_REM_ACCESS_ERR,
		 rdma(kv, IB_WR_RDMA_WRITE, mr->iova, mr->rkey));
	CHECK_EQ("connected anew", 0, kv_connect(kv));
	memset(kv->memory[0], 0x44, 512);
	CHECK_EQ("the region is registered again", 0, register_mr(kv, kv->qp[1], mr, page));
	CHECK_EQ("the peer writes to it again", IB_WC_SUCCESS, rdma(kv, IB_WR_RDMA_WRITE, mr->iova, mr->rkey));
	CHECK("what it has now", !memchr_inv(page_address(page), 0x44, 512));
	stale = mr->rkey;
	CHECK_EQ("ib_dereg_mr", 0, ib_dereg_mr(mr));
	mr = NULL;
	CHECK_EQ("its key is stale", IB_WC_REM_ACCESS_ERR, rdma(kv, IB_WR_RDMA_WRITE, 0, stale));
	CHECK_EQ("connected anew", 0, kv_connect(kv));
out:
	if (page)
		__free_page(page);
	if (!IS_ERR_OR_NULL(mr))
		ib_dereg_mr(mr);
}

/* Reads memory of side 1 into a region of side 0, and invalidates that with a READ_WITH_INV. */
static int read_to(struct kv *kv, struct ib_mr *mr, enum ib_wr_opcode opcode)
{
	struct ib_sge sge = { .addr = mr->iova, .length = 512, .lkey = mr->lkey };
	struct ib_rdma_wr wr = {
		.wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IB_SEND_SIGNALED },
		.remote_addr = kv->dma[1],
		.rkey = kv->pd->unsafe_global_rkey,
	};
	struct ib_wc wc;
	int ret;

	if (opcode == IB_WR_RDMA_READ_WITH_INV)
		wr.wr.ex.invalidate_rkey = mr->rkey;
	ret = ib_post_send(kv->qp[0], &wr.wr, NULL) ?: kv_wait(kv->cq, &wc);
	if (!ret && wc.status == IB_WC_SUCCESS)
		CHECK_EQ("what a READ completes as", IB_WC_RDMA_READ, wc.opcode);
	return ret ?: wc.status;
}

/* The peer writes to a region of side 0. */
static int written_by_peer(struct kv *kv, u64 addr, u32 rkey)
{
	struct ib_sge sge = { .addr = kv->dma[1], .length = 512, .lkey = kv->pd->local_dma_lkey };
	struct ib_rdma_wr wr = {
		.wr = { .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_RDMA_WRITE, .send_flags = IB_SEND_SIGNALED },
		.remote_addr = addr,
		.rkey = rkey,
	};
	struct ib_wc wc;

	return ib_post_send(kv->qp[1], &wr.wr, NULL) ?: kv_wait(kv->cq, &wc) ?: wc.status;
}

static void read_with_invalidate(struct kv *kv)
{
	struct ib_mr *mr = ib_alloc_mr(kv->pd, IB_MR_TYPE_MEM_REG, 4);
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	int ret;

	CHECK("a region for a READ", !IS_ERR(mr) && page);
	if (IS_ERR(mr) || !page)
		goto out;
	memset(kv->memory[1], 0x55, 512);
	CHECK_EQ("a region for a READ is registered", 0, register_mr(kv, kv->qp[0], mr, page));
	ret = read_to(kv, mr, IB_WR_RDMA_READ_WITH_INV);
	/* The stock driver takes the request and has no packet for it. */
	if (ret) {
		kv_known("READ with invalidate", ret);
		goto connect;
	}
	CHECK("READ with invalidate", !ret);
	CHECK("READ with invalidate: what was read", !memchr_inv(page_address(page), 0x55, 512));
	CHECK_EQ("READ with invalidate: the local key is invalid", IB_WC_LOC_PROT_ERR, read_to(kv, mr, IB_WR_RDMA_READ));
	CHECK_EQ("connected anew", 0, kv_connect(kv));
	CHECK_EQ("READ with invalidate: the remote key is invalid", IB_WC_REM_ACCESS_ERR, written_by_peer(kv, mr->iova, mr->rkey));
	CHECK_EQ("connected anew", 0, kv_connect(kv));
	memset(kv->memory[1], 0x66, 512);
	CHECK_EQ("READ with invalidate: the region is registered again", 0, register_mr(kv, kv->qp[0], mr, page));
	CHECK_EQ("READ with invalidate: and read to", IB_WC_SUCCESS, read_to(kv, mr, IB_WR_RDMA_READ));
	CHECK("READ with invalidate: which was read then", !memchr_inv(page_address(page), 0x66, 512));
	CHECK_EQ("READ alone leaves its keys valid", IB_WC_SUCCESS, written_by_peer(kv, mr->iova, mr->rkey));
connect:
	CHECK_EQ("connected anew", 0, kv_connect(kv));
out:
	if (page)
		__free_page(page);
	if (!IS_ERR_OR_NULL(mr))
		ib_dereg_mr(mr);
}

static void pools(struct kv *kv)
{
	struct ib_qp *qp = kv->qp[0];
	struct ib_mr *one, *two, *none;

	CHECK_EQ("ib_mr_pool_init", 0, ib_mr_pool_init(qp, &qp->rdma_mrs, 2, IB_MR_TYPE_MEM_REG, 4, 0));
	one = ib_mr_pool_get(qp, &qp->rdma_mrs);
	two = ib_mr_pool_get(qp, &qp->rdma_mrs);
	none = ib_mr_pool_get(qp, &qp->rdma_mrs);
	CHECK("a pool lends its regions", one && two && one != two);
	CHECK("and no more", !none);
	if (one)
		ib_mr_pool_put(qp, &qp->rdma_mrs, one);
	CHECK("what is given back is lent again", ib_mr_pool_get(qp, &qp->rdma_mrs) == one);
	if (one)
		ib_mr_pool_put(qp, &qp->rdma_mrs, one);
	if (two)
		ib_mr_pool_put(qp, &qp->rdma_mrs, two);
	ib_mr_pool_destroy(qp, &qp->rdma_mrs);
}

void kv_test_memory(struct kv *kv)
{
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	u64 dma;

	CHECK_EQ("connected anew", 0, kv_connect(kv));
	memset(kv->memory[1], 0x77, 512);
	memset(kv->memory[0], 0, 512);
	CHECK_EQ("the peer reads memory that is mapped", IB_WC_SUCCESS,
		 rdma(kv, IB_WR_RDMA_READ, kv->dma[1], kv->pd->unsafe_global_rkey));
	CHECK("as it is", !memchr_inv(kv->memory[0], 0x77, 512));
	if (page) {
		dma = ib_dma_map_page(kv->device, page, 0, PAGE_SIZE, DMA_BIDIRECTIONAL);
		CHECK("ib_dma_map_page", !ib_dma_mapping_error(kv->device, dma));
		CHECK_EQ("the peer writes to a page that is mapped", IB_WC_SUCCESS,
			 rdma(kv, IB_WR_RDMA_WRITE, dma, kv->pd->unsafe_global_rkey));
		ib_dma_unmap_page(kv->device, dma, PAGE_SIZE, DMA_BIDIRECTIONAL);
		CHECK("as it should", !memchr_inv(page_address(page), 0x77, 512));
		__free_page(page);
	}
	virtual_list(kv);
	fast_registration(kv);
	read_with_invalidate(kv);
	pools(kv);
}
