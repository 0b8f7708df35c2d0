#!/bin/sh
set -e
if ! getent passwd weir >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/weir --no-create-home --shell /usr/sbin/nologin weir
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	# An upgrade restarts what runs; with weir.socket no client is refused meanwhile.
	systemctl try-restart weir.service
fi
