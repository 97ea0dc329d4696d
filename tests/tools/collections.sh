#!/bin/sh
# Put kubernetes.core, and a link to this collection beside it, where ansible looks for collections: `collections.sh LOCK FOLDER`.
# kubernetes.core travels inside the wheel of `ansible`, which LOCK names: no other server is asked, and nothing else of it is kept.
# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
set -eu
cd "$(dirname "$0")/../.."
wheel=$(mktemp -d)
trap 'rm -rf "$wheel"' EXIT

.venv/bin/python -m pip download --no-deps --only-binary :all: --require-hashes -r "$1" -d "$wheel"
rm -rf "$2/ansible_collections"
.venv/bin/python - "$wheel"/ansible-*.whl "$2" <<'PYTHON'
import sys
from zipfile import ZipFile

with ZipFile(sys.argv[1]) as wheel:
    wheel.extractall(sys.argv[2], [n for n in wheel.namelist() if n.startswith("ansible_collections/kubernetes/core/")])
PYTHON
mkdir -p "$2/ansible_collections/gpuops"
ln -s "$PWD" "$2/ansible_collections/gpuops/defrag"
