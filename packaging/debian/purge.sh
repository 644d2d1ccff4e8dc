# What "ferroband disable" has written goes with the last of the packages.
if [ "$1" = purge ] && ! ls -d /lib/modules/*/updates/ferroband /usr/src/ferroband-* > /dev/null 2>&1; then
	rm -f /etc/depmod.d/ferroband.conf
fi
