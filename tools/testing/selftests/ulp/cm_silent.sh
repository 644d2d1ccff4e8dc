#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Hosts that ask for connections and have no link address: each takes up to a second to look for. Other messages of the port are
# received meanwhile, and the device goes without waiting for all of them.
# rows: 6.031 6.033
# timeout: 240
. "$(dirname "$0")/lib.sh"

here=$(dirname "$0")
requests() { on B python3 "$here/cm_forge.py" "$a4" "$1" "$2"; } # FIRST-ADDRESS COUNT
received() { ${FERROBAND_HOST:+on A} cat "$port/cm_rx_msgs/req"; }
have_come() { [ "$(received)" -ge "$1" ]; }
# How many hosts A has looked for; it looks for one after the other.
looked_for() { on A ip neigh show dev "$(netdev A)" | grep -c '^10\.0\.0\.[12][0-9][0-9] '; }
waits() { [ "$(looked_for)" -lt "$1" ]; }
connects() { LIMIT=$1 pings A -a "$(addr B)" -C 2; }
goes() { # SECONDS
	local begin=$SECONDS
	link_down A && [ $((SECONDS - begin)) -le "$1" ]
}

hosts_up || exit
a4=$(addr A)
port=/sys/class/infiniband/$(dev A)/ports/1
on_exec B timeout 120 rping -s -P -a "$(addr B)" > /dev/null &
server=$!
cm_listens B
check "a connection" connects 30
before=$(received)
check "requests of hosts that are not there" requests 10.0.0.100 50
check "all have come" retry 5 have_come $((before + 50))
check "the first one is looked for" retry 5 eval '[ "$(looked_for)" -ge 1 ]'
# Stock takes all messages one after the other.
known_on ib_cm "a connection meanwhile" connects 20
check "while requests wait" waits 50
kill $server
wait $server
check "more requests" requests 10.0.0.150 50
known_on ib_cm "the device goes, and waits for few of them" goes 10
link_down B
check "nothing is left" modules_unload
finish
