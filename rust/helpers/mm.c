// SPDX-License-Identifier: GPL-2.0

#include <linux/instrumented.h>
#include <linux/string.h>

/*
 * A call that no compiler looks into: for memory that somebody else writes meanwhile. KASAN is told by name, for where the
 * architecture has a memcpy() of its own nobody else tells it (User Mode Linux).
 */
__rust_helper void rust_helper_memcpy_shared(void *to, const void *from, size_t len)
{
	instrument_memcpy_before(to, from, len);
	memcpy(to, from, len);
	instrument_memcpy_after(to, from, len, 0);
}

/* As memcpy_shared(), where both may overlap. */
__rust_helper void rust_helper_memmove_shared(void *to, const void *from, size_t len)
{
	instrument_memcpy_before(to, from, len);
	memmove(to, from, len);
	instrument_memcpy_after(to, from, len, 0);
}
