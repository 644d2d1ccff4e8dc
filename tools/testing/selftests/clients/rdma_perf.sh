#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# rdma_perf, a user of RDMA in the kernel: all operations with the right data, posting and polling in each context; words that
# are not understood change nothing; devices and the module go whatever it does.
# rows: 2.002 3.028 3.029
# timeout: 600
# mixes: long
. "$(dirname "$0")/lib.sh"

modinfo rdma_perf > /dev/null 2>&1 || skip_all "there is no rdma_perf"
modprobe rdma_rxe
net_up && link_up A && link_up B
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
files=/sys/kernel/debug/rdma_perf

perf() { echo "verify=1 $*" > $files/run; }
value() { sed -n "s/^$1=//p" $files/result; }
# runs WORDS: a run ends well, and has done what it was to do.
runs() { perf "$@" && [ "$(value operations)" = "$(value iterations)" ] && [ "$(value latency_count)" = "$(value iterations)" ]; }
refused() { local text=$1; ! printf '%s' "$text" 2> /dev/null > $files/run; }

check "the module is loaded" modprobe rdma_perf
check_equal "there is no result yet" "" "$(cat $files/result)"
for op in send write read fetch_add cmp_swap; do
	check "$op" runs "op=$op iterations=200"
done
for size in 1 1023 4096 65536 1048576; do
	for op in send write read; do
		check "$op of $size bytes" runs "op=$op size=$size depth=4 iterations=12 mtu=4096"
	done
done
check "ping-pong" runs "pattern=pingpong iterations=200"
for poll in direct softirq workqueue unbound; do
	for post in thread locked softirq interrupt handler; do
		check "posting in $post, polling in $poll" runs "op=send iterations=100 post=$post poll=$poll"
		check "ping-pong, posting in $post, polling in $poll" runs "pattern=pingpong iterations=50 post=$post poll=$poll"
	done
done
for op in send write read fetch_add cmp_swap; do
	check "$op in an interrupt, on 8 queue pairs" runs "op=$op qps=8 iterations=400 post=interrupt"
done
for v in 4 6; do
	gids="client_gid=$(gid_index A $v) server_gid=$(gid_index B $v)"
	check "from one device to another one, IPv$v" runs "client=rxe0 server=rxe1 $gids op=write iterations=100"
done
check "the result names both" grep -q '^server=rxe1$' $files/result
check "for a second" perf "seconds=1 client=rxe0"
check "more than nothing is done in it" [ "$(value operations)" -gt 10 ]

runs "op=read iterations=3"
before=$(cat $files/result)
for words in op 'op=' 'op=steal' 'op=send op=read' 'size=0' 'size=-1' 'depth=257' 'iterations=1 seconds=1' 'colour=red' \
	'pattern=pingpong op=read' 'op=fetch_add size=16' 'mtu=1000' $'op=\xff' 'size=18446744073709551616' \
	"$(printf '%600s')" 'client=none' 'client=rxe0 server=none' 'client_gid=255' 'server_gid=9999'; do
	check "refused: $(tr -cd '[:print:]' <<< "${words:0:30}" | xargs)" refused "$words"
done
check_equal "nothing has changed" "$before" "$(cat $files/result)"

perf "seconds=60 client=rxe0" & run=$!
sleep 1
check "one run at a time" refused "iterations=1"
check "the device goes" link_down A
wait $run
check_equal "the run has ended, with an error" 1 $?
perf "seconds=60 client=rxe1" & run=$!
sleep 1
kill $run
wait $run
check_equal "a signal ends a run" 143 $?
check "another run" runs "client=rxe1 iterations=10"
check "the module is unloaded" rmmod rdma_perf
check "nothing is left of it" bash -c "! rdma resource show qp | grep rdma_perf"
link_down B
finish
