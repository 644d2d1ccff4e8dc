#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The demonstration, in the guest: two hosts (network namespaces joined by a veth pair), an rxe link in each, and between
# them the programs that people have, unmodified. Ends with a table of what ran and how fast.
. /ferroband/selftests/lib.sh

failures=0
table=()

say() { printf '\n== %s  [%s s]\n' "$1" "$SECONDS"; }

# run NAME PARSER COMMAND...: shows what the command prints; its result is a line of the table.
run() {
	local name=$1 parser=$2 output status=0
	shift 2
	say "$name"
	output=$("$@" 2>&1) || status=$?
	printf '%s\n' "$output"
	if [ $status = 0 ]; then
		table+=("$(printf '%-34s  ok      %s' "$name" "$("$parser" <<< "$output" | tail -n 1)")")
	else
		failures=$((failures + 1))
		table+=("$(printf '%-34s  FAILED  status %s' "$name" $status)")
	fi
}

# What the programs print, in a few words.
devices() { awk '/hca_id/ { name = $2 } /state:/ { state = $2 } /active_mtu/ { print name ", " state ", MTU " $2 }'; }
rate() { awk '/bytes in/ { rate = $(NF - 1) " " $NF } /usec\/iter/ { print rate ", " $(NF - 1) " us each way and back" }'; }
bandwidth() { awk '$1 == 65536 { print $4 " MiB/s in messages of 64 KiB" }'; }
pings() { awk '/^ping data/ { n++ } END { if (n) print n " pings answered, data compared" }'; }

two_devices() { on A ibv_devinfo -d rxe0 && on B ibv_devinfo -d rxe1; }

say "the stock kernel $(uname -r), our modules: $(ours)"
modules_load || exit
say "two hosts: A 10.0.0.1, fd00::1 and B 10.0.0.2, fd00::2; an rxe link on each"
trap hosts_down EXIT
if ! { net_up && link_up A && link_up B; }; then
	echo "The hosts did not come up; the kernel's last words:"
	dmesg | tail -n 20
	exit 1
fi
on A rdma link show rxe0/1
on B rdma link show rxe1/1

run 'ibv_devinfo' devices two_devices
run 'ibv_rc_pingpong' rate pingpong ibv_rc_pingpong
V=6 run 'ibv_rc_pingpong, IPv6, 64 KiB' rate pingpong ibv_rc_pingpong -s 65536 -m 4096 -n 200
run 'ibv_ud_pingpong' rate pingpong ibv_ud_pingpong -s 1024
run 'ib_write_bw' bandwidth perftest ib_write_bw -s 65536 -n 500
run 'rping' pings rdma_pair rping -s -a 10.0.0.1 -C 10 -V -- rping -c -a 10.0.0.1 -C 10 -v -V

printf '\n%s\n' '--------------------------------------------------------------------------------'
printf '%-34s  %-6s  %s\n' program result 'how fast (emulated processors where there is no KVM)'
printf '%s\n' "${table[@]}"
printf '%s\n' '--------------------------------------------------------------------------------'
complaints=$(dmesg | grep -E 'WARNING:|BUG:|Oops|refcount_t:|Call Trace:')
if [ -n "$complaints" ]; then
	printf 'The kernel complained:\n%s\n' "$complaints"
	failures=$((failures + 1))
fi
exit $failures
