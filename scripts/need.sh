#!/usr/bin/env bash
# need.sh COMMAND PACKAGE...: makes sure that COMMAND exists; as root, on a
# Debian or Ubuntu, it installs the packages for it.
set -euo pipefail
command=$1
shift
command -v "$command" >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "installing $* for $command"
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
	exit 0
fi
echo "$command is missing: install $*" >&2
exit 1
