#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What verbs look like on the wire (verbs_wire.c): the headers of each operation as they were recorded on the stock modules, timers,
# credits, fields of an address, and packets that the peer did not send.
# rows: 2.024 3.002 3.013 3.014 3.037 3.064 3.067 3.069 3.070 3.071 3.072 3.076 3.085 3.106 8.078
# mixes: long
# timeout: 150
. "$(dirname "$0")/lib.sh"

headers() { on A timeout 60 "$here/verbs_wire" headers rxe0 "$(gid_index A)" rxe1 "$(gid_index B)"; }

hosts_up || exit
# Packets that are sent together are cut before they are seen.
for host in A B; do on $host ip link set dev "$(netdev $host)" gso_max_segs 1 || exit; done
here=$(dirname "$0")
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
# An address of B that is no GID of its device, for which A has a route.
on B ip addr add 10.9.9.9/32 dev lo && on A ip route add 10.9.9.9 via 10.0.0.2 || exit
as_recorded "$here/verbs_wire-expected.txt" headers
# How long three retries take, in hundredths of a timeout: three timeouts, of which the first packet may be seen late. Ours waits twice
# as long before each further retry, up to four times: seven timeouts.
hundredths=270
! our_driver || hundredths=525
told "rules: the end" on A timeout 100 "$here/verbs_wire" rules rxe0 "$(gid_index A)" rxe1 "$(gid_index B)" $hundredths
check "nothing is left" retry 5 no_objects
finish
