#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# rsockets call by call (rsocket_calls.c), and a server of files and its clients that are programs of TCP and get rsockets by librspreload
# (tcp_files.c): the files are compared by their hash.
# rows: 5.079 5.080 5.081 5.082 5.083 5.084 5.085 5.087 5.088 5.089 5.090 5.092 5.093 5.094 5.095 5.097 5.098 5.099
# rows: 5.100 5.101 5.102 5.106
# timeout: 300
# cpus: 2
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
preload=$(find /usr/lib -name librspreload.so | head -1)
files=/tmp/rsockets

# The packets of TCP that host A has had.
packets() { on A cat /proc/net/snmp | awk '/^Tcp:/ && $11 ~ /^[0-9]+$/ { print $11 + $12 }'; }
# serves MODE PORT: its process is $server.
serves() {
	on_exec A env LD_PRELOAD="$preload" "$here/tcp_files" "$1" "$(addr A)" "$2" $files > /run/rsockets.server 2>&1 &
	server=$!
	check "a server: $1" retry 10 grep -q ready /run/rsockets.server
}
ends() { kill $server; wait $server 2> /dev/null; true; }
fetched() { # PORT FILE
	local got
	got=$(on B env LD_PRELOAD="$preload" timeout 60 "$here/tcp_files" fetch "$(addr A)" "$1" "$2" | sha256sum)
	[ "$got" = "$(sha256sum < "$files/$2")" ]
}

hosts_up || exit
told "calls: the end" on A timeout 100 "$here/rsocket_calls" "$(addr A)"
mkdir -p $files
head -c 1000 /dev/urandom > $files/small
head -c 3000001 /dev/urandom > $files/large

tcp=$(packets)
serves serve 8080
check "a small file" fetched 8080 small
check "a large one" fetched 8080 large
check "and again" fetched 8080 large
check_equal "without TCP" "$tcp" "$(packets)"
ends

# Processes: the first connection is of TCP, what comes after that is not.
export RDMAV_FORK_SAFE=1
serves forks 8081
check "a small file of a process" fetched 8081 small
check "a large one of a process" fetched 8081 large
check "nearly without TCP" [ $(($(packets) - tcp)) -lt 60 ]
ends
unset RDMAV_FORK_SAFE
rm -rf $files
check "nothing is left" retry 10 no_objects
finish
