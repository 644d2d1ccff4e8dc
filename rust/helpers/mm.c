// SPDX-License-Identifier: GPL-2.0

#include <linux/instrumented.h>
#include <linux/string.h>
#if defined(CONFIG_X86_64) && !defined(CONFIG_UML)
#include <asm/alternative.h>
#include <asm/cpufeatures.h>
#endif

/*
 * A copy that may be long. memcpy() of processors without FSRM moves eight bytes by two instructions; string instructions are
 * quicker from some hundred bytes on, as in copy_to_user().
 */
static __always_inline void memcpy_long(void *to, const void *from, size_t len)
{
#if defined(CONFIG_X86_64) && !defined(CONFIG_UML)
	if (len >= 512) {
		size_t count = len;

		asm volatile(ALTERNATIVE("movq %%rcx, %%rax; shrq $3, %%rcx; rep movsq; movq %%rax, %%rcx; andl $7, %%ecx; rep movsb",
					 "rep movsb", X86_FEATURE_ERMS)
			     : "+D" (to), "+S" (from), "+c" (count) : : "rax", "memory", "cc");
		return;
	}
#endif
	memcpy(to, from, len);
}

/*
 * An opaque call: the compiler must not assume that the memory stays unchanged. It calls KASAN explicitly: on User Mode Linux,
 * which has a memcpy() of its own, that does not.
 */
__rust_helper void rust_helper_memcpy_shared(void *to, const void *from, size_t len)
{
	instrument_memcpy_before(to, from, len);
	memcpy_long(to, from, len);
	instrument_memcpy_after(to, from, len, 0);
}

/* As memcpy_shared(), where both may overlap. */
__rust_helper void rust_helper_memmove_shared(void *to, const void *from, size_t len)
{
	instrument_memcpy_before(to, from, len);
	memmove(to, from, len);
	instrument_memcpy_after(to, from, len, 0);
}
