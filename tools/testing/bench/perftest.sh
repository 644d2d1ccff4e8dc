# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Programs of perftest, as people run them: both ends poll. From one host to the other one, and on one device.
#
# FULL=yes: each operation with each service, size, number of queue pairs and place, which takes an hour and more.

# shellcheck disable=SC2034 # lib.sh reads it
needs_perftest="ib_core ib_uverbs_support ib_uverbs rdma_rxe"

# The time of a message: from the rate of messages (in millions a second), of all queue pairs together; or the typical latency
# (in microseconds), of an operation or of half a round trip. The line begins with the size.
by_rate() { awk -v size="$1" '$1 == size && NF >= 5 && $5 > 0 { printf "%.0f\n", 1000 / $5; found = 1 } END { exit !found }'; }
by_latency() { awk -v size="$1" '$1 == size && NF >= 6 && $5 > 0 { printf "%.0f\n", 1000 * $5; found = 1 } END { exit !found }'; }

size_name() {
	if [ "$1" -lt 1024 ]; then echo "$1 B"; elif [ "$1" -lt 1048576 ]; then echo "$(($1 / 1024)) KiB"; else echo "$(($1 / 1048576)) MiB"; fi
}

# iterations SERVICE SIZE QPS: of each queue pair. Without acknowledgements no more than receives that are posted at the beginning:
# a message that finds none is lost, and its receiver waits for ever.
iterations() {
	local n
	n=$((($2 > 65536 ? 10 : $2 > 4096 ? 160 : 2000) * SCALE / $3))
	[ "$1" = RC ] || n=$((n > 500 ? 500 : n))
	echo $((n < 5 ? 5 : n))
}

# one PROGRAM SERVICE SIZE QPS PLACE
one() {
	local program=$1 service=$2 size=$3 qps=$4 place=$5 said name words=() parse=by_rate value
	name="${program#ib_} $(size_name "$size"), $service, "
	case $program in
	*_lat) parse=by_latency words=(-n $((200 * SCALE))) ;;
	*) name+="$qps QP$([ "$qps" = 1 ] || echo s), " words=(-n "$(iterations "$service" "$size" "$qps")" -q "$qps") ;;
	esac
	name+="${place/_/ }"
	said=$([ "$place" = veth ] || export LOOPBACK=yes
		LIMIT=20 perftest "$program" -c "$service" -s "$size" "${words[@]}" 2>&1 < /dev/null)
	local status=$?
	if [ $status = 0 ] && value=$($parse "$size" <<< "$said"); then
		measure "$name" "$value"
	else
		failed "$name" "status $status: $(tail -n 3 <<< "$said")"
	fi
}

# Operation, service, size, queue pairs, place; a comma stands between alternatives.
chosen() {
	cat <<- END
		ib_write_bw RC 65536 1,4,16,64,200 veth
		ib_write_bw RC 1048576 1 veth,one_device
		ib_write_bw RC 65536 16 one_device
		ib_send_bw RC 64 1,4,16,64,200 veth
		ib_send_bw RC 64 16 one_device
		ib_read_bw RC 65536 1,16 veth
		ib_read_bw RC 1048576 1 veth,one_device
		ib_send_bw UC 64 1,16 veth
		ib_write_bw UC 65536 16 veth
		ib_send_bw UD 64 1,16 veth
		ib_send_lat RC 64 1 veth,one_device
		ib_send_lat UC,UD 64 1 veth
		ib_write_lat RC 64 1 veth
		ib_read_lat RC 64 1 veth
	END
}

# UD has no message that is longer than a packet, UC no read.
all() {
	cat <<- END
		ib_send_bw,ib_write_bw RC,UC 64,65536,1048576 1,4,16,64,200 veth,one_device
		ib_read_bw RC 64,65536,1048576 1,4,16,64,200 veth,one_device
		ib_send_bw UD 64,4096 1,4,16,64,200 veth,one_device
		ib_send_lat,ib_write_lat RC,UC 64,65536 1 veth,one_device
		ib_read_lat RC 64,65536 1 veth,one_device
		ib_send_lat UD 64,4096 1 veth,one_device
	END
}

round_perftest() {
	local programs services sizes counts places program service size qps place
	while read -r programs services sizes counts places; do
		for program in ${programs//,/ }; do for service in ${services//,/ }; do for size in ${sizes//,/ }; do
			for qps in ${counts//,/ }; do for place in ${places//,/ }; do
				one "$program" "$service" "$size" "$qps" "$place"
			done; done
		done; done; done
	done < <(if [ -n "${FULL:-}" ]; then all; else chosen; fi)
}
