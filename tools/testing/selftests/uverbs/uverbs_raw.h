/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands of a device file as they are written, without a library.
 */
#ifndef UVERBS_RAW_H
#define UVERBS_RAW_H

#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <sys/mman.h>

/* Opens the device file of a device, or one that is given by its path; -1 if there is none. */
static inline int raw_open(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	char path[128] = "";
	int fd = -1;

	if (*name == '/')
		snprintf(path, sizeof(path), "%s", name);
	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			snprintf(path, sizeof(path), "/dev/infiniband/%s", list[i]->dev_name);
	if (*path)
		fd = open(path, O_RDWR | O_CLOEXEC);
	if (list)
		ibv_free_device_list(list);
	return fd;
}

/* Writes a command of `in` and `out` bytes; 0 or an errno. The request begins with the address of the response, if there is one. */
static inline int raw_write(int fd, uint32_t command, void *request, size_t in, void *response, size_t out)
{
	char buffer[16384];
	struct ib_uverbs_cmd_hdr *header = (void *)buffer;
	size_t length = sizeof(*header) + in;

	if (length > sizeof(buffer))
		return E2BIG;
	if (response)
		*(uint64_t *)request = (uintptr_t)response;
	*header = (struct ib_uverbs_cmd_hdr){ command, length / 4, out / 4 };
	memcpy(header + 1, request, in);
	return write(fd, buffer, length) == (ssize_t)length ? 0 : errno;
}

/* As raw_write, of an extended command; the last bytes of the response are the driver's. */
static inline int raw_write_ex_driver(int fd, uint32_t command, const void *request, size_t in, void *response, size_t out, size_t driver)
{
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_ex_cmd_hdr extended;
		char request[4096];
	} all = {
		{ command | IB_USER_VERBS_CMD_FLAG_EXTENDED, in / 8, (out - driver) / 8 },
		{ .response = (uintptr_t)response, .provider_out_words = driver / 8 },
	};
	size_t length = sizeof(all.header) + sizeof(all.extended) + in;

	if (in > sizeof(all.request))
		return E2BIG;
	memcpy(all.request, request, in);
	return write(fd, &all, length) == (ssize_t)length ? 0 : errno;
}

/* The same; all of it is the core's. */
static inline int raw_write_ex(int fd, uint32_t command, const void *request, size_t in, void *response, size_t out)
{
	return raw_write_ex_driver(fd, command, request, in, response, out, 0);
}

#endif
