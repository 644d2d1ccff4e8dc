# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Fault injection of the kernel, for the faults*.sh that want it (Documentation/fault-injection in the kernel's source).

# shellcheck disable=SC2034
faults=/sys/kernel/debug

# faults_on: any allocation may fail, GFP_KERNEL and single pages too; skips the program where the kernel cannot do it.
faults_on() {
	local kind
	[ -e $faults/failslab ] || mount -t debugfs none $faults 2> /dev/null
	[ -e $faults/failslab ] || skip_all "the kernel has no fault injection (KERNEL=debug has it)"
	for kind in failslab fail_page_alloc; do
		echo N > $faults/$kind/ignore-gfp-wait
		echo "${FAULTS_VERBOSE:-0}" > $faults/$kind/verbose
		echo 1000 > $faults/$kind/verbose_ratelimit_burst
	done
	echo N > $faults/fail_page_alloc/ignore-gfp-highmem
	echo 0 > $faults/fail_page_alloc/min-order
}
