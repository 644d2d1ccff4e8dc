#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# KUnit: the tests inside of our modules, which a kernel with CONFIG_KUNIT=y runs when it loads them.
# kernels: debug uml
# mix: ib_core ib_uverbs
# timeout: 60
. "$(dirname "$0")/lib.sh"
results=/sys/kernel/debug/kunit

[ -e $results ] || skip_all "this kernel has no KUnit (make check KERNEL=debug)"
modules_load || exit
suites=0
for suite in "$results"/*/; do
	name=$(basename "$suite")
	case $name in ib_core_* | ib_uverbs_*) ;; *) continue ;; esac
	suites=$((suites + 1))
	while IFS= read -r line; do
		case $line in
		*' not ok '*) fail "$name: ${line##* not ok }" ;;
		*' ok '*) pass "$name: ${line##* ok }" ;;
		*'# '*EXPECTATION* | *'# '*ASSERTION*) diagnose <<< "$line" ;;
		esac
	done < <(grep '^    ' "$suite/results")
done
check "there are suites of all our modules" [ $suites -ge 8 ]
check "they unload" modules_unload
finish
