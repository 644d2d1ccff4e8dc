/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the uverbs_*.c programs share: calls of ioctl methods as a program sends them that knows no library. They take the C
 * library and the headers of the kernel alone. One line of output per case: see verbs.h.
 */
#ifndef UVERBS_H
#define UVERBS_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "told.h"

/* Younger than the headers of the system. */
enum { OBJECT_DMAH = 17, OBJECT_DMABUF = 18, METHOD_REG_MR = 5 };
enum { REG_MR_HANDLE, REG_MR_PD, REG_MR_DMAH, REG_MR_IOVA, REG_MR_ADDR, REG_MR_LENGTH, REG_MR_ACCESS, REG_MR_FD, REG_MR_FD_OFFSET,
       REG_MR_LKEY, REG_MR_RKEY };

#define UNKNOWN_HANDLE 4711
#define PAGE 4096
#define MAX_ATTRS 24
#define CALL(object, method, attrs) call(object, method, attrs, sizeof(attrs) / sizeof((attrs)[0]))

/* The device file, and the driver that it must be of: enum rdma_driver_id. */
static int node;
static uint32_t driver_id;
static char buffer[16 * PAGE] __attribute__((aligned(PAGE)));

static inline void verdict(const char *name, bool good, const char *why)
{
	if (good)
		printf("pass|%s\n", name);
	else
		printf("fail|%s|%s\n", name, why);
	fflush(stdout);
}

/* A call has ended with an errno, 0 for none. */
static inline void expect(const char *name, int wanted, int got)
{
	char why[100];

	snprintf(why, sizeof(why), "wanted %s, got %s", strerrorname_np(wanted) ?: "0", strerrorname_np(got) ?: "0");
	verdict(name, wanted == got, why);
}

static inline struct ib_uverbs_attr data_in(uint16_t id, const void *data, uint16_t len)
{
	struct ib_uverbs_attr attr = { .attr_id = id, .len = len, .flags = UVERBS_ATTR_F_MANDATORY };

	if (len <= sizeof(attr.data))
		memcpy(&attr.data, data, len);
	else
		attr.data = (uintptr_t)data;
	return attr;
}

static inline struct ib_uverbs_attr u32_in(uint16_t id, uint32_t value) { return data_in(id, &value, sizeof(value)); }
static inline struct ib_uverbs_attr u64_in(uint16_t id, uint64_t value) { return data_in(id, &value, sizeof(value)); }

static inline struct ib_uverbs_attr data_out(uint16_t id, void *data, uint16_t len)
{
	struct ib_uverbs_attr attr = { .attr_id = id, .len = len, .flags = UVERBS_ATTR_F_MANDATORY };

	attr.data = (uintptr_t)data;
	return attr;
}

/* A handle, or a file descriptor. */
static inline struct ib_uverbs_attr handle(uint16_t id, int64_t value)
{
	return (struct ib_uverbs_attr){ .attr_id = id, .flags = UVERBS_ATTR_F_MANDATORY, .data_s64 = value };
}

/* Calls a method, and writes what has become of the attributes back. Returns an errno. */
static inline int call(uint16_t object, uint16_t method, struct ib_uverbs_attr *attrs, size_t count)
{
	struct { struct ib_uverbs_ioctl_hdr hdr; struct ib_uverbs_attr attrs[MAX_ATTRS]; } command = { 0 };
	int ret;

	command.hdr.length = sizeof(command.hdr) + count * sizeof(*attrs);
	command.hdr.object_id = object;
	command.hdr.method_id = method;
	command.hdr.num_attrs = count;
	command.hdr.driver_id = driver_id;
	memcpy(command.attrs, attrs, count * sizeof(*attrs));
	ret = ioctl(node, RDMA_VERBS_IOCTL, &command) ? errno : 0;
	memcpy(attrs, command.attrs, count * sizeof(*attrs));
	return ret;
}

/* A command of write, through the ioctl for that. */
static inline int invoke(uint64_t number, const void *request, uint16_t request_len, void *response, uint16_t response_len)
{
	struct ib_uverbs_attr attrs[] = {
		u64_in(UVERBS_ATTR_WRITE_CMD, number), data_in(UVERBS_ATTR_CORE_IN, request, request_len),
		data_out(UVERBS_ATTR_CORE_OUT, response, response_len), data_out(UVERBS_ATTR_UHW_OUT, buffer, 8),
	};
	size_t count = number == IB_USER_VERBS_CMD_CREATE_AH ? 4 : 3;

	return call(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, attrs, count - !response_len);
}

static inline int destroy(uint16_t object, uint16_t method, uint32_t id)
{
	struct ib_uverbs_attr attrs[] = { handle(0, id) };

	return CALL(object, method, attrs);
}

static inline void die(const char *what, int error)
{
	printf("fail|%s|%s\n", what, strerror(error));
	exit(1);
}

/* Opens a device, and its context. */
static inline void open_context(const char *path)
{
	uint64_t core_support = 0;
	uint32_t vectors = 0;
	struct ib_uverbs_attr attrs[] = {
		data_out(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &vectors, sizeof(vectors)),
		data_out(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &core_support, sizeof(core_support)),
	};
	int error;

	node = open(path, O_RDWR);
	if (node < 0)
		die(path, errno);
	error = CALL(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, attrs);
	if (error)
		die("context", error);
}

static inline uint32_t alloc_pd(void)
{
	struct ib_uverbs_alloc_pd request = { 0 };
	struct ib_uverbs_alloc_pd_resp response = { 0 };
	int error = invoke(IB_USER_VERBS_CMD_ALLOC_PD, &request, sizeof(request), &response, sizeof(response));

	if (error)
		die("allocate a protection domain", error);
	return response.pd_handle;
}

static inline int destroy_pd(uint32_t pd) { return destroy(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, pd); }

/* A region: where its memory is, and what else the driver is to know, are the `count` attributes of `source`. */
static inline int reg_mr(uint32_t pd, const struct ib_uverbs_attr *source, size_t count, uint64_t iova, uint32_t *mr, uint32_t *lkey)
{
	uint32_t rkey;
	struct ib_uverbs_attr attrs[MAX_ATTRS] = {
		handle(REG_MR_HANDLE, 0), handle(REG_MR_PD, pd), u64_in(REG_MR_IOVA, iova), u64_in(REG_MR_LENGTH, 0x20),
		u32_in(REG_MR_ACCESS, IB_UVERBS_ACCESS_LOCAL_WRITE), data_out(REG_MR_LKEY, lkey, 4), data_out(REG_MR_RKEY, &rkey, 4),
	};
	int ret;

	memcpy(attrs + 7, source, count * sizeof(*source));
	ret = call(UVERBS_OBJECT_MR, METHOD_REG_MR, attrs, 7 + count);
	*mr = attrs[0].data;
	return ret;
}

/* IB_MR_REREG_*: what is changed. */
enum { REREG_PLACE = 1, REREG_PD = 2, REREG_ACCESS = 4 };
static inline int rereg_mr(uint32_t mr, uint32_t flags, uint32_t pd, uint32_t *lkey)
{
	const struct ib_uverbs_rereg_mr request = {
		.mr_handle = mr, .flags = flags, .start = 0x3010, .length = 0x20, .hca_va = 0x7010, .pd_handle = pd,
		.access_flags = IB_UVERBS_ACCESS_LOCAL_WRITE,
	};
	struct ib_uverbs_rereg_mr_resp response = { 0 };
	int error = invoke(IB_USER_VERBS_CMD_REREG_MR, &request, sizeof(request), &response, sizeof(response));

	*lkey = response.lkey;
	return error;
}

static inline int open_channel(void)
{
	struct ib_uverbs_create_comp_channel request = { 0 };
	struct ib_uverbs_create_comp_channel_resp response = { 0 };
	int error = invoke(IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, &request, sizeof(request), &response, sizeof(response));

	if (error)
		die("open a completion channel", error);
	return response.fd;
}

#endif
