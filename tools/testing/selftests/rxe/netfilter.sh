#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Whole buffers of packets are UDP packets as any other: filters see and stop them, connection tracking confirms and counts them, and
# so does the UDP layer.
# timeout: 120
. "$(dirname "$0")/lib.sh"
our_driver || skip_all "the stock driver sends packets one by one"

rule() { on A "$(dirname "$0")/nft_rule.py" "$@"; }
datagrams() { on A awk '$1 == "Udp:" && $2 ~ /^[0-9]/ { print $2 }' /proc/net/snmp; }
# flow FIELD: of the connection from B to A.
flow() { on A grep 'src=10.0.0.2 dst=10.0.0.1 sport=[0-9]* dport=4791' /proc/net/nf_conntrack | sed "s/ \[UNREPLIED\].*//; s/.* $1=\([0-9]*\).*/\1/"; }
exchange_64k() { pingpong ibv_rc_pingpong -n 40 -s 65536 -m 1024 -c; }
# Fails within some seconds: three short timeouts of the sender, and the other end is not waited for.
no_exchange_64k() { ! LIMIT=5 exchange_64k; }

# Namespaces that are made from now on have it.
modprobe nf_conntrack enable_hooks=1
hosts_up || exit
on A sysctl -qw net.netfilter.nf_conntrack_acct=1

check "a rule that counts buffers" rule accept 4300
before=$(datagrams)
check "messages" exchange_64k
more=$(($(datagrams) - before))
check "Udp: InDatagrams has them, each buffer as one" test $more -ge 100 -a $more -lt 1000
buffers=$(rule count)
check "the filter has seen buffers" test "$buffers" -ge 100 -a "$buffers" -le $more
check_equal "one connection is tracked" 1 "$(flow bytes | wc -l)"
check "it has all bytes" test "$(flow bytes)" -ge $((40 * 65536))
check "and all buffers" test "$(flow packets)" -ge "$buffers"
check "the rule goes" rule delete

check "a rule that drops buffers" rule drop 4300
check "messages in buffers do not get through" no_exchange_64k
check "they were dropped by it" test "$(rule count)" -gt 0
check "messages of one packet do" pingpong ibv_rc_pingpong -n 40 -s 1024 -m 1024 -c
check "the rule goes" rule delete
check "messages" exchange_64k
check "nothing is left" retry 5 no_objects
hosts_down
check "the modules go" modules_unload
modprobe -r nf_tables nf_conntrack
finish
