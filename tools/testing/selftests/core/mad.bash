# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# What the tests of management datagrams share: fake_ib, a device with InfiniBand ports, and mad_test, which runs on it.

module=mad_test
parameters=/sys/module/fake_ib/parameters

device() { echo "$*" > $parameters/do; }                       # what fake_ib/main.c says
sent() { cat /sys/kernel/debug/fake_ib/sent; }                  # the last datagrams
# run TEST: runs it, and tells its results, of which there must be some.
run() {
	mark $module
	check "$1 runs" eval "echo $1 > /sys/module/$module/parameters/run"
	told_log "$1" _results
}
_results() { since_mark $module | grep -E '^(pass|fail)\|'; }

# mad_up [OPTION...]: the device and, with these options, mad_test.
mad_up() {
	local strict=0
	modinfo $module > /dev/null 2>&1 || skip_all "$module is built with FERROBAND_TESTS=m"
	# What has agents of the same classes goes.
	modprobe -rq rdma_ucm ib_umad ib_srpt nvme-rdma nvmet-rdma rdma_cm iw_cm ib_cm
	modprobe fake_ib || exit
	mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
	! is_ours ib_core || strict=1
	modprobe $module slowness=$SLOWNESS strict=$strict "$@" || exit
}

mad_down() {
	check "the tests go" rmmod $module
	check "nothing of the kernel's is left but its own queue pairs" _only_own
	check "the device goes" rmmod fake_ib
}
_only_own() {
	local got
	got=$(rdma resource show fakeib0)
	[[ "$got" == *"pd 2 cq 2 qp 4 cm_id 0 mr 0 ctx 0 srq 0"* ]] || { echo "$got"; return 1; }
}
