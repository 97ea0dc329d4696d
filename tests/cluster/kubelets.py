# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""kwok beside a cluster that somebody else runs: it plays the kubelets of that cluster's fake nodes."""

from __future__ import annotations

from pathlib import Path
from urllib.request import urlopen

from .plane import STAGES, ControlPlane, free_ports
from .processes import wait_until
from .programs import programs


class Kubelets(ControlPlane):
    """A plane of one part. Its folder is like any other's, so that it is listed and stopped as they are.

    Attributes:
        cluster: The kubeconfig of the cluster.
        nodes: A label selector; only what it selects is played.
    """

    def __init__(self, folder: Path, cluster: Path, nodes: str) -> None:
        super().__init__(folder)
        self.cluster = cluster
        self.nodes = nodes

    def start(self) -> Kubelets:
        """Start kwok and wait until it works.

        Raises:
            NotReadyError: It does not come up; its log is in the folder. It is not left running.
        """
        if self.running:
            return self
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        self.state = {"ports": {"kwok": free_ports(1)[0]}, "processes": {}}
        self.run("kwok")
        try:
            wait_until(self._answers, f"kwok ready (see {self.folder}/logs/kwok.log)", alive=lambda: self.running)
        except BaseException:
            self.stop()
            raise
        return self

    def _commands(self) -> dict[str, list[str | Path]]:
        return {
            "kwok": [
                programs() / "kwok",
                f"--kubeconfig={self.cluster}",
                f"--manage-nodes-with-label-selector={self.nodes}",
                "--node-lease-duration-seconds=40",
                f"--server-address=127.0.0.1:{self.state['ports']['kwok']}",
                *STAGES,
            ]
        }

    def _answers(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.state['ports']['kwok']}/healthz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
