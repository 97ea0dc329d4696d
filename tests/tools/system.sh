#!/bin/sh
# Install what pip cannot bring: a browser, with a font, for the test of the HTML page, and Python's venv where Debian
# leaves it out. Only as root on a Debian-like system; elsewhere it says what is missing, and what needs it fails.
# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
set -eu
cd "$(dirname "$0")/../.."

has() { command -v "$1" >/dev/null; }

set --
python3 -c 'import ensurepip, venv' 2>/dev/null || set -- "$@" python3-venv
has chromium || has chromium-browser || has google-chrome || set -- "$@" chromium fonts-dejavu-core
[ $# -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ] || ! has apt-get; then
    echo "setup: not installed, and only root can, with apt-get: $*" >&2
    exit 0
fi
log=build/logs/system.log
mkdir -p build/logs
export DEBIAN_FRONTEND=noninteractive
echo "setup: $*, with apt-get"
if ! { apt-get update && apt-get install --yes --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    echo "setup: apt-get failed, so what needs one of these will: $* (the whole log is in $log)" >&2
fi
