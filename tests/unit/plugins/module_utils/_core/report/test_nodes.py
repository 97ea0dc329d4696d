# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import csv
import io

from ansible_collections.gpuops.defrag.plugins.module_utils._core.report.nodes import audit_nodes_csv
from ansible_collections.gpuops.defrag.tests.unit.plugins.module_utils._core.report.clusters import audited, held, hostile


def test_each_node_has_a_line_the_worst_first() -> None:
    cluster = audited(["8: 4+4", "8: 4+1"], *held("2: 1", "t4", product="T4", cordoned=True))
    assert audit_nodes_csv(cluster).splitlines() == [
        "node,pool,state,gpus,allocated,free,stranded,pods",
        "gpu-1,A100,Partial,8,5,3,3,2",
        "t4,T4,Cordoned,2,1,1,1,1",
        "gpu-0,A100,Full,8,8,0,0,2",
    ]


def test_no_name_is_a_formula_or_breaks_a_line() -> None:
    names = [row[0] for row in csv.reader(io.StringIO(audit_nodes_csv(hostile())))]
    assert len(names) == 12
    assert [name for name in names if name.startswith("'=<script>")]
    assert not [name for name in names if name.startswith(("=", "+", "-", "@"))]
