// SPDX-License-Identifier: GPL-2.0
/*
 * An XDP program that passes every packet, of fragments too, on a net device, for as long as a command runs.
 *
 *   xdp_pass native|generic NETDEV COMMAND [ARGUMENT...]
 */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int failed(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	return 1;
}

int main(int argc, char **argv)
{
	static const struct bpf_insn pass[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = XDP_PASS },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr load = { .prog_type = BPF_PROG_TYPE_XDP, .insns = (unsigned long)pass, .insn_cnt = 2, .license = (unsigned long)"GPL",
		.prog_flags = BPF_F_XDP_HAS_FRAGS, .expected_attach_type = BPF_XDP };
	union bpf_attr attach = { .link_create.attach_type = BPF_XDP };
	int status;
	pid_t child;

	if (argc < 4)
		return failed("usage: native|generic NETDEV COMMAND");
	attach.link_create.prog_fd = bpf(BPF_PROG_LOAD, &load);
	if ((int)attach.link_create.prog_fd < 0)
		return failed("load a program");
	attach.link_create.target_ifindex = if_nametoindex(argv[2]);
	attach.link_create.flags = strcmp(argv[1], "native") ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE;
	/* The link ends with this process. */
	if (bpf(BPF_LINK_CREATE, &attach) < 0)
		return failed("attach it");
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execvp(argv[3], argv + 3);
		exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return failed(argv[3]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
