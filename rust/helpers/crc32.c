// SPDX-License-Identifier: GPL-2.0

#if defined(CONFIG_X86_64) && !defined(CONFIG_UML)
#include <asm/cpufeature.h>
#include <asm/fpu/api.h>
#endif

/*
 * Enables the vector registers for a CRC of 16 bytes at a time; false where they cannot be used, or where crc32_le() has
 * instructions for more bytes.
 */
__rust_helper bool rust_helper_crc32_vector_begin(void)
{
#if defined(CONFIG_X86_64) && !defined(CONFIG_UML)
	if (!cpu_feature_enabled(X86_FEATURE_PCLMULQDQ) || !cpu_feature_enabled(X86_FEATURE_AVX) ||
	    cpu_feature_enabled(X86_FEATURE_VPCLMULQDQ) || !irq_fpu_usable())
		return false;
	kernel_fpu_begin();
	return true;
#else
	return false;
#endif
}

__rust_helper void rust_helper_crc32_vector_end(void)
{
#if defined(CONFIG_X86_64) && !defined(CONFIG_UML)
	kernel_fpu_end();
#endif
}
