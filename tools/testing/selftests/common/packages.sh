#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The package of our modules: they are taken once it is installed, work, may be disabled, and nothing is left when it is purged.
# packages: yes
# timeout: 300
. "$(dirname "$0")/lib.sh"

release=$(uname -r)
folder=/lib/modules/$release
package=ferroband-modules-$release
# What the package has.
mapfile -t modules < <(dpkg-deb --contents /ferroband/packages/"$package"_*.deb | sed -n 's|.*/updates/ferroband/\(.*\)\.ko.*|\1|p' | sort)

apt() { DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Use-Pty=0 -y "$@"; }
# taken FOLDER: what modprobe takes of all these modules is in that folder.
taken() {
	local name
	for name in "${modules[@]}"; do modinfo -n "$name" | grep "^$folder/$1/" || return; done
}
state() { ferroband status | awk -v name="$1" '$1 == name { print $2, $3 }'; } # module
# indices: the files from which modprobe knows what there is.
indices() { (cd "$folder" && md5sum modules.{dep,alias,symbols,softdep,devname} && find . -name '*.ko*' | sort | md5sum); }
nothing_left() {
	! ls -d /usr/share/ferroband* /usr/src/ferroband* /var/cache/ferroband /etc/depmod.d/ferroband.conf "$folder/updates" /etc/alternatives/ferroband* \
		/usr/sbin/ferroband /usr/share/man/man8/ferroband* 2> /dev/null && ! dpkg-query -W "$package" 2> /dev/null
}

check "there are packages of modules" test "${#modules[@]}" -ge 5
check "stock modules first" taken kernel
# Debian's depmod has run in another root: what counts is what this one makes.
depmod
before=$(indices)
check "install" apt install /ferroband/packages/"$package"_*.deb
check "ours are taken" taken updates/ferroband
check "the command is there" test -x /usr/sbin/ferroband
check "and its manual page" test -s /usr/share/man/man8/ferroband.8.gz
check "it knows the package" eval 'ferroband status | grep "^Ferroband is installed, by $package $(dpkg-query -W -f "\${Version}" "$package")"'
net_up || exit
check "a link" on A rdma link add rxe0 type rxe netdev vethA
check_equal "the driver is ours" "Ferroband Ferroband" "$(state rdma_rxe)"
check_equal "the core too" "Ferroband Ferroband" "$(state ib_core)"
link_down A
check "a link on both hosts" eval 'link_up A && link_up B'
check "traffic" pingpong ibv_rc_pingpong -n 50
hosts_down
check "the self-test" ferroband selftest
check "disable" ferroband disable
check "stock ones are taken" taken kernel
check "install again" apt install --reinstall /ferroband/packages/"$package"_*.deb
check "they stay disabled" taken kernel
check "enable" ferroband enable rdma_rxe
check "that one is taken" eval 'modinfo -n rdma_rxe | grep /updates/'
check "remove" apt remove "$package"
check "stock ones are taken" taken kernel
check "the command is gone" test ! -e /usr/sbin/ferroband
check "install once more" apt install /ferroband/packages/"$package"_*.deb
check_equal "the choice is remembered" "$(printf '%s\n' "${modules[@]}" | sed 's/$/ kernel/; s/^rdma_rxe kernel/rdma_rxe updates/')" \
	"$(for name in "${modules[@]}"; do modinfo -n "$name" | sed "s|$folder/\([a-z]*\)/.*|$name \1|"; done)"
modules_unload
check "purge" apt purge "$package"
check "stock ones are taken" taken kernel
check "nothing is left" nothing_left
check_equal "the kernel's files are as before" "$before" "$(indices)"
hosts_up
check "the stock modules work" pingpong ibv_rc_pingpong -n 50
check_equal "they are stock" "" "$(cat /sys/module/{ib_core,rdma_rxe}/taint | tr -d '\n')"
hosts_down
modules_unload
finish
