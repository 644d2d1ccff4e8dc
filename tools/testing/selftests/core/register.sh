#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Devices are registered and unregistered under lockdep, four at a time, while the stock users of RDMA in the kernel are loaded. Two of
# them come back to the core from their `add` and `remove`: RDS and the ids of a program listen on each device that there is.
# There are 16 rounds; in make check-long 1,000.
# rows long: 2.010
# kernels: uml
# timeout: 60
# long: 3600 ROUNDS=1000
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
rounds=${ROUNDS:-16}

lockdep_is_on() { grep 'debug_locks: *1' /proc/lockdep_stats; }
# listens PROGRAM: it has an id on rxeL that waits for connections. ([ and ] are about the name of a user in the kernel.)
listens() { rdma resource show cm_id link rxeL | grep "LISTEN.* comm \[\?$1"; }
# churn ROUNDS: how many devices came and went, of four programs.
churn() {
	local nth
	for nth in 1 2 3 4; do
		ip link add "wire$nth" type veth peer name "end$nth" && ip link set "wire$nth" up && ip link set "end$nth" up
		"$here/register.py" "rxeC$nth" "wire$nth" $(($1 / 4)) &
	done | awk '{ sum += $1 } END { print sum }'
}

check "lockdep is on" lockdep_is_on
check "the users of RDMA are loaded" modules_load rdma_rxe ib_uverbs rdma_ucm ib_umad nvme_rdma nvmet_rdma rds_rdma
wire_up
check "a device" rdma link add rxeL type rxe netdev left
rping -s > /run/rping 2>&1 &
rping=$!
check "a program listens on it" retry 5 listens rping
check "and RDS" retry 5 listens rds_rdma
check "it goes" rdma link del rxeL
check_equal "so many devices come and go" "$rounds" "$(churn "$rounds")"
check "the program is still there" kill -0 $rping
check "another device" rdma link add rxeL type rxe netdev left
check "on which the program listens" retry 5 listens rping
check "and RDS" retry 5 listens rds_rdma
kill $rping
wait $rping 2> /dev/null
check "it goes" rdma link del rxeL
check "the users of RDMA go" modprobe -ra nvme_rdma nvmet_rdma rds_rdma
check "everything unloads" modules_unload
check "lockdep is still on" lockdep_is_on
finish
