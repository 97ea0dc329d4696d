#!/bin/sh
# Build .venv: the locked tools, and .venv/collections with this collection (a link) beside kubernetes.core. `make setup` calls it.
# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
set -eu
cd "$(dirname "$0")/../.."

log=build/logs/setup.log
mkdir -p build/logs
: >"$log"

# step WORDS COMMAND…: one line on the terminal, everything else in the log, which is shown when the command fails.
step() {
    printf 'setup: %s\n' "$1"
    shift
    "$@" >>"$log" 2>&1 && return
    tail -n 40 "$log" >&2
    printf 'setup: FAILED: %s (the whole log is in %s)\n' "$*" "$log" >&2
    exit 1
}

# The Python to develop with. Each candidate is run, as the names that pyenv puts on PATH may stand for nothing.
find_python() {
    for minor in 13 12 14 11; do
        for candidate in "python3.$minor" "$HOME/.pyenv/versions/3.$minor."*/bin/python python3; do
            "$candidate" -c "import sys, ssl, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, $minor))" 2>/dev/null || continue
            "$candidate" -c 'import sys; print(sys._base_executable)'  # the real one, where PATH leads into another venv
            return
        done
    done
    echo 'setup: needs Python 3.11, 3.12, 3.13 or 3.14 with venv and ensurepip (on Debian: apt-get install python3-venv);' >&2
    echo 'setup: found none on PATH or in ~/.pyenv/versions' >&2
    return 1
}

# uv itself comes from the same lock as everything else.
install_uv() {
    sed -n '/^uv==/,/^    # via/p' requirements-dev.txt >.venv/uv.txt
    .venv/bin/python -m pip install --require-hashes -r .venv/uv.txt
}

install_tools() {
    .venv/bin/uv pip install --python .venv/bin/python --require-hashes -r requirements-dev.txt
}

python=$(find_python)
step "$("$python" -V) at $python" "$python" -m venv --clear .venv
step 'uv' install_uv
step 'tools, as locked in requirements-dev.txt' install_tools
step 'kubernetes.core, from the ansible wheel, and a link to this collection' tests/tools/collections.sh requirements-collections.txt .venv/collections
date >.venv/stamp
