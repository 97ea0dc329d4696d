# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.settings import MonitoringSettings, settings_of

NONSENSE: dict[str, tuple[Any, str]] = {
    "no mapping": ([], "settings are a mapping"),
    "an unknown setting": ({"treshold": 1}, "treshold: there is no such setting"),
    "no GPU resource": ({"resource_name": "cpu"}, "resource_name: is 'cpu'"),
    "an unknown source": ({"requests_from": "me"}, "requests_from: is 'me'"),
    "a label that is not renamed": ({"exported_labels": ["uid"]}, "exported_labels: has 'uid'"),
    "a cluster label that is none": ({"cluster_label": "my-cluster"}, "cluster_label: 'my-cluster'"),
    "an alert's label that is none": ({"labels": {"my-team": "x"}}, "labels: 'my-team'"),
    "no sizes": ({"sizes": []}, "sizes: is empty"),
    "a size of none": ({"sizes": [1, 0]}, "sizes[1]: is 0"),
    "half a size": ({"slot_size": 0.5}, "slot_size: is 0.5"),
    "no storm": ({"storm_evictions": 0}, "storm_evictions: is 0"),
    "a negative threshold": ({"fragmentation_threshold": -0.1}, "fragmentation_threshold: is -0.1"),
    "a price that is no number": ({"gpu_hour_price": float("nan")}, "gpu_hour_price: is nan"),
    "DCGM where there is none": ({"dcgm": True, "resource_name": "amd.com/gpu"}, "dcgm: tells of nvidia.com/gpu"),
    "no duration": ({"blocked_for": "15 minutes"}, "blocked_for: is '15 minutes'"),
    "no interval": ({"interval": "often"}, "interval: is 'often'"),
}


@pytest.mark.parametrize(("given", "told"), NONSENSE.values(), ids=NONSENSE)
def test_what_makes_no_sense_is_named(given: Any, told: str) -> None:
    with pytest.raises(InputError) as error:
        settings_of(given)
    assert str(error.value).startswith(told)


def test_null_is_as_if_not_given() -> None:
    assert settings_of({"sizes": None, "slot_size": None, "interval": ""}) == MonitoringSettings()
