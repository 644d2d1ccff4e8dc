#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Multicast: within a device, call by call (verbs_mcast.c), and between hosts (mckey).
# rows: 1.073 1.074 4.015 4.107 4.112 4.131 4.132 5.036 6.035 6.036 6.037 6.038 7.038
# kernels: stock
# mixes: all
# timeout: 120
. "$(dirname "$0")/lib.sh"

# mckey_pair GROUP [OPTION...]: two receivers on A and one on B get what B sends.
mckey_pair() {
	local group=$1 pids=() status=0 host
	shift
	for host in A A B; do
		on_exec $host timeout 20 mckey -m "$group" -b "$(addr $host)" -c 4 "$@" &
		pids+=($!)
	done
	sleep 1.5
	on B timeout 20 mckey -m "$group" -b "$(addr B)" -c 4 -s "$@" || status=$?
	for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
	return $status
}

# users MAC: how many times A's net device was told to listen to an address.
users() { on A awk -v mac="$1" '$5 == mac { n += $3 } END { print n + 0 }' /proc/net/dev_mcast; }

hosts_up || exit
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
for host in A B; do on $host ip route add 224.0.0.0/4 dev "$(netdev $host)"; done
here=$(dirname "$0")
! our_driver || mlids=two
told "IPv4: the end" on A timeout 50 "$here/verbs_mcast" rxe0 "$(gid_index A 4)" 239.5.134.7 01005e058607 "$(netdev A)" ${mlids-}
told "IPv6: the end" on A timeout 50 "$here/verbs_mcast" rxe0 "$(gid_index A 6)" ff15::5:6:7 333300060007 "$(netdev A)" ${mlids-}
check_equal "a program that ends leaves no address behind" 0 "$(users 01005e058607)"
check "mckey between hosts" mckey_pair 239.1.2.3
check "nothing is left" retry 5 no_objects
finish
