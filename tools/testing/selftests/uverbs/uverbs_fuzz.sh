#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Commands written to a device file at random by an unprivileged user (uverbs_fuzz.c): every errno as often as on the stock
# modules, no complaint of the kernel, nothing left behind. The same by root on a device that does not exist and has more
# kinds of objects (../modules/fake_verbs.c, with FERROBAND_TESTS=m).
# rows: 4.018 4.023 4.025 9.034
# timeout: 200
. "$(dirname "$0")/lib.sh"
our_driver || skip_all "the stock driver offers fewer commands, so the errnos are others"
here=$(dirname "$0")
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd

hosts_up || exit
fuzz() { on A setpriv --reuid=65534 --clear-groups timeout 90 "$here/uverbs_fuzz" rxe0 200; }
as_recorded "$here/uverbs_fuzz-expected.txt" fuzz
check "the device works" pingpong ibv_rc_pingpong -n 50 -c
check "nothing is left" retry 10 no_objects

if modinfo fake_verbs > /dev/null 2>&1; then
	live() { [ "$(cat /sys/module/fake_verbs/parameters/live)" = 0 ]; }
	fake_node() { grep -l fakev0 /sys/class/infiniband_verbs/uverbs*/ibdev; }
	check "the other device" modprobe fake_verbs
	retry 5 fake_node > /dev/null
	node=/dev/infiniband/$(basename "$(dirname "$(fake_node)")")
	retry 5 test -c "$node"
	fuzz_fake() { timeout 90 "$here/uverbs_fuzz" "$node" 150; }
	as_recorded "$here/uverbs_fuzz_fake-expected.txt" fuzz_fake
	check "nothing is left of it" retry 5 live
	check "it can be removed" retry 5 modprobe -r fake_verbs
fi
check "the kernel is well" eval '! said_since_boot | grep -E "BUG:|WARNING:|Oops|general protection"'
finish
