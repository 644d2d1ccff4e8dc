/* SPDX-License-Identifier: GPL-2.0 */
/* What the kernel says of this process. */
#ifndef PROCESS_H
#define PROCESS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number in /proc/self/status, such as "VmPin", of which it has KiB; -1 if it is not there. */
static inline long in_status(const char *name)
{
	FILE *status = fopen("/proc/self/status", "r");
	size_t length = strlen(name);
	char line[256];
	long value = -1;

	while (status && fgets(line, sizeof(line), status))
		if (!strncmp(line, name, length) && line[length] == ':') {
			value = atol(line + length + 1);
			break;
		}
	if (status)
		fclose(status);
	return value;
}

/* KiB that the process has pinned. */
static inline long pinned(void) { return in_status("VmPin"); }

#endif
