// SPDX-License-Identifier: GPL-2.0
/*
 * Functions that are inline, and do nothing, in a kernel without an option. Directions are numbers here, as they are
 * where the kernel's crate declares the real ones.
 */
#include <linux/dma-mapping.h>

#ifndef CONFIG_ARCH_HAS_CC_PLATFORM
__rust_helper bool rust_helper_cc_platform_has(enum cc_attr attr)
{
	return cc_platform_has(attr);
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
