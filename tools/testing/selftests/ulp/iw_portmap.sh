#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The port mapper of iWARP, by netlink: a program in Python is the mapper of iw_test's listeners and connections, and answers right,
# wrong, late or not at all; what malformed messages are answered with, as recorded on the stock module; 20,000 messages, most of them
# malformed, while identifiers come and go.
# mixes: long
# kernels: stock
# timeout: 420
. "$(dirname "$0")/lib.sh"

here=$(dirname "$0") module=iw_test
modinfo $module > /dev/null 2>&1 || skip_all "$module is built with FERROBAND_TESTS=m"
ip link set lo up
strict=n
! is_ours iw_cm || strict=y
modprobe $module strict=$strict || exit
option=
[ $strict = n ] || option=strict
told "a port mapper" python3 "$here/iw_portmap.py" mapper $option
as_recorded "$here/iw_portmap-expected.txt" python3 "$here/iw_portmap.py" malformed
told "nobody" python3 "$here/iw_portmap.py" nobody
# The stock module lets whoever answers another question write to the stack of who has asked.
if [ $strict = y ]; then told "a hostile port mapper" python3 "$here/iw_portmap.py" hostile "${MESSAGES:-20000}"; fi
check "the tests go" modprobe -r $module
check "iw_cm goes" modprobe -r iw_cm
check "ib_core is in use no more" modules_unload
finish
