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

# faults_among FROM TO: of all allocations only those fail that have code between these addresses on their stack.
faults_among() {
	local kind
	for kind in failslab fail_page_alloc; do
		echo "0x$1" > $faults/$kind/require-start
		echo "0x$2" > $faults/$kind/require-end
	done
}
# _range MODULE PATTERN: from the first function with such a name to the end of the last one; MODULE is empty for the kernel's.
_range() {
	awk -v m="${1:+[$1]}" '$4 == m && $2 ~ /[tT]/' /proc/kallsyms | sort | awk -v pattern="$2" '
		ends { last = $1; ends = 0 }
		$3 ~ pattern { first = first ? first : $1; last = $1; ends = 1 }
		END { print first, last }'
}
# faults_in MODULE [PATTERN]: only those fail that the module makes, or what it calls, or only these functions of it. Files in sysfs
# are not among them: a RoCE device has thousands, and it takes seconds to make them all.
faults_in() {
	local from to
	read -r from to < <(_range "$1" "${2:-.}")
	[ -n "$to" ] || return
	faults_among "$from" "$to"
	faults_not_in '__kernfs_new_node|kernfs_new_node|__kernfs_create_file|kernfs_create_link|sysfs_create_group|sysfs_add_file_mode_ns|sysfs_create_link'
}
# faults_not_in PATTERN: nothing fails that a function with such a name calls, or one between them in the kernel.
faults_not_in() {
	local from to kind
	read -r from to < <(_range '' "^($1)\$")
	[ -n "$to" ] || return
	for kind in failslab fail_page_alloc; do
		echo "0x$from" > $faults/$kind/reject-start
		echo "0x$to" > $faults/$kind/reject-end
	done
}
# faults_everywhere: as it was in the beginning.
faults_everywhere() {
	local kind
	faults_among 0 ffffffffffffffff
	for kind in failslab fail_page_alloc; do
		echo 0 > $faults/$kind/reject-start
		echo 0 > $faults/$kind/reject-end
	done
}
