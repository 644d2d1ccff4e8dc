#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Rules of objects that programs make (verbs_rules.c), and which system calls their control and their data need.
# rows: 2.017 2.018 2.019 2.029 2.030 2.035 2.036 2.037 2.045 9.024 9.031 9.038
# timeout: 120
. "$(dirname "$0")/lib.sh"

# straced N: a ping-pong of N messages; the system calls of both programs on their devices are in /run/straced.
straced() {
	cat > /run/straced.sh <<- 'EOF'
		#!/bin/bash
		exec strace -qq -P /dev/infiniband/uverbs0 -P /dev/infiniband/uverbs1 -o /run/straced.$$ ibv_rc_pingpong "$@"
	EOF
	chmod +x /run/straced.sh
	rm -f /run/straced.*[0-9]
	pingpong /run/straced.sh -n "$1" > /dev/null && cat /run/straced.*[0-9] > /run/straced
}
# calls PATTERN: how many of them there were.
calls() { grep -c "$1" /run/straced; }
# \\34 is POST_SEND: the doorbell.
few_calls() {
	local control
	straced 20 && control=$(calls '^ioctl') && [ "$control" -gt 10 ] && [ "$(calls '^write')" = "$(calls '^write([0-9]*, "\\34')" ] &&
		[ "$(calls '^write')" = 40 ] && straced 50 && [ "$(calls '^write')" = 100 ] && [ "$(calls '^ioctl')" = "$control" ] &&
		[ "$(calls '^mmap')" = 6 ] && [ "$(calls '^\(read\|poll\)')" = 0 ] || { cat /run/straced; return 1; }
}

hosts_up || exit
here=$(dirname "$0")
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
told "rules: the end" on A timeout 80 "$here/verbs_rules" rxe0 "$(gid_index A)" "$(our_driver && echo ours)"
check "a message costs its sender one system call, its receiver none" few_calls
check "nothing is left" retry 5 no_objects
finish
