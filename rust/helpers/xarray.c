// SPDX-License-Identifier: GPL-2.0

/* The index tables are read in softirq and written in process context, some with interrupts off. */

__rust_helper void rust_helper_xa_init_alloc_irq(struct xarray *xa)
{
	xa_init_flags(xa, XA_FLAGS_ALLOC | XA_FLAGS_LOCK_IRQ);
}

__rust_helper int rust_helper_xa_alloc_cyclic_irqsave(struct xarray *xa, u32 *id,
						      void *entry, struct xa_limit limit,
						      u32 *next, gfp_t gfp)
{
	unsigned long flags;
	int ret;

	xa_lock_irqsave(xa, flags);
	ret = __xa_alloc_cyclic(xa, id, entry, limit, next, gfp);
	xa_unlock_irqrestore(xa, flags);
	return ret;
}

__rust_helper void *rust_helper_xa_store_irqsave(struct xarray *xa, unsigned long index,
						 void *entry, gfp_t gfp)
{
	unsigned long flags;
	void *old;

	xa_lock_irqsave(xa, flags);
	old = __xa_store(xa, index, entry, gfp);
	xa_unlock_irqrestore(xa, flags);
	return old;
}

__rust_helper int rust_helper_xa_insert_irqsave(struct xarray *xa, unsigned long index,
						void *entry, gfp_t gfp)
{
	unsigned long flags;
	int ret;

	xa_lock_irqsave(xa, flags);
	ret = __xa_insert(xa, index, entry, gfp);
	xa_unlock_irqrestore(xa, flags);
	return ret;
}

__rust_helper void *rust_helper_xa_erase_irqsave(struct xarray *xa, unsigned long index)
{
	unsigned long flags;
	void *old;

	xa_lock_irqsave(xa, flags);
	old = __xa_erase(xa, index);
	xa_unlock_irqrestore(xa, flags);
	return old;
}
