# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.dashboard import WIDTH, dashboard, queries
from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.rules import rule_groups
from ansible_collections.gpuops.defrag.plugins.module_utils._core.monitoring.settings import MonitoringSettings

FOUND = dashboard(MonitoringSettings(gpu_hour_price=3, cluster_label="k8s_cluster", dcgm=True))


def panels(**given: Any) -> dict[str, dict[str, Any]]:
    """By title; of some titles there are several."""
    return {panel["title"]: panel for panel in dashboard(MonitoringSettings(**given))["panels"]}


def test_it_belongs_to_no_installation() -> None:
    assert "id" not in FOUND
    assert "__inputs" not in FOUND
    assert FOUND["uid"] == "gpuops-nvidia-com-gpu"
    datasources = {json.dumps(panel["datasource"]) for panel in FOUND["panels"] if panel["type"] != "row"}
    assert datasources == {json.dumps({"type": "prometheus", "uid": "${datasource}"})}
    assert [variable["name"] for variable in FOUND["templating"]["list"]] == ["datasource", "cluster", "pool"]


def test_dashboards_of_two_resources_do_not_meet() -> None:
    names = ("nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.20gb")
    found = [dashboard(MonitoringSettings(resource_name=name)) for name in names]
    for key in ("uid", "title"):
        assert len({each[key] for each in found}) == len(names)


def test_grafana_knows_every_field_of_it() -> None:
    """Read into the types of Grafana's schema and written again, nothing of it is lost."""
    read = JSONEncoder(sort_keys=True).encode(Dashboard.from_json(json.loads(json.dumps(FOUND))))
    assert lacks(FOUND, json.loads(read)) == []


def lacks(wanted: Any, found: Any, path: str = "") -> list[str]:
    """Paths of what is not there, or differs; what is there besides are defaults."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [flaw for key, value in wanted.items() for flaw in lacks(value, found.get(key), f"{path}/{key}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [flaw for number, pair in enumerate(zip(wanted, found, strict=True)) for flaw in lacks(*pair, f"{path}[{number}]")]
    return [] if wanted == found else [path]


def test_panels_have_ids_of_their_own_and_lie_side_by_side() -> None:
    assert len({panel["id"] for panel in FOUND["panels"]}) == len(FOUND["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in FOUND["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _y in cells) < WIDTH
        taken |= cells


def test_every_query_looks_at_the_chosen_clusters() -> None:
    assert queries(FOUND)
    assert [query for query in queries(FOUND) if 'k8s_cluster=~"$cluster"' not in query] == []
    assert [query for query in queries(FOUND) if "pool:" in query and 'pool=~"$pool"' not in query] == []


def test_it_asks_for_what_is_recorded() -> None:
    recorded = {rule["record"] for rule in rule_groups(MonitoringSettings(dcgm=True))["groups"][0]["rules"]}
    asked = {name for query in queries(FOUND) for name in recorded if f"{name}{{" in query}
    assert {query for query in queries(FOUND) if ":gpuops_" in query and not any(f"{name}{{" in query for name in asked)} == set()


def test_what_is_of_a_pool_or_a_node_tells_of_which_cluster() -> None:
    legends = {target["legendFormat"] for panel in FOUND["panels"] for target in panel.get("targets", ())}
    # Money is added up over clusters, and pods are the ten of all.
    assert {legend for legend in legends if "{{pool}}" in legend and "{{k8s_cluster}}" not in legend} == {"{{pool}}"}
    assert "{{k8s_cluster}} {{node}}" in legends


@pytest.mark.parametrize(("k", "sizes"), [(2, (1, 2, 4, 8)), (1, (8,)), (4, (1, 2))])
def test_thresholds_rise_whatever_the_sizes_are(k: int, sizes: tuple[int, ...]) -> None:
    for panel in panels(fragmentation_size=k, sizes=sizes).values():
        if panel["type"] == "row":
            continue
        steps = [step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]
        assert steps[0] is None
        assert steps[1:] == sorted(set(steps[1:])), panel["title"]


def test_the_map_of_nodes_asks_for_no_more_moments_than_grafana_draws() -> None:
    """It draws none where they are closer than two pixels: on the narrowest screens, 24 columns are some 700 wide."""
    (found,) = (panel for panel in FOUND["panels"] if panel["type"] == "status-history")
    assert found["maxDataPoints"] * 2 < 700


def test_an_empty_panel_does_not_say_zero() -> None:
    shown = [panel["fieldConfig"]["defaults"] for panel in FOUND["panels"] if panel["type"] != "row"]
    assert {each["noValue"] for each in shown} == {"unknown", "none", "none seen", "not told"}
    assert {each["min"] for each in shown} == {0}


def test_what_dcgm_tells_is_shown_where_it_is_wanted() -> None:
    more = set(panels(dcgm=True)) - set(panels())
    assert more == {"Use", "GPUs at work and GPUs requested", "Pods that use their GPUs least"}
    assert not any("busy" in query for query in queries(dashboard(MonitoringSettings())))


def test_without_a_price_there_is_no_cost() -> None:
    assert "Cost" in [panel["title"] for panel in FOUND["panels"]]
    assert "Cost" not in [panel["title"] for panel in dashboard(MonitoringSettings())["panels"]]
    assert any(query.endswith("* 2190") for query in queries(FOUND))
