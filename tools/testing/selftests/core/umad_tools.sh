#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# infiniband-diags over the stock ib_umad: what its programs print on RoCE, recorded on the stock modules. Most of them ask for
# an agent of subnet management first, which RoCE has not, and end there.
# rows: 6.005 6.032 6.040
# mixes: all ib_umad
. "$(dirname "$0")/lib.sh"

# What differs from boot to boot is named by its kind.
plain() { sed -E 's/0x[0-9a-f]{16}/0xGUID/g; s/[0-9a-f]{4}(:[0-9a-f]{4}){3,}/GUID/g; s/\[[0-9]+\]/[PID]/g; s/time [0-9]+ ms/time/'; }

tools() {
	local command
	while read -r command; do
		echo "== $command"
		# shellcheck disable=SC2086 # a command
		timeout 20 $command 2>&1 | plain
		echo "status ${PIPESTATUS[0]}"
	done <<- END
		ibstat -l
		ibstat -p
		ibstat
		ibstat rxe0 1
		ibstat nosuch
		ibstatus
		ibv_devinfo
		perfquery
		perfquery -x
		perfquery -G 0x1
		ibping -c 1 1
		saquery
		smpquery nodeinfo 0
		ibaddr
		sminfo
		ibnetdiscover
		ls /sys/class/infiniband_mad/umad0/
		ls /sys/class/infiniband_mad
	END
}

# ping_server: its agent (a vendor's class) is there, and goes with the program.
ping_server() {
	local server status=0
	on_exec A ibping -S > /dev/null 2>&1 &
	server=$!
	sleep 1
	kill -0 $server || status=1
	kill $server
	wait $server 2> /dev/null
	return $status
}

# description: rdma-ndd gives each device the name of the host.
description() {
	local daemon name status=0
	name=$(hostname)
	rdma-ndd -f > /dev/null 2>&1 &
	daemon=$!
	sleep 1
	hostname other-name
	retry 5 grep -q other-name /sys/class/infiniband/rxe0/node_desc && retry 5 grep -q other-name /sys/class/infiniband/rxe1/node_desc ||
		status=1
	cat /sys/class/infiniband/rxe*/node_desc
	hostname "$name"
	kill $daemon
	wait $daemon 2> /dev/null
	return $status
}

hosts_up || exit
modprobe ib_umad || exit
as_recorded "$(recorded umad_tools)" tools
# That of a newer rdma-core wants a port with subnet management too.
if [[ $(recorded umad_tools) = *-65.txt ]]; then
	check_equal "ibping's server" "Failed to open '(null)' port '0'" "$(timeout 10 ibping -S 2>&1 | sed -n 's/^ibping: iberror: failed: //p')"
else
	check "ibping's server" ping_server
fi
check "the port says that there is a CM" eval '[ $(($(cat /sys/class/infiniband/rxe0/ports/1/cap_mask) >> 16 & 1)) = 1 ]'
check "rdma-ndd" description
finish
