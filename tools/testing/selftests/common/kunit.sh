#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# KUnit: the tests inside of our modules, in a kernel with CONFIG_KUNIT=y. They run here, and not whenever a module is loaded
# (kunit.autorun=0).
# kernels: debug uml
# mix: ib_core ib_uverbs rdma_rxe ib_cm
# timeout: 120
. "$(dirname "$0")/lib.sh"
results=/sys/kernel/debug/kunit
suites=0

# run SUITE: a result for each of its tests.
run() {
	local line name=$1 before=$_number
	suites=$((suites + 1))
	echo > "$results/$name/run"
	while IFS= read -r line; do
		case $line in
		*' not ok '*) fail "$name: ${line##* not ok }" ;;
		*' ok '*) pass "$name: ${line##* ok }" ;;
		*EXPECTATION* | *ASSERTION* | *Expected*) diagnose <<< "$line" ;;
		esac
	done < <(grep '^    ' "$results/$name/results")
	check_equal "$name: each of its tests has a result" "$(sed -n 's/^    1\.\.//p' "$results/$name/results")" $((_number - before))
}

[ -e $results ] || skip_all "this kernel has no KUnit (make check KERNEL=debug)"
modules_unload
# The suites of a module run without the modules above it: no client is added to the devices of its tests.
for module in ib_core ib_uverbs_support ib_uverbs rdma_rxe ib_cm; do
	known=$(ls $results)
	check "$module is loaded" modprobe $module
	for suite in $(comm -13 <(echo "$known") <(ls $results)); do run "$suite"; done
done
check "there are suites of all our modules" [ $suites -ge 20 ]
check "they unload" modules_unload
finish
