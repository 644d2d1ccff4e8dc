/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the fuzzers share: numbers that follow from a seed, one sequence for each thread.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stdint.h>

static __thread uint64_t fuzz_state;

static inline uint32_t any(void)
{
	fuzz_state ^= fuzz_state << 13;
	fuzz_state ^= fuzz_state >> 7;
	fuzz_state ^= fuzz_state << 17;
	return (fuzz_state * 0x2545f4914f6cdd1dull) >> 32;
}

static inline uint64_t any64(void) { return (uint64_t)any() << 32 | any(); }
static inline uint32_t below(uint32_t limit) { return any() % limit; }
static inline bool one_in(uint32_t count) { return below(count) == 0; }

/* The sequence of part `part` of the run with this seed. */
static inline void fuzz_seed(uint64_t seed, uint64_t part)
{
	fuzz_state = ((seed << 32) ^ part ^ 0x9e3779b97f4a7c15ull) * 0xd1342543de82ef95ull | 1;
	any();
	any();
}

/* Numbers that break things. */
static inline uint32_t odd_number(void)
{
	static const uint32_t liked[] = { 0, 1, 2, 3, 4, 7, 8, 16, 31, 32, 33, 63, 64, 127, 255, 256, 1024, 4095, 4096, 0x7fff, 0xffff, 0x10000,
					  0x7fffff, 0x800000, 0xffffff, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff };

	return one_in(4) ? any() : liked[below(sizeof(liked) / sizeof(liked[0]))];
}

#endif
