#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What is counted: rdma statistic and hw_counters of ports and devices, optional counters, counters that queue pairs are
# bound to, counters of memory regions; pools of handles for fast registration. With fake_hca, a device that has all that.
# rows: 8.056
# timeout: 360
# mix: ib_core
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")
parameters=/sys/module/fake_hca/parameters
sys=/sys/class/infiniband/fake0
RC=2 UD=4 # enum ib_qp_type

hca() { echo "$*" > $parameters/do; }                        # what fake_hca.c says
failing() { echo "$1" > $parameters/fail; }                  # this method of the driver fails; '' for none
flat() { "$@" 2>&1 | sed "s/pid $$ comm [^ ]*/pid SELF/" | xargs; }
says() { check_equal "$1" "$2" "$(flat "${@:3}")"; }         # name, output with single blanks, command
asked() { says "driver: $1" "$2" cat $parameters/asked; }    # what the driver was asked for since the last time
counters() { says "$1" "$2" rdma stat qp; }
ports() { says "$1" "link fake0/1 $2 link fake0/2 $3" rdma stat; }
nldev() { "$here/nldev.py" "$@"; }
told() { says "$1" "$2" nldev "${@:3}"; }
packets() { echo "packets $1 bytes $(($1 * 64))"; }
mode() { says "$1" "$2" rdma stat qp mode link "fake0/$3"; }
users() { for n in "$@"; do hca qp 0 "$n"; done; }           # queue pairs of this process

modinfo fake_hca > /dev/null 2>&1 || skip_all "fake_hca is built with FERROBAND_TESTS=m"
modprobe fake_hca || exit

# Ports and devices
check_equal "hw_counters of a port, without optional ones" "bytes lifespan packets" "$(cd $sys/ports/1/hw_counters && echo *)"
check_equal "hw_counters of the device" "bytes lifespan packets" "$(cd $sys/hw_counters && echo *)"
ports "rdma stat" "$(packets 0)" "$(packets 0)"
says "rdma -j stat" '[{ifname:fake0,port:1,packets:0,bytes:0} ,{ifname:fake0,port:2,packets:0,bytes:0} ]' rdma -j stat
failing get_hw_stats
says "a driver that fails" "error: Invalid argument" rdma stat
check_fails "and in sysfs" cat $sys/ports/1/hw_counters/packets
failing ''
told "a port that is not there" "error EINVAL" STAT_GET dev=fake0 PORT_INDEX=3
told "no port" "error EINVAL" STAT_GET dev=fake0
check "lifespan can be set" eval 'echo 20 > $sys/ports/2/hw_counters/lifespan && [ "$(cat $sys/ports/2/hw_counters/lifespan)" = 20 ]'
check_fails "a lifespan of more than 10 s" eval 'echo 10001 > $sys/ports/2/hw_counters/lifespan'

# Optional counters
supported="supported optional-counters marked_packets, late_packets"
says "which there are" "link fake0/1 $supported link fake0/2 $supported" rdma stat mode supported
says "none is on" "" rdma stat mode
check "one is switched on" rdma stat set link fake0/1 optional-counters late_packets
asked "on" "modify_hw_stat port 1 late_packets 1"
says "it is" "link fake0/1 optional-counters late_packets" rdma stat mode
ports "and is told" "$(packets 0) late_packets 0" "$(packets 0)"
check "another one is switched on" rdma stat set link fake0/1 optional-counters marked_packets
asked "one off, one on" "modify_hw_stat port 1 marked_packets 1 modify_hw_stat port 1 late_packets 0"
told "status" "STAT_GET_STATUS DEV_NAME fake0 PORT_INDEX 1 STAT_HWCOUNTERS* \
STAT_HWCOUNTER_ENTRY* STAT_HWCOUNTER_ENTRY_NAME packets STAT_HWCOUNTER_INDEX 0 \
STAT_HWCOUNTER_ENTRY* STAT_HWCOUNTER_ENTRY_NAME bytes STAT_HWCOUNTER_INDEX 1 \
STAT_HWCOUNTER_ENTRY* STAT_HWCOUNTER_ENTRY_NAME marked_packets STAT_HWCOUNTER_INDEX 2 STAT_HWCOUNTER_DYNAMIC 1 \
STAT_HWCOUNTER_ENTRY* STAT_HWCOUNTER_ENTRY_NAME late_packets STAT_HWCOUNTER_INDEX 3 STAT_HWCOUNTER_DYNAMIC 0" \
	STAT_GET_STATUS dev=fake0 PORT_INDEX=1
told "one that is not optional" "error EINVAL" STAT_SET dev=fake0 PORT_INDEX=1 "STAT_HWCOUNTERS=(STAT_HWCOUNTER_INDEX=1)"
told "one that is not there" "error EINVAL" STAT_SET dev=fake0 PORT_INDEX=1 "STAT_HWCOUNTERS=(STAT_HWCOUNTER_INDEX=4)"
told "a number of one byte" "error EINVAL" STAT_SET dev=fake0 PORT_INDEX=1 "STAT_HWCOUNTERS=(STAT_HWCOUNTER_INDEX=0x:02)"
told "for administrators" "error EPERM" --not-root STAT_SET dev=fake0 PORT_INDEX=1 "STAT_HWCOUNTERS=()"
failing modify_hw_stat
check_fails "a driver that does not" rdma stat set link fake0/1 optional-counters late_packets
failing ''
says "leaves all as it was" "link fake0/1 optional-counters marked_packets" rdma stat mode
check "all off" rdma stat unset link fake0/1 optional-counters
says "are off" "" rdma stat mode
cat $parameters/asked > /dev/null

# Auto mode
mode "nobody binds" "link fake0/1 mode qp auto off" 1
check "auto type" rdma stat qp set link fake0/1 auto type on
mode "is told" "link fake0/1 mode qp auto type on optional-counters off" 1
users $RC $RC $UD
hca qp 1 $RC # the kernel's are not bound
for qp in 1 2 3 4; do hca init $qp 1; done
asked "queue pairs of a type share" "bind qp 1 port 1, counter 0 mode 1 mask 1 type 2 opcnt 0 \
bind qp 2 port 1, counter 1 mode 1 mask 1 type 2 opcnt 0 bind qp 3 port 1, counter 0 mode 1 mask 1 type 4 opcnt 0"
hca count 1 10; hca count 2 20; hca count 3 40; hca count 4 80
rc="link fake0/1 cntn 1 qp-type RC $(packets 30) LQPN: <1,2>" ud="link fake0/1 cntn 2 qp-type UD $(packets 40) LQPN: <3>"
counters "each counts for its own" "$rc $ud"
ports "and for the port" "$(packets 150)" "$(packets 0)"
check_equal "in sysfs too" 150 "$(cat $sys/ports/1/hw_counters/packets)"
check_equal "but not for the device" 80 "$(cat $sys/hw_counters/packets)"
told "counters as they are told" "STAT_GET DEV_NAME fake0 STAT_COUNTER STAT_COUNTER_ENTRY PORT_INDEX 1 STAT_COUNTER_ID 1 \
STAT_MODE 1 RES_TYPE 2 RES_QP* RES_QP_ENTRY* RES_LQPN 1 RES_QP_ENTRY* RES_LQPN 2 STAT_HWCOUNTERS* \
STAT_HWCOUNTER_ENTRY* STAT_HWCOUNTER_ENTRY_NAME packets STAT_HWCOUNTER_ENTRY_VALUE 30 \
STAT_HWCOUNTER_ENTRY* STAT_HWCOUNTER_ENTRY_NAME bytes STAT_HWCOUNTER_ENTRY_VALUE 1920 \
STAT_COUNTER_ENTRY PORT_INDEX 1 STAT_COUNTER_ID 2 STAT_MODE 1 RES_TYPE 4 RES_QP* RES_QP_ENTRY* RES_LQPN 3 STAT_HWCOUNTERS* \
STAT_HWCOUNTER_ENTRY* STAT_HWCOUNTER_ENTRY_NAME packets STAT_HWCOUNTER_ENTRY_VALUE 40 \
STAT_HWCOUNTER_ENTRY* STAT_HWCOUNTER_ENTRY_NAME bytes STAT_HWCOUNTER_ENTRY_VALUE 2560" --dump STAT_GET dev=fake0 STAT_RES=RES_QP
told "binding by hand in auto mode" "error EINVAL" STAT_SET dev=fake0 PORT_INDEX=1 STAT_MODE=2 STAT_RES=RES_QP RES_LQPN=4
says "another rule while counters are bound" \
	"Error: Modifying auto mode is not allowed when there is a bound QP. error: Device or resource busy" \
	rdma stat qp set link fake0/1 auto pid on
hca destroy 1
counters "one leaves" "${rc/<1,2>/<2>} $ud"
hca destroy 2; hca destroy 3
counters "the last ones leave" ""
asked "counters go with the last one" "unbind qp 1 port 1, counter 1 unbind qp 2 port 1, counter 1 dealloc counter 1 \
unbind qp 3 port 1, counter 2 dealloc counter 2"
ports "what they had counted stays" "$(packets 150)" "$(packets 0)"
hca destroy 4
told "a rule that there is not" "error EINVAL" STAT_SET dev=fake0 PORT_INDEX=1 STAT_MODE=1 STAT_RES=RES_QP STAT_AUTO_MODE_MASK=4
check "auto pid" rdma stat qp set link fake0/1 auto pid on
users $RC $UD
hca init 5 1; hca init 6 1
(hca qp 0 $RC; hca init 7 1; sleep 30) &
other=$!
retry 5 grep -q 'bind qp 7' $parameters/asked
counters "queue pairs of a process share" "link fake0/1 cntn 1 pid SELF $(packets 0) LQPN: <5,6> \
link fake0/1 cntn 2 pid $other comm sleep $(packets 0) LQPN: <7>"
kill $other; wait $other 2> /dev/null
for qp in 5 6 7; do hca destroy $qp; done
failing counter_alloc_stats
users $RC
check "without a counter a queue pair works" hca init 8 1
failing ''
hca destroy 8
check "off" rdma stat qp set link fake0/1 auto off
cat $parameters/asked > /dev/null

# Manual mode
bind() { nldev STAT_SET dev=fake0 PORT_INDEX="$1" STAT_MODE=2 STAT_RES=RES_QP RES_LQPN="$2" ${3:+STAT_COUNTER_ID=$3}; }
unbind() { nldev STAT_DEL dev=fake0 PORT_INDEX="$1" STAT_RES=RES_QP STAT_COUNTER_ID="$3" RES_LQPN="$2"; }
bound() { echo "STAT_SET DEV_NAME fake0 PORT_INDEX $1 STAT_COUNTER_ID $3 RES_LQPN $2"; }
users $RC $RC $RC
hca qp 1 $RC # 9 to 12
hca init 9 1; hca init 10 1; hca init 11 2; hca init 12 1
says "bind" "$(bound 1 9 1)" bind 1 9
asked "with optional counters" "bind qp 9 port 1, counter 0 mode 2 mask 0 type 0 opcnt 1"
says "a second queue pair" "$(bound 1 10 1)" bind 1 10 1
hca count 9 1; hca count 10 2
counters "both count" "link fake0/1 cntn 1 $(packets 3) LQPN: <9,10>"
ports "and for the port" "$(packets 153)" "$(packets 0)"
says "one that is bound" "error EINVAL" bind 1 9 1
says "one that is bound, to a new counter" "error ENOMEM" bind 1 9
says "one of another port" "error EINVAL" bind 1 11 1
says "one of another port, to a new counter" "error EINVAL" bind 1 11
says "one of the kernel, to a counter of user space" "error EINVAL" bind 1 12 1
says "a counter that is not there" "error ENOENT" bind 1 9 5
says "a queue pair that is not there" "error ENOENT" bind 1 99
says "one of the kernel" "$(bound 1 12 2)" bind 1 12
told "one counter" "STAT_GET DEV_NAME fake0 PORT_INDEX 1 STAT_COUNTER_ID 2 STAT_MODE 2 RES_QP* RES_QP_ENTRY* RES_LQPN 12 \
STAT_HWCOUNTERS* STAT_HWCOUNTER_ENTRY* STAT_HWCOUNTER_ENTRY_NAME packets STAT_HWCOUNTER_ENTRY_VALUE 0 \
STAT_HWCOUNTER_ENTRY* STAT_HWCOUNTER_ENTRY_NAME bytes STAT_HWCOUNTER_ENTRY_VALUE 0" \
	STAT_GET dev=fake0 PORT_INDEX=1 STAT_RES=RES_QP STAT_COUNTER_ID=2
told "one of another port" "error EAGAIN" STAT_GET dev=fake0 PORT_INDEX=2 STAT_RES=RES_QP STAT_COUNTER_ID=2
told "one that is not there" "error ENOENT" STAT_GET dev=fake0 PORT_INDEX=1 STAT_RES=RES_QP STAT_COUNTER_ID=5
says "unbind from another counter" "error EINVAL" unbind 1 9 2
says "unbind one that is not bound" "error EINVAL" unbind 2 11 1
failing counter_unbind_qp
says "a driver that does not unbind" "error EIO" unbind 1 9 1
failing ''
counters "leaves all as it was" "link fake0/1 cntn 1 $(packets 3) LQPN: <9,10> link fake0/1 cntn 2 $(packets 0) LQPN: <12>"
says "unbind" "$(bound 1 9 1)" unbind 1 9 1
hca count 9 100
counters "it counts for its port again" "link fake0/1 cntn 1 $(packets 3) LQPN: <10> link fake0/1 cntn 2 $(packets 0) LQPN: <12>"
ports "for the port" "$(packets 253)" "$(packets 0)"
cat $parameters/asked > /dev/null
failing counter_bind_qp
says "a driver that does not bind" "error ENOMEM" bind 1 9
failing counter_unbind_qp
check "one that the driver does not unbind goes" hca destroy 10
failing ''
asked "and the counter with it" "bind qp 9 port 1, counter 0 mode 2 mask 0 type 0 opcnt 1 unbind qp 10 port 1, counter 1 \
dealloc counter 1"
says "bind again" "$(bound 1 9 1)" bind 1 9
failing destroy_qp
check_fails "a queue pair that does not go" hca destroy 9
failing ''
counters "has no counter any more" "link fake0/1 cntn 2 $(packets 0) LQPN: <12>"
for qp in 9 11 12; do hca destroy $qp; done
counters "all gone" ""

# Memory regions
hca mr
says "rdma stat mr" "dev fake0 mrn 0 page_faults 7 page_invalidations 3" rdma stat show mr
told "one region" "STAT_GET DEV_NAME fake0 RES_MRN 0 STAT_HWCOUNTERS* \
STAT_HWCOUNTER_ENTRY* STAT_HWCOUNTER_ENTRY_NAME page_faults STAT_HWCOUNTER_ENTRY_VALUE 7 \
STAT_HWCOUNTER_ENTRY* STAT_HWCOUNTER_ENTRY_NAME page_invalidations STAT_HWCOUNTER_ENTRY_VALUE 3" \
	STAT_GET dev=fake0 STAT_RES=RES_MR RES_MRN=0
hca dereg

# Pools for fast registration
pool() { # access, vendor's key, blocks, waiting, most in use, in use, pinned
	echo "FRMR_POOL_ENTRY FRMR_POOL_KEY* FRMR_POOL_KEY_ATS 0 FRMR_POOL_KEY_ACCESS_FLAGS $1 FRMR_POOL_KEY_VENDOR_KEY $2" \
		"FRMR_POOL_KEY_NUM_DMA_BLOCKS $3 FRMR_POOL_QUEUE_HANDLES $4 FRMR_POOL_MAX_IN_USE $5 FRMR_POOL_IN_USE $6" \
		"FRMR_POOL_PINNED_HANDLES $7"
}
pools() { told "$1" "FRMR_POOLS_GET DEV_NAME fake0 FRMR_POOLS $2" --dump FRMR_POOLS_GET dev=fake0; }
pin() { nldev FRMR_POOLS_SET dev=fake0 FRMR_POOL_PINNED_HANDLES="$1" "FRMR_POOL_KEY=($2)"; }
cat $parameters/asked > /dev/null
told "no pools yet" "" --dump FRMR_POOLS_GET dev=fake0
hca pop 0 0 1 5 0 8; hca pop 1 0 1 5 0 5; hca pop 2 0 1 5 0 4; hca pop 3 0 1 5 9 8
asked "one handle each time" "create 1 of 0 1 5 0 8 popped 1 create 1 of 0 1 5 0 8 popped 2 create 1 of 0 1 5 0 4 popped 3 \
create 1 of 0 1 5 9 8 popped 4"
pools "a pool has handles with less than twice the room" "$(pool 1 5 8 0 2 2 0) $(pool 1 5 4 0 1 1 0)"
check_equal "details have the driver's too" 3 "$(nldev --dump FRMR_POOLS_GET dev=fake0 DRIVER_DETAILS=1 | grep -c POOL_ENTRY)"
hca push 0; hca push 1; hca pop 0 0 1 5 0 8; hca drop 2
asked "the last one given back is the first taken" "popped 2"
pools "given back, and up" "$(pool 1 5 8 1 2 1 0) $(pool 1 5 4 0 1 0 0)"
says "pinned" "" pin 3 FRMR_POOL_KEY_ACCESS_FLAGS=1,FRMR_POOL_KEY_VENDOR_KEY=5,FRMR_POOL_KEY_NUM_DMA_BLOCKS=7
asked "those that are missing are made" "create 1 of 0 1 5 0 8"
pools "and wait" "$(pool 1 5 8 2 2 1 3) $(pool 1 5 4 0 1 0 0)"
says "a key that the driver does not like" "error EINVAL" pin 1 FRMR_POOL_KEY_VENDOR_KEY=101
says "a key of the driver's" "error EINVAL" pin 1 FRMR_POOL_KEY_KERNEL_VENDOR_KEY=1
says "remote access without local" "error EINVAL" pin 1 FRMR_POOL_KEY_ACCESS_FLAGS=2
told "no key" "error EINVAL" FRMR_POOLS_SET dev=fake0 FRMR_POOL_PINNED_HANDLES=1
told "a period of 0" "error EINVAL" FRMR_POOLS_SET dev=fake0 FRMR_POOLS_AGING_PERIOD=0
told "for administrators" "error EPERM" --not-root FRMR_POOLS_SET dev=fake0 FRMR_POOLS_AGING_PERIOD=1
failing create_frmrs
check_fails "a driver that makes none" hca pop 7 1 1 5 0 8
failing ''
says "no more pinned" "" pin 0 FRMR_POOL_KEY_ACCESS_FLAGS=1,FRMR_POOL_KEY_VENDOR_KEY=5,FRMR_POOL_KEY_NUM_DMA_BLOCKS=7
hca push 3
check "a period of one second" nldev FRMR_POOLS_SET dev=fake0 FRMR_POOLS_AGING_PERIOD=1
check "handles that nobody takes go" retry 10 grep -qx 1 $parameters/handles
hca push 0
check "all" retry 10 grep -qx 0 $parameters/handles

# It goes with all that is left
hca pop 0 0 1 5 0 8
users $RC
hca init 13 1
bind 1 13 > /dev/null
check "the device goes" modprobe -r fake_hca

# A device without counters of queue pairs
modules_load rdma_rxe ib_uverbs && net_up && link_up A && link_up B || exit
on A rdma stat qp set link rxe0/1 auto type on
says "rxe: auto mode" "link rxe0/1 mode qp auto type on optional-counters off" on A rdma stat qp mode link rxe0/1
check "rxe: queue pairs work in it" pingpong ibv_rc_pingpong -n 10
says "rxe: there are no counters" "" on A rdma stat qp
says "rxe: no optional counters" "" on A rdma stat mode supported
finish
