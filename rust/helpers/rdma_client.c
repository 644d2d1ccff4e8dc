// SPDX-License-Identifier: GPL-2.0
/* For clients in Rust: what <rdma/ib_verbs.h> has inline. */

__rust_helper u64 rust_helper_ib_dma_map_single(struct ib_device *dev, void *cpu_addr, size_t size,
						enum dma_data_direction direction)
{
	return ib_dma_map_single(dev, cpu_addr, size, direction);
}

__rust_helper void rust_helper_ib_dma_unmap_single(struct ib_device *dev, u64 addr, size_t size,
						   enum dma_data_direction direction)
{
	ib_dma_unmap_single(dev, addr, size, direction);
}

__rust_helper int rust_helper_ib_dma_mapping_error(struct ib_device *dev, u64 dma_addr)
{
	return ib_dma_mapping_error(dev, dma_addr);
}

__rust_helper void rust_helper_ib_dma_sync_single_for_cpu(struct ib_device *dev, u64 addr, size_t size,
							  enum dma_data_direction dir)
{
	ib_dma_sync_single_for_cpu(dev, addr, size, dir);
}

__rust_helper void rust_helper_ib_dma_sync_single_for_device(struct ib_device *dev, u64 addr, size_t size,
							     enum dma_data_direction dir)
{
	ib_dma_sync_single_for_device(dev, addr, size, dir);
}

__rust_helper int rust_helper_ib_post_send(struct ib_qp *qp, const struct ib_send_wr *send_wr,
					   const struct ib_send_wr **bad_send_wr)
{
	return ib_post_send(qp, send_wr, bad_send_wr);
}

__rust_helper int rust_helper_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *recv_wr,
					   const struct ib_recv_wr **bad_recv_wr)
{
	return ib_post_recv(qp, recv_wr, bad_recv_wr);
}

__rust_helper int rust_helper_ib_post_srq_recv(struct ib_srq *srq, const struct ib_recv_wr *recv_wr,
					       const struct ib_recv_wr **bad_recv_wr)
{
	return ib_post_srq_recv(srq, recv_wr, bad_recv_wr);
}

__rust_helper int rust_helper_ib_poll_cq(struct ib_cq *cq, int num_entries, struct ib_wc *wc)
{
	return ib_poll_cq(cq, num_entries, wc);
}

__rust_helper int rust_helper_ib_req_notify_cq(struct ib_cq *cq, enum ib_cq_notify_flags flags)
{
	return ib_req_notify_cq(cq, flags);
}

/* A scatter list of whole pages. */
__rust_helper void rust_helper_rdma_sg_set_pages(struct scatterlist *sg, struct page **pages, unsigned int count)
{
	unsigned int nth;

	sg_init_table(sg, count);
	for (nth = 0; nth < count; nth++)
		sg_set_page(&sg[nth], pages[nth], PAGE_SIZE, 0);
}

__rust_helper int rust_helper_ib_dma_map_sg(struct ib_device *dev, struct scatterlist *sg, int nents,
					    enum dma_data_direction direction)
{
	return ib_dma_map_sg(dev, sg, nents, direction);
}

__rust_helper void rust_helper_ib_dma_unmap_sg(struct ib_device *dev, struct scatterlist *sg, int nents,
					       enum dma_data_direction direction)
{
	ib_dma_unmap_sg(dev, sg, nents, direction);
}

__rust_helper void rust_helper_rdma_sync_sg_for_cpu(struct ib_device *dev, struct scatterlist *sg, int nents,
						    enum dma_data_direction direction)
{
	if (!ib_uses_virt_dma(dev))
		dma_sync_sg_for_cpu(dev->dma_device, sg, nents, direction);
}

__rust_helper void rust_helper_rdma_sync_sg_for_device(struct ib_device *dev, struct scatterlist *sg, int nents,
						       enum dma_data_direction direction)
{
	if (!ib_uses_virt_dma(dev))
		dma_sync_sg_for_device(dev->dma_device, sg, nents, direction);
}

__rust_helper void rust_helper_ib_update_fast_reg_key(struct ib_mr *mr, u8 newkey)
{
	ib_update_fast_reg_key(mr, newkey);
}
