#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Commands at random through both doors (hostile_verbs.c: ioctl and write; uverbs_fuzz.c: write), by several threads of an
# unprivileged user on one file, which is closed under them, while the device goes and comes again now and then: no complaint
# of the kernel, and nothing is left. SEED=… begins another sequence; threads make it no repeatable one.
# rows uml: 2.038
# kernels: uml stock
# mix: ib_uverbs
# timeout: 300
# long: 7200 COUNT=1000000
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
count=$(fuzz_count 60000)
hosts_up || exit
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
user() { on_exec A setpriv --reuid=65534 --clear-groups "$@"; }

# replug PID: the device goes and comes again, as long as the process runs.
replug() {
	local times=0
	while kill -0 "$1"; do
		sleep "$((1 + RANDOM % 2)).$((RANDOM % 10))"
		link_down A && times=$((times + 1))
		link_up A
	done 2> /dev/null
	echo "the device came again $times times"
}

# storm COMMAND...: runs it, and the device goes and comes again meanwhile.
storm() {
	local pid status=0
	user "$@" &
	pid=$!
	replug $pid
	wait $pid || status=$?
	return $status
}

check "ioctl and write, $((count / 2)) calls in 4 threads" storm "$here/hostile_verbs" rxe0 "$here/hostile_verbs-tables.txt" \
	"${SEED:-1}" $((count / 2)) 4
check "write, $((count / 2)) calls in 4 threads" storm "$here/uverbs_fuzz" rxe0 $((count / 2)) "${SEED:-1}" 4
after_attack
