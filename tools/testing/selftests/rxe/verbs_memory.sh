#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Memory regions and what they pin (verbs_memory.c), completion queues (verbs_poll.c), datagrams (verbs_ud.c).
# rows: 2.033 2.042 2.043 2.047 3.012 3.086 3.089 3.131 4.037 4.054 4.077 4.113 4.114 4.115 4.125 4.142 9.037
# mixes: long
# timeout: 180
. "$(dirname "$0")/lib.sh"

# limited COMMAND...: without privileges, with 64 KiB of locked memory at most.
limited() { on A bash -c 'ulimit -l 64; exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"' limited "$@" 2>&1; }

hosts_up || exit
here=$(dirname "$0")
mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
told "regions: the end" on A timeout 80 "$here/verbs_memory" rxe0 "$(gid_index A)"

# Pages are pinned in batches of as many as one page has room for their addresses: 512.
tracing=/sys/kernel/tracing
pins() { awk '$1 == "batches" { print $2 }' $tracing/kprobe_profile; }
if echo 'p:batches pin_user_pages_fast' >> $tracing/kprobe_events && echo 1 > $tracing/events/kprobes/batches/enable; then
	for pages in 1 512 513 1025; do
		before=$(pins)
		told "a region of $pages pages: the end" on A timeout 20 "$here/verbs_memory" rxe0 "$(gid_index A)" $pages
		check_equal "it is pinned in batches" $(((pages + 511) / 512)) $(($(pins) - before))
	done
	echo 0 > $tracing/events/kprobes/batches/enable
	echo '-:batches' >> $tracing/kprobe_events
else
	skip "pages are pinned in batches" "without kprobes"
fi

# What libibverbs would do of its own accord where the kernel did not.
for safe in "" RDMAV_FORK_SAFE=1 IBV_FORK_SAFE=1 "RDMAV_FORK_SAFE=1 RDMAV_HUGEPAGES_SAFE=1"; do
	# shellcheck disable=SC2086 # None, one or two variables.
	told "fork${safe:+ with $safe}: the end" on A env $safe timeout 20 "$here/verbs_memory" rxe0 "$(gid_index A)" fork
done
check "rdma system show" grep 'copy-on-fork on' <(rdma system show)

told "completion queues: the end" on A timeout 60 "$here/verbs_poll" rxe0 "$(gid_index A)"
told "datagrams: the end" on A timeout 30 "$here/verbs_ud" rxe0 "$(gid_index A)" "$(netdev A)"
check "1,000,000 bytes are too much for who may lock 64 KiB" grep "Couldn't register MR" <(limited timeout 20 ibv_rc_pingpong -d rxe0 -g 1 -s 1000000)
check "and not for who may lock all" pingpong ibv_rc_pingpong -n 5 -s 1000000
check "nothing is left" retry 5 no_objects
finish
