# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that outlive the program that starts them, and are stopped by their own ids."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

POLL = 0.05
# Those that this program started itself: to collect them once they end, which is a parent's duty.
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}


class NotReadyError(RuntimeError):
    """Something did not become true in time."""


def wait_until(true: Callable[[], object], what: str, *, seconds: float = 60, alive: Callable[[], object] = lambda: True) -> None:
    """Wait for a condition.

    Raises:
        NotReadyError: It did not become true in time, or what it depends on died.
    """
    deadline = time.monotonic() + seconds
    while not true():
        if not alive():
            raise NotReadyError(f"{what}: a process that it needs has ended")
        if time.monotonic() > deadline:
            raise NotReadyError(f"{what}: not so after {seconds:.0f} s")
        time.sleep(POLL)


def start(command: Sequence[str | Path], log: Path) -> tuple[int, str]:
    """Start a process in a session of its own; its id, and when the system says it started."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    _CHILDREN[process.pid] = process
    return process.pid, started(process.pid)


def started(pid: int) -> str:
    """When a process started, in the system's own count; "" for one that has ended. Ids are used again, this is not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def stop(processes: Sequence[tuple[int, str]], *, seconds: float = 15) -> None:
    """End processes, politely first; those that are no longer the ones that were started are left alone."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        alive = [pid for pid, since in processes if since and started(pid) == since]
        for pid in alive:
            os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while any(started(pid) == since for pid, since in processes if since) and time.monotonic() < deadline:
            time.sleep(POLL)
        for pid in alive:
            if pid in _CHILDREN and not started(pid):
                _CHILDREN.pop(pid).wait()
