// SPDX-License-Identifier: GPL-2.0
/*
 * Functions that are inline, and do nothing, in a kernel without an option. Directions are numbers here, as they are
 * where the kernel's crate declares the real ones.
 */
#include <linux/dma-mapping.h>
#include <linux/skbuff.h>

#ifndef CONFIG_TRACEPOINTS
__rust_helper void rust_helper_consume_skb(struct sk_buff *skb)
{
	consume_skb(skb);
}
#endif

#ifndef CONFIG_IOMMU_DMA
__rust_helper bool rust_helper_dma_iova_try_alloc(struct device *dev, struct dma_iova_state *state,
						  phys_addr_t phys, size_t size)
{
	return dma_iova_try_alloc(dev, state, phys, size);
}

__rust_helper void rust_helper_dma_iova_destroy(struct device *dev, struct dma_iova_state *state,
						size_t mapped_len, int dir,
						unsigned long attrs)
{
	dma_iova_destroy(dev, state, mapped_len, dir, attrs);
}

__rust_helper int rust_helper_dma_iova_sync(struct device *dev, struct dma_iova_state *state,
					    size_t offset, size_t size)
{
	return dma_iova_sync(dev, state, offset, size);
}

__rust_helper int rust_helper_dma_iova_link(struct device *dev, struct dma_iova_state *state,
					    phys_addr_t phys, size_t offset, size_t size,
					    int dir, unsigned long attrs)
{
	return dma_iova_link(dev, state, phys, offset, size, dir, attrs);
}
#endif
