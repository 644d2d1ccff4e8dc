#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Commands by write() alone (uverbs_write.c): objects, errors, and a ping-pong without a ring that is mapped, which the stock
# driver cannot: it ignores what is posted so, and lets the kernel follow a pointer made of a completion's bytes. Which queue pair
# completions name that the kernel polls for a program (uverbs_poll.c).
# smoke: yes
# kernels: stock debug
# rows: 1.057 2.039 4.005 4.006 4.007 4.008 4.009 4.010 4.011 4.012 4.013 4.014 4.015 4.016 4.017 4.018 4.020 4.023 4.087 9.006
# rows: 9.032 9.033 9.035
# mix: ib_uverbs
# mixes: all
# timeout: 90
. "$(dirname "$0")/lib.sh"
hosts_up || exit
data=()
! our_driver || data=(data)
told "the end" on A setpriv --reuid=65534 --clear-groups timeout 40 "$(dirname "$0")/uverbs_write" rxe0 "$(gid_index A)" "${data[@]}"
if our_driver; then
	told "polled by the kernel: the end" on A timeout 40 "$(dirname "$0")/uverbs_poll" rxe0 "$(gid_index A)"
fi
check "nothing is left" retry 5 no_objects
finish
