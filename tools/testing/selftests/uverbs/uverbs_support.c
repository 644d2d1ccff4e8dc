// SPDX-License-Identifier: GPL-2.0
/*
 * Capabilities of user space: a context that is opened with file descriptors of nodes in /dev.
 *
 *   uverbs_support NODE UCAP MODULE
 *
 * UCAP is the node of a capability, MODULE the module that must be removed for it to go.
 */
#include "uverbs.h"

enum { FD_ARR = 2 };

/* Opens a context with descriptors; returns an errno. */
static int context_with(const char *path, const int *fds, int count)
{
	uint64_t core_support = 0;
	uint32_t vectors = 0;
	struct ib_uverbs_attr attrs[] = {
		data_out(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &vectors, sizeof(vectors)),
		data_out(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &core_support, sizeof(core_support)),
		data_in(FD_ARR, fds, count * sizeof(*fds)),
	};
	int error;

	node = open(path, O_RDWR);
	if (node < 0)
		die(path, errno);
	error = CALL(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, attrs);
	close(node);
	return error;
}

int main(int argc, char **argv)
{
	char remove[100];
	int ucap, null, fds[3];

	if (argc != 4)
		return 2;
	driver_id = RDMA_DRIVER_RXE;
	ucap = open(argv[2], O_RDWR | O_CLOEXEC);
	null = open("/dev/null", O_RDWR);
	if (ucap < 0 || null < 0)
		die(argv[2], errno);

	fds[0] = fds[1] = fds[2] = ucap;
	expect("a context with a capability", 0, context_with(argv[1], fds, 1));
	expect("a context with the same capability three times", 0, context_with(argv[1], fds, 3));
	fds[2] = null;
	expect("a descriptor that is no capability", EBADF, context_with(argv[1], fds, 3));
	fds[0] = UNKNOWN_HANDLE;
	expect("a descriptor that is none", EBADF, context_with(argv[1], fds, 1));
	fds[0] = -1;
	expect("a negative descriptor", EBADF, context_with(argv[1], fds, 1));

	snprintf(remove, sizeof(remove), "modprobe -r %s", argv[3]);
	verdict("a capability goes while its node is open", system(remove) == 0, "the module cannot be removed");
	verdict("the node has gone", access(argv[2], F_OK) != 0, "it is still there");
	fds[0] = ucap;
	expect("a capability that has gone", EINVAL, context_with(argv[1], fds, 1));
	return all_done();
}
