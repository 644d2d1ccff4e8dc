#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Objects of user space that no software driver has, on a device that does not exist (uverbs_fake.c, ../modules/fake_verbs.c).
# kernels: stock debug
# rows: 3.120 3.121 3.128 4.020 4.022 4.082 4.083 4.087 4.088 4.089 4.090 4.091 4.092 4.093 4.094 4.095 4.120 4.134 9.036
# mix: ib_uverbs
# mixes: all
# timeout: 90
. "$(dirname "$0")/lib.sh"

modinfo fake_verbs > /dev/null 2>&1 || skip_all "fake_verbs is built with FERROBAND_TESTS=m"
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
live() { [ "$(cat /sys/module/fake_verbs/parameters/live)" = 0 ]; }

check "the modules load" eval 'modprobe ib_uverbs && modprobe fake_verbs more=1'
node=$(retry 5 ls -d /sys/class/infiniband_verbs/uverbs* && grep -l fakev0 /sys/class/infiniband_verbs/uverbs*/ibdev)
node=/dev/infiniband/$(basename "$(dirname "$node")")
retry 5 test -c "$node"
told "objects of a device that does not exist: the end" timeout 50 "$(dirname "$0")/uverbs_fake" "$node" \
	"$(is_ours ib_uverbs && echo ours || echo stock)"
check "nothing is left" retry 5 live
check "the module can be removed" retry 5 modprobe -r fake_verbs

# The one event that no driver reports: watched while the GID table of a device changes.
gids_watched() {
	local watcher
	on_exec A timeout 20 stdbuf -oL ibv_asyncwatch -d rxe0 > /run/gids-watched 2>&1 &
	watcher=$!
	retry 5 grep -q async /run/gids-watched
	on A ip addr add 10.0.7.1/24 dev "$(netdev A)"
	retry 5 grep 'event_type IBV_EVENT_GID_CHANGE (18), port 1' /run/gids-watched
	kill $watcher
	wait $watcher
	grep -q GID_CHANGE /run/gids-watched
}
hosts_up || exit
check "all events: GID_CHANGE" gids_watched
check "CQs in memory of the kernel, which programs map" pingpong ibv_rc_pingpong -n 10
finish
