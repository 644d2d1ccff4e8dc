// SPDX-License-Identifier: GPL-2.0
/*
 * Loading a module in which each allocation of its initialization fails in turn (faults.h): the caller lets only those fail
 * that do_one_initcall() is on the stack of.
 *
 *	faults_module MODULE FILE [PARAMETERS]
 *
 * All that it needs is loaded. A module that loads nevertheless is removed again.
 */
#include "faults.h"
#include <sys/syscall.h>

static const char *name, *parameters = "";
static int file;

static int load(void) { return syscall(SYS_finit_module, file, parameters, 0) ? errno : 0; }
static void unload(void)
{
	for (int i = 0; i < 100 && syscall(SYS_delete_module, name, O_NONBLOCK); i++)
		usleep(50000);
}

int main(int argc, char **argv)
{
	char what[100];
	struct call call = { what, NULL, load, unload, .slow = 8 };

	if (argc < 3)
		return 2;
	name = argv[1];
	if (argc > 3)
		parameters = argv[3];
	file = open(argv[2], O_RDONLY | O_CLOEXEC);
	snprintf(what, sizeof(what), "load %s", name);
	faults_init();
	directories[0] = "/sys/class/infiniband";
	directories[1] = "/sys/class/infiniband_verbs";
	directories[2] = "/sys/module";
	each_allocation(&call);
	faults_done();
	return all_done();
}
