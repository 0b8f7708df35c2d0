#!/bin/sh
set -e
# $1 is "remove" or, in RPM, 0 unless a newer version follows.
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now weir.socket weir.service || true
	fi
	;;
esac
