# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Annotations by which a pod asks to be left where it is, and when they protect. A value that nobody knows does.

- ``gpuops.io/protect``: always, unless it is "false" or a duration that has passed since the pod was created.
- ``descheduler.alpha.kubernetes.io/prefer-no-eviction``: whatever its value.
- ``descheduler.alpha.kubernetes.io/evict``: unless it is "true". The descheduler itself takes "false" for "true".
- ``cluster-autoscaler.kubernetes.io/safe-to-evict``: unless it is "true".
- ``karpenter.sh/do-not-disrupt``: always, unless it is "false" or a duration that has passed since the pod was started
  (Karpenter 1.12).

A duration is one of Go's: "90m", "2h", "1h30m45s".
"""

from __future__ import annotations

import re

from ..kube.model import Pod

OURS = "gpuops.io/protect"
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
EVICT = "descheduler.alpha.kubernetes.io/evict"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")
_DURATION = re.compile(f"(?:{_PART.pattern})+")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def protected(pod: Pod, now: float | None) -> str | None:
    """What protects the pod, in a sentence; None if nothing does.

    Args:
        pod: The pod.
        now: Seconds since 1970; None where no time is known, so that no duration has passed.
    """
    started = pod.created if pod.started is None else pod.started
    yielding = {
        PREFER_NO_EVICTION: False,
        EVICT: pod.annotations.get(EVICT) == "true",
        SAFE_TO_EVICT: pod.annotations.get(SAFE_TO_EVICT) == "true",
        OURS: _lapsed(pod.annotations.get(OURS), pod.created, now),
        DO_NOT_DISRUPT: _lapsed(pod.annotations.get(DO_NOT_DISRUPT), started, now),
    }
    for key, yields in yielding.items():
        if key in pod.annotations and not yields:
            return f'annotation {key}: "{pod.annotations[key]}" protects it'
    return None


def _lapsed(value: object, since: float | None, now: float | None) -> bool:
    """Whether a protection is off: "false", or a duration that has passed."""
    lasting = duration(str(value))
    if lasting is None or since is None or now is None:
        return value == "false"
    return now - since >= lasting


def duration(text: str) -> float | None:
    """Seconds of one of Go's durations without a sign; None if it is none."""
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
