#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Hosts that ask for connections and have no link address: each takes up to a second to look for. Other messages of the port are received
# meanwhile, and other hosts are looked for beside them; a host that is known waits behind none of them; a request that is repeated waits
# once, 512 wait at most, and the device goes without waiting for all of them.
# rows: 6.031 6.033
# timeout: 240
. "$(dirname "$0")/lib.sh"

here=$(dirname "$0")
forge() { on B python3 "$here/cm_forge.py" "$1" "$a4" "${@:2}"; } # HOW ADDRESS COUNT [DEVICE]
counter() { ${FERROBAND_HOST:+on A} cat "$port/cm_$1/req"; }
have_come() { [ "$(counter rx_msgs)" -ge "$1" ]; }
are_repeated() { [ "$(counter rx_duplicates)" -ge "$1" ]; }
# As many requests wait as have room, and those that were looked for while others came.
looks_for_some() {
	local hosts
	hosts=$(forge watched 10.1.32.0 1000 "$(netdev B)") && echo "$hosts hosts of 1000"
	[ "$hosts" -ge 512 ] && [ "$hosts" -lt 1000 ]
}
connects() { LIMIT=$1 pings A -a "$(addr B)" -C 2; }
is_served() { LIMIT=$1 pings B -a "$(addr A)" -C 2; }
goes() { # SECONDS
	local begin=$SECONDS
	link_down A && [ $((SECONDS - begin)) -le "$1" ]
}

# Stock takes all messages one after the other: there each of these hosts delays all by a second.
silent=200 repeats=400
is_ours ib_cm || silent=25 repeats=5
hosts_up || exit
a4=$(addr A)
port=/sys/class/infiniband/$(dev A)/ports/1
on A ip route add 10.1.0.0/16 dev "$(netdev A)"
servers=()
for host in A B; do
	on_exec $host timeout 200 rping -s -P -a "$(addr $host)" > /dev/null &
	servers+=($!)
	cm_listens $host
done
check "a connection" connects 30
before=$(counter rx_msgs)
check "requests of $silent hosts that are not there" forge each 10.1.1.0 $silent
check "all have come" retry 5 have_come $((before + silent))
known_on ib_cm "a connection meanwhile" connects 20
known_on ib_cm "a host that asks meanwhile" is_served 60

before=$(counter rx_duplicates)
check "a request that is repeated" forge again 10.1.2.0 $repeats
# Each second one may begin anew, when its sender was not found.
known_on ib_cm "is one that waits" retry 10 are_repeated $((before + repeats * 3 / 4))

if is_ours ib_cm; then
	# Until all of these hosts have been looked for, 32 in a second.
	sleep 8
	before=$(counter rx_msgs)
	check "512 requests wait" looks_for_some
	check_equal "all have come" $((before + 1000)) "$(counter rx_msgs)"
	check "then others are served" is_served 60
	check "as many again" forge each 10.1.64.0 1000
	# These take some 16 s.
	check "a host that is known does not wait for them" is_served 8
fi
kill "${servers[@]}"
wait "${servers[@]}"
check "more requests" forge each 10.1.3.0 $((2 * silent))
known_on ib_cm "the device goes, and waits for few of them" goes 10
link_down B
check "nothing is left" modules_unload
finish
