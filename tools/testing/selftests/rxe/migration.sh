#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Path migration (verbs_wire.c): an alternate path and its states, the M bit of packets, migration by a program and after the retries on
# a path that fails, paths that do not fit, forged packets.
# rows: 3.103 3.108 8.074 8.075 8.076
# timeout: 120
. "$(dirname "$0")/lib.sh"
our_driver && is_ours ib_core || skip_all "stock takes no alternate path on RoCE"

hosts_up || exit
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
# The alternate path, and an address that both can reach and nobody has.
for host in A B; do on $host ip addr add "$(addr $host | sed 's/0\.\(.\)$/1.\1/')/24" dev "$(netdev $host)" || exit; done
on B ip neigh add 10.0.1.9 lladdr 02:00:00:de:ad:03 dev "$(netdev B)" nud permanent || exit
retry 10 on A ping -q -c 1 -W 1 10.0.1.2 || exit
alternates() { grep -qs '0a00:010' /sys/class/infiniband/"$1"/ports/1/gids/*; }
retry 10 alternates rxe0 && retry 10 alternates rxe1 || exit
told "migration: the end" on A timeout 90 "$(dirname "$0")/verbs_wire" migration rxe0 "$(gid_index A)" rxe1 "$(gid_index B)"
check "nothing is left" retry 5 no_objects
finish
