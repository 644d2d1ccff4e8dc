// SPDX-License-Identifier: GPL-2.0
/*
 * Verbs of the kernel in which each allocation fails in turn (faults.h): failing_client makes them in this process.
 *
 *	faults_client
 */
#include "faults.h"
#include <sys/mman.h>

#define PARAMETERS "/sys/module/failing_client/parameters/"

static const char *name;
static int run;

static int tell(const char *what)
{
	char text[128];
	int length = snprintf(text, sizeof(text), "%s %s", what, name);

	return pwrite(run, text, length, 0) == length ? 0 : errno;
}
static void must(const char *what)
{
	int error = tell(what);

	if (error)
		printf("fail|%s|%s: %s\n", name, what, strerrorname_np(error) ?: "other");
}
static int before(void) { return tell("before"); }
static int call(void) { return tell("call"); }
static void undo(void) { must("undo"); }
static void after(void) { must("after"); }

int main(void)
{
	static char names[4097];
	int calls = open(PARAMETERS "calls", O_RDONLY | O_CLOEXEC);
	char *rest = names;

	faults_init();
	nldev_open();
	directories[0] = "/sys/class/infiniband";
	run = open(PARAMETERS "run", O_WRONLY | O_CLOEXEC);
	if (calls < 0 || run < 0 || read(calls, names, sizeof(names) - 1) <= 0) {
		printf("fail|failing_client|%s\n", strerror(errno));
		return 1;
	}
	mlockall(MCL_CURRENT | MCL_FUTURE);
	while ((name = strsep(&rest, "\n")) && *name) {
		const struct call one = { name, before, call, undo, after };

		each_allocation(&one);
	}
	faults_done();
	return all_done();
}
