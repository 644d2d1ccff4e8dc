#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Each allocation that a module makes while it is loaded fails in turn (faults_module.c): it is not loaded, or works without
# what it did not get, nothing is left behind, and it can be loaded after that.
# Only a kernel with fault injection can do it.
# kernels: debug uml
# mix: rdma_rxe
# mixes: all
# timeout: 300
# allows: faults_module: vmalloc error: size *
# allows: faults_module: page allocation failure: order:*
# allows: kobject: kobject_add_internal failed for * (error: -12 parent: *)
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
. "$here/faults_lib.sh"

# range SYMBOL: where its code is in the kernel, as two numbers.
range() { awk -v s="$1" 'found && $1 != start { print start, $1; exit } $3 == s { found = 1; start = $1 }' <(sort /proc/kallsyms); }
# load MODULE: what it needs is loaded, then it again and again.
load() {
	local needed
	! not_used "$1" > /dev/null || rmmod "$1"
	needed=$(modinfo -F depends "$1" | tr , ' ')
	# shellcheck disable=SC2086 # a list
	modprobe -a $needed
	told "$1: the end" "$here/faults_module" "$1" "$(modinfo -n "$1")"
	check "$1 is loaded" modprobe "$1"
}

faults_on
read -r from to < <(range do_one_initcall)
faults_among "$from" "$to"
modules_unload
modprobe ib_core
load ib_core
load rdma_rxe
# Its device has small tables, so that all allocations of a registration can fail.
modprobe ib_uverbs
load fake_verbs
rmmod fake_verbs ib_uverbs
net_up && link_up A || exit
for module in ib_uverbs_support ib_uverbs client_c client_rust; do load $module; done
rmmod client_c client_rust
faults_everywhere
link_up B
check "the devices work" pingpong ibv_rc_pingpong -n 50 -c
check "nothing is left" retry 10 no_objects
hosts_down
check "all can be unloaded" modules_unload
finish
