#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The programs of rdma-core over all modules: what they print, and how they end, is what was recorded on the stock modules with the same
# rdma-core. Each module is there then, and all of them can go.
# smoke: yes
# images: rdma-core-65
# mixes: long
# timeout: 240
# cpus: 2
. "$(dirname "$0")/lib.sh"

modules="ib_core ib_uverbs ib_umad ib_cm iw_cm rdma_cm rdma_ucm rdma_rxe"

# What rests on chance is left out: numbers of queue pairs, packets and processes, identifiers, measured values (those with a decimal point),
# whether an rping lives to tell that its connection has ended or was refused (another thread of it ends it); and what ours alone has (Documentation/differences.md).
plain() {
	sed -E '/DISCONNECT EVENT|^wait for CONNECTED state|^connect error/d; /cq moderation caps|max_cq_(count|period)/d; s/(QPN|PSN|qpn|psn)(:| ) *0x[0-9a-f]+/\1 X/g; s/0x[0-9a-f]{16}/GUID/g; s/\b[0-9a-f]{16}\b/GUID/g
		s/fe80::[0-9a-f:]*/LOCAL/g; s/[0-9a-f]{4}(:[0-9a-f]{4}){3,}/GUID/g; s/[0-9]+\.[0-9]+/N/g; s/\[[0-9]+\]/[PID]/g; s/[ \t]+/ /g; s/ $//; /^$/d' | uniq
}

# alone: the programs that need no other one, on A.
alone() {
	local command
	while read -r command; do
		echo "== $command"
		# shellcheck disable=SC2086 # a command
		on A timeout 20 $command 2>&1 | without_xrc | plain
		echo "status ${PIPESTATUS[0]}"
	done <<- END
		ibv_devices
		ibv_devinfo
		ibv_devinfo -l
		ibv_devinfo -v -d rxe0
		ibv_devinfo -d nosuch
		ibv_rc_pingpong -d rxe0 -i 2
		rping -c -a 10.0.0.2 -p 9999 -C 1
		ucmatose -s 10.0.0.2 -p 9999
		ibstat
		ibstat -p
		ibstatus
		perfquery
		ibaddr
		smpquery nodeinfo 0
		saquery
	END
}

# exchanges: ping-pongs between the hosts.
exchanges() {
	local command
	while read -r command; do
		echo "== $command"
		# shellcheck disable=SC2086 # a command
		pingpong $command 2>&1 | plain
		echo "status ${PIPESTATUS[0]}"
	done <<- END
		ibv_rc_pingpong -n 20 -c
		ibv_rc_pingpong -n 20 -e
		ibv_rc_pingpong -n 20 -N
		ibv_uc_pingpong -n 20 -c
		ibv_ud_pingpong -n 20 -c
		ibv_srq_pingpong -n 20
		ibv_srq_pingpong -n 20 -e
	END
}

# connections: programs of librdmacm, the server before "--" and the client after it. What an rping that ends says of its own event
# channel is chance (closed_early).
connections() {
	local command
	while read -r command; do
		echo "== $command"
		# shellcheck disable=SC2086 # two commands
		rdma_pair $command 2>&1 | grep -v '^rdma_get_cm_event: Bad file descriptor\|^wait for RDMA_READ_ADV' | plain
		echo "status ${PIPESTATUS[0]}"
	done <<- END
		rping -s -a 10.0.0.1 -v -V -C 3 -- rping -c -a 10.0.0.1 -v -V -C 3
		rping -s -a fd00::1 -v -C 2 -- rping -c -a fd00::1 -v -C 2
		ucmatose -b 10.0.0.1 -c 3 -C 5 -- ucmatose -s 10.0.0.1 -c 3 -C 5
		ucmatose -f ipv6 -b fd00::1 -- ucmatose -f ipv6 -s fd00::1
		udaddy -b 10.0.0.1 -C 5 -- udaddy -s 10.0.0.1 -C 5
		rdma_server -- rdma_client -s 10.0.0.1
		rstream -b 10.0.0.1 -S 4096 -C 20 -T v -- rstream -s 10.0.0.1 -S 4096 -C 20 -T v
		riostream -b 10.0.0.1 -S 4096 -C 20 -- riostream -s 10.0.0.1 -S 4096 -C 20
	END
}

programs() {
	alone
	exchanges
	connections
}

loaded() { local name; for name in $modules; do [ -e "/sys/module/$name" ] || { echo "$name is not there"; return 1; }; done; }
gone() { local name; for name in $modules; do [ ! -e "/sys/module/$name" ] || { echo "$name is there"; return 1; }; done; }

hosts_up || exit
modprobe ib_umad || exit
as_recorded "$(recorded rdma_core)" programs
check "all modules are loaded" loaded
check "nothing is left" retry 10 no_objects
hosts_down
check "all modules can go" modules_unload
check "they are gone" gone
hosts_up
check_equal "and come back" 0 $?
check "and work" pingpong ibv_rc_pingpong -n 20 -c
finish
