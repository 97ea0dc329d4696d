# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Prometheus beside a cluster, and what it scrapes there: the state of the objects, the API server and the scheduler."""

from __future__ import annotations

import json
import shutil
import ssl
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from .plane import ControlPlane, free_ports
from .processes import wait_until
from .programs import PROMETHEUS, programs


class Monitoring(ControlPlane):
    """A plane of two parts. Its folder is like any other's, so that it is listed and stopped as they are.

    Attributes:
        cluster: What is scraped.
        rules: Rule files, or patterns of them.
        interval: Seconds between scrapes, and between evaluations of rules.
        exporters: So many targets tell the state of the same cluster, as replicas of kube-state-metrics do.
        labels: Labels that every scrape adds; where a series has one itself, its own becomes ``exported_…``.
        prefix: A path that all of Prometheus is under, such as ``/prometheus``.
        web: Settings of its web server: TLS and users, as in ``--web.config.file``.
        headers: What a request needs then.
        trusts: How its certificate is checked then.
    """

    def __init__(
        self,
        folder: Path,
        cluster: ControlPlane,
        *,
        rules: Sequence[Path] = (),
        interval: float = 1,
        exporters: int = 1,
        labels: Mapping[str, str] | None = None,
        prefix: str = "",
        web: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        trusts: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(folder)
        self.cluster = cluster
        self.rules = rules
        self.interval = interval
        self.exporters = exporters
        self.labels = dict(labels or {})
        self.prefix = prefix
        self.web = web
        self.headers = dict(headers or {})
        self.trusts = trusts

    @property
    def textfiles(self) -> Path:
        """A folder whose ``*.prom`` are scraped too."""
        return self.folder / "textfiles"

    @property
    def url(self) -> str:
        """Where Prometheus listens, up to but without ``/api/v1``."""
        secure = "s" if self.web and "tls_server_config" in self.web else ""
        return f"http{secure}://localhost:{self.state['ports']['prometheus']}{self.prefix}"

    def start(self) -> Monitoring:
        """Start both, and wait until all that is scraped has been and rules have been evaluated.

        Raises:
            NotReadyError: Some part does not come up; its log is in the folder. Nothing is left running.
        """
        if self.running:
            return self
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "logs").mkdir(parents=True)
        self.textfiles.mkdir()
        names = ("state-metrics", "prometheus")
        self.state = {"ports": dict(zip(names, free_ports(len(names)), strict=True)), "processes": {}}
        self._configure()
        try:
            for part in names:
                self.run(part)
            wait_until(self.scraped, f"every target scraped (see {self.folder}/logs)", alive=lambda: self.running)
            self.wait_evaluated()
        except BaseException:
            self.stop()
            raise
        return self

    def ask(self, path: str, **parameters: Any) -> Any:
        """What the API answers, its ``data``.

        Raises:
            OSError: It does not, or with an error.
        """
        asked = Request(f"{self.url}/api/v1/{path}?{urlencode(parameters)}", headers=self.headers)
        with urlopen(asked, timeout=10, context=self.trusts) as answer:
            return json.loads(answer.read())["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series of an instant vector.

        Raises:
            ValueError: The expression cannot be evaluated; it says why.
        """
        try:
            found = self.ask("query", query=expression)
        except HTTPError as error:
            raise ValueError(f"{expression}: {error.read().decode()}") from None
        return [(series["metric"], float(series["value"][1])) for series in found["result"]]

    def scraped(self) -> bool:
        """Whether every target has been scraped, is up, and what it told can be asked for."""
        try:
            return 0 < len(self._scrapes()) == len(self.query("up == 1"))
        except OSError:
            return False

    def wait_evaluated(self) -> None:
        """Wait until rules have been evaluated on what was scraped by now, and those that build on others once more.

        Raises:
            NotReadyError: They are not.
        """
        since = max(datetime.fromisoformat(target["lastScrape"]) for target in self._scrapes())
        for _round in range(2):

            def all_after(since: datetime = since) -> bool:
                return all(moment > since for moment in self._evaluations())

            wait_until(all_after, f"rules evaluated (see {self.folder}/logs)", alive=lambda: self.running)
            since = max(self._evaluations(), default=since)

    def _scrapes(self) -> list[dict[str, Any]]:
        return list(self.ask("targets", state="active")["activeTargets"])

    def _evaluations(self) -> list[datetime]:
        return [datetime.fromisoformat(group["lastEvaluation"]) for group in self.ask("rules")["groups"]]

    def _configure(self) -> None:
        state = [f"{host}:{self.state['ports']['state-metrics']}" for host in ("127.0.0.1", "localhost")[: self.exporters]]
        jobs: list[dict[str, Any]] = [{"job_name": "kube-state-metrics", **self._often(1), **self._targets(state)}]
        # What the API server has to tell takes it a second where others work too.
        for job, port, path, often in (
            ("apiserver", "api", "/metrics", 10),
            ("kube-scheduler", "scheduler", "/metrics", 1),
            ("kube-scheduler-resources", "scheduler", "/metrics/resources", 1),
        ):
            admin = self.cluster.admin
            tls = {"cert_file": str(admin.certificate), "key_file": str(admin.key), "insecure_skip_verify": True}
            target = self._targets([f"127.0.0.1:{self.cluster.state['ports'][port]}"])
            reached = {"scheme": "https", "metrics_path": path, "tls_config": tls}
            jobs.append({"job_name": job, **reached, **self._often(often), **target})
        settings = {
            "global": {"evaluation_interval": self._often(1)["scrape_interval"]},
            "rule_files": list(map(str, self.rules)),
            "scrape_configs": jobs,
        }
        # JSON is YAML too.
        (self.folder / "prometheus.yml").write_text(json.dumps(settings, indent=1))
        (self.folder / "web.yml").write_text(json.dumps(self.web or {}, indent=1))

    def _often(self, intervals: int) -> dict[str, str]:
        often = f"{round(intervals * self.interval * 1000)}ms"
        return {"scrape_interval": often, "scrape_timeout": often}

    def _targets(self, targets: Sequence[str]) -> dict[str, Any]:
        return {"static_configs": [{"targets": targets, "labels": self.labels}]}

    def _commands(self) -> dict[str, list[str | Path]]:
        return {
            "state-metrics": [
                sys.executable,
                Path(__file__).with_name("state_metrics.py"),
                self.cluster.kubeconfig,
                str(self.state["ports"]["state-metrics"]),
                self.textfiles,
            ],
            "prometheus": [
                programs(PROMETHEUS) / "prometheus",
                f"--config.file={self.folder / 'prometheus.yml'}",
                f"--web.config.file={self.folder / 'web.yml'}",
                f"--web.listen-address=127.0.0.1:{self.state['ports']['prometheus']}",
                f"--web.external-url={self.url}",
                f"--storage.tsdb.path={self.folder / 'data'}",
                # Rule files are read again when they change.
                "--enable-feature=auto-reload-config",
                "--config.auto-reload-interval=1s",
            ],
        }
