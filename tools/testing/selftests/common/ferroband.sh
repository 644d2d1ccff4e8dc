#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The command ferroband: state, choice of modules, self-test and report tell what is so.
# timeout: 240
. "$(dirname "$0")/lib.sh"
ferroband() { /ferroband/ferroband "$@"; }

[ "$(ours)" != none ] || skip_all "it is about our modules"
names=$(ours)
overrides=/etc/depmod.d/ferroband.conf

# column MODULE NUMBER: what the table of the state says of a module.
column() { ferroband status | awk -v name="$1" -v column="$2" '$1 == name { print $column }'; }
# refused MESSAGE COMMAND...: it ends with status 1, and says so.
refused() {
	local told status=0
	told=$("${@:2}" 2>&1) || status=$?
	echo "$told"
	[ $status = 1 ] && grep -q "$1" <<< "$told"
}
# taken FOLDER MODULE...: what modprobe takes is in that folder of the kernel's.
taken() {
	local name
	for name in "${@:2}"; do modinfo -n "$name" | grep "/$1/" || return; done
}
# as_told COMMAND...: what it says is to be done, is done.
as_told() {
	local lines
	lines=$("$@" | grep '^  modprobe ') || return
	echo "$lines"
	eval "$lines"
}
# The table of a self-test, without what is different each time, and the exit status.
selftest() { { ferroband selftest; echo "status $?"; } | awk '{ print $1, $2 }'; }
nothing_left() { ! ip netns list | grep ferroband && ! ls /sys/class/infiniband | grep selftest; }

# support WORD: what the state says of a kernel of which packaging/kernels has that word.
support() {
	printf '%s\t1\tsuite\t%s\tdemand\n' "$(uname -r)" "$1" > /run/kernels
	mount --bind /run/kernels /ferroband/kernels
	ferroband status | sed -n 's/^support: //p'
	umount /ferroband/kernels
}

modules_unload
check_equal "a kernel that is tested" "it is tested: all tests are run on it" "$(support tested)"
check_equal "one that is smoke-tested" "it is smoke-tested: a small choice of the tests passes on it" "$(support smoke)"
check_equal "all modules that can be ours are" "$names" "$(ferroband status | awk '$2 == "Ferroband" { print $1 }' | sort | xargs)"
check_equal "none is loaded" - "$(column ib_core 3)"
check "no links" eval 'ferroband status | grep -x "no RDMA links"'
hosts_up
check_equal "ours is loaded" Ferroband "$(column rdma_rxe 3)"
check "a link" eval 'on_exec A /ferroband/ferroband status | grep "^rxe0/1 *ACTIVE *LINK_UP *vethA$"'
pingpong ibv_rc_pingpong -n 20 > /dev/null
check "counters" eval 'ferroband status | grep "^rxe0 *sent_pkts *[1-9]"'
check_equal "the word of this kernel, as data" "$(awk -v release="$(uname -r)" '$1 == release { print $4 }' /ferroband/kernels)" \
	"$(ferroband status --json | sed -n 's/^  "support": "\(.*\)",$/\1/p')"
check "the same as data" eval 'ferroband status --json | python3 -c "
import json, sys
told = json.load(sys.stdin)
assert told[\"devices\"][\"rxe0\"][\"sent_pkts\"] > 0
assert {\"name\": \"ib_core\", \"modprobe\": \"Ferroband\", \"loaded\": \"Ferroband\"} in told[\"modules\"]"'

check "disable, while it is loaded" ferroband disable ib_umad ib_core
check "the stock ones are taken" taken kernel ib_umad ib_core
check "ours of the others" taken updates rdma_rxe ib_uverbs
check_equal "the state says so" "stock Ferroband" "$(column ib_core 2) $(column ib_core 3)"
check "what is loaded works" pingpong ibv_rc_pingpong -n 20
hosts_down
check "disabled again, it says what to do; that is done" as_told ferroband disable ib_core
check_equal "the stock one is loaded" "stock stock" "$(column ib_core 2) $(column ib_core 3)"
check "enable, and what it says to do" as_told ferroband enable ib_core
check_equal "ours is loaded again" "Ferroband Ferroband" "$(column ib_core 2) $(column ib_core 3)"
check_equal "the other one stays" "stock" "$(column ib_umad 2)"
check "disable all" ferroband disable
# shellcheck disable=SC2086 # a list
check "all stock ones are taken" taken kernel $names
check "enable all" ferroband enable
# shellcheck disable=SC2086 # a list
check "all of ours are taken" taken updates $names
check "no file is left" test ! -e "$overrides"
check "a module that is not ours" refused 'no module nosuch; it has .*ib_core' ferroband disable nosuch
check "nothing is changed by it" test ! -e "$overrides"
check "disable needs root" refused 'needs the rights of root' setpriv --reuid=65534 --clear-groups /ferroband/ferroband disable

check_equal "the self-test" "TEST RESULT
modules ok
network ok
links ok
ibv_rc_pingpong ok
ibv_ud_pingpong ok
removal ok
kernel ok
status 0" "$(selftest)"
check "it leaves nothing" nothing_left
ip netns add ferroband-b
check "a name that is taken" refused 'another selftest is at work' ferroband selftest
ip netns del ferroband-b
modules_unload
mkdir -p /run/modprobe.d && echo 'install rdma_rxe /bin/false' > /run/modprobe.d/test.conf
check_equal "a module that does not load" "TEST RESULT
modules FAILED
removal ok
kernel ok
status 1" "$(selftest)"
rm /run/modprobe.d/test.conf
# It stands before the program that rdma-core has.
mkdir -p /run/failing && printf '#!/bin/sh\nexit 3\n' > /run/failing/ibv_rc_pingpong && chmod +x /run/failing/ibv_rc_pingpong
check_equal "a program that fails" "TEST RESULT
modules ok
network ok
links ok
ibv_rc_pingpong FAILED
removal ok
kernel ok
status 1" "$(PATH=/run/failing:$PATH selftest)"
check "it leaves nothing either" nothing_left

echo "rdma_test: at ffff8881deadbeef and 0xffffffffc0123456, no address: 00000001" > /dev/kmsg
ferroband report > /run/report
for section in system packages status modules 'rdma system' 'kernel log'; do
	check "a report has: $section" grep -x "== $section" /run/report
done
check "the kernel's release" grep -w "$(uname -r)" /run/report
check "the log, without addresses" grep 'rdma_test: at (address) and (address), no address: 00000001' /run/report
check "no address at all" eval '! grep -E "ffff[0-9a-f]{8}" /run/report'
check_fails "no such command" ferroband nosuch
finish
