/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Several threads that make calls on one file, whose first one now and then closes everything under the others.
 */
#ifndef FUZZ_STORM_H
#define FUZZ_STORM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { STORM_THREADS = 16 };

struct storm {
	const char *name;
	uint64_t calls;			/* to make, by all threads */
	unsigned int threads, episode;	/* calls of the first thread between two openings of the file */
	void (*start)(unsigned int thread);
	void (*open)(void);
	void (*call)(void);
	bool waits;			/* a call may wait for long: so the parts of the threads are uneven */
};

static struct storm storm;
static uint64_t storm_begun, storm_made[STORM_THREADS], storm_opened;
static bool storm_ready;

/* A line for `told` of lib.sh. */
static inline void storm_verdict(const char *what, bool good, const char *why)
{
	if (good)
		printf("pass|%s: %s\n", storm.name, what);
	else
		printf("fail|%s: %s|%s\n", storm.name, what, why);
}

static void storm_open(void)
{
	__atomic_store_n(&storm_ready, false, __ATOMIC_RELEASE);
	storm.open();
	storm_opened++;
	__atomic_store_n(&storm_ready, true, __ATOMIC_RELEASE);
}

static void *storm_thread(void *number)
{
	unsigned int thread = (uintptr_t)number;

	storm.start(thread);
	for (unsigned int i = 0; __atomic_add_fetch(&storm_begun, 1, __ATOMIC_RELAXED) <= storm.calls; i++) {
		if (thread == 0 && i % storm.episode == 0)
			storm_open();
		/* What is under way goes on with a file that is closed; the next call is for the next file. */
		while (!__atomic_load_n(&storm_ready, __ATOMIC_ACQUIRE))
			usleep(100);
		storm.call();
		storm_made[thread]++;
	}
	return NULL;
}

/* Makes the calls, and says how many they were: all of them, by all of the threads, on many files. */
static inline void storm_run(struct storm wanted)
{
	pthread_t threads[STORM_THREADS];
	uint64_t made = 0, least = UINT64_MAX;

	storm = wanted;
	if (storm.threads > STORM_THREADS)
		storm.threads = STORM_THREADS;
	for (uintptr_t i = 0; i < storm.threads; i++)
		if (pthread_create(&threads[i], NULL, storm_thread, (void *)i)) {
			storm_verdict("its threads", false, "one cannot begin");
			exit(1);
		}
	for (unsigned int i = 0; i < storm.threads; i++) {
		pthread_join(threads[i], NULL);
		made += storm_made[i];
		least = storm_made[i] < least ? storm_made[i] : least;
	}
	printf("%llu calls in %u threads, the slowest made %llu, the file was opened %llu times\n", (unsigned long long)made, storm.threads,
	       (unsigned long long)least, (unsigned long long)storm_opened);
	storm_verdict("all calls were made", made == storm.calls && made, "too few");
	if (!storm.waits)
		storm_verdict("each thread had its part", least > storm.calls / storm.threads / 20, "one has made too few calls");
	storm_verdict("the file was closed under the others", storm_opened > (storm.waits ? 1 : 2), "too seldom");
}

#endif
