#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Threads that make and destroy objects by guessed handles (uverbs_guess.c): until they end, are killed, or their device goes.
# timeout: 120
. "$(dirname "$0")/lib.sh"

modinfo fake_verbs > /dev/null 2>&1 || skip_all "fake_verbs is built with FERROBAND_TESTS=m"
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
guess=$(dirname "$0")/uverbs_guess
log=/run/uverbs_guess
live() { [ "$(cat /sys/module/fake_verbs/parameters/live)" = 0 ]; }
node() {
	local file
	file=$(grep -l fakev /sys/class/infiniband_verbs/uverbs*/ibdev) || return
	file=/dev/infiniband/$(basename "$(dirname "$file")")
	test -c "$file" && echo "$file"
}
device_up() { modprobe -a ib_uverbs fake_verbs && retry 5 node; }

# A process that is killed in the middle, while another one goes on.
killed() {
	"$guess" "$(node)" 60 > /dev/null &
	sleep "0.$((RANDOM % 5 + 1))"
	kill -9 $!
	killed_by_us $!
}
kill_many() { local i; for i in {1..20}; do killed || return; done; }

# did_something LOG: a program that has come to its end.
did_something() { cat "$1"; grep -q '^pass|guesses: they have done something' "$1" && [ "$(tail -1 "$1")" = 'end|' ]; }

# The device goes under its users: they see EIO, and nobody waits, the removal least of all.
unplug() {
	local user
	device_up || return
	"$guess" "$(node)" 60 > $log &
	user=$!
	sleep 0.5
	timeout 30 rmmod fake_verbs || return
	sleep 0.2
	kill $user
	wait $user && did_something $log && grep -q ' [1-9][0-9]* found no device' $log
}
unplug_many() { local i; for i in {1..5}; do unplug || return; done; }

check "the modules load" device_up
told "guesses: the end" timeout 60 "$guess" "$(node)" 5
check "nothing is left" retry 5 live
"$guess" "$(node)" 60 > $log.other &
other=$!
check "killed in the middle" kill_many
kill $other
# Not in the subshell of check: only its parent can wait for a process.
wait $other
ended=$?
check_equal "the other one goes on" 0 $ended
check "and has done what it is for" did_something $log.other
check "nothing is left of those that were killed" retry 5 live
check "the module can be removed" retry 5 rmmod fake_verbs
check "the device goes under its users" unplug_many
check "no warning of the kernel" eval '! said_since_boot | grep -A 20 "WARNING\|BUG:\|Oops\|refcount_t"'
finish
