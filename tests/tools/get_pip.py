# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for the get-pip script of ansible-test, where the host it is published on cannot be reached.

ansible-test runs it in a new virtual environment with pip's options and the wanted `pip==VERSION` as arguments.
Python's own ensurepip brings a pip, and that one installs the wanted one from the usual package index.
"""

from __future__ import annotations

import subprocess
import sys

if __name__ == "__main__":
    # Each in a process of its own: ensurepip sets PIP_CONFIG_FILE, which would hide where the package index is.
    subprocess.run([sys.executable, "-m", "ensurepip"], check=True)
    wanted = [argument for argument in sys.argv[1:] if argument not in ("--no-setuptools", "--no-wheel")]
    subprocess.run([sys.executable, "-m", "pip", "install", *wanted], check=True)
