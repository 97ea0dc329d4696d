# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One control plane: etcd, API server, controllers, scheduler, and kwok in the place of the kubelets."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from random import SystemRandom
from typing import Any
from urllib.request import urlopen

from . import processes
from .api import Api
from .certificates import Authority, Pair, signing_key
from .processes import wait_until
from .programs import programs

# What kwok does in the place of kubelets.
STAGES = [f"--config={stage}" for stage in sorted((Path(__file__).parent / "stages").glob("*.yaml"))]


# Below those that the kernel gives to connections, one of which would take a port before it is used; of stages that run side by
# side each has its own.
PORTS = range(*map(int, os.environ.get("TEST_PORTS", "20000-32000").split("-")))


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody uses now, all different."""
    found: list[int] = []
    for port in SystemRandom().sample(PORTS, len(PORTS)):
        if len(found) == count:
            break
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            found.append(port)
    return found


class ControlPlane:
    """A control plane and the folder that is all its state; any process may take it over by that folder.

    Attributes:
        folder: Certificates, kubeconfig, logs, etcd's data, and state.json with ports and process ids.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state: dict[str, Any] = {}
        if (folder / "state.json").exists():
            self.state = json.loads((folder / "state.json").read_text())

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig with all rights."""
        return self.folder / "kubeconfig"

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return f"https://127.0.0.1:{self.state['ports']['api']}"

    @property
    def scheduler_url(self) -> str:
        """Where the scheduler listens."""
        return f"https://127.0.0.1:{self.state['ports']['scheduler']}"

    @property
    def authority(self) -> Path:
        """The certificate to check the API server's by."""
        return self.folder / "certificates" / "ca.crt"

    @property
    def admin(self) -> Pair:
        """A client certificate with all rights."""
        return Pair(self.folder / "certificates" / "admin.crt", self.folder / "certificates" / "admin.key")

    @property
    def api(self) -> Api:
        """The API server, with all rights."""
        return Api(self.url, self.authority, self.admin)

    @property
    def running(self) -> bool:
        """Whether every process that was started still runs."""
        known = self.state.get("processes", {})
        return bool(known) and all(processes.started(pid) == since for pid, since in known.values())

    def start(self) -> ControlPlane:
        """Start everything and wait until it works.

        Raises:
            NotReadyError: Some part does not come up; its log is in the folder. Nothing is left running.
        """
        if self.running:
            return self
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "logs").mkdir(parents=True)
        names = ("etcd", "etcd-peer", "api", "controllers", "scheduler", "kwok")
        self.state = {"ports": dict(zip(names, free_ports(len(names)), strict=True)), "processes": {}}
        self._certify()
        try:
            self._start_all()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop everything that was started; logs and etcd's data stay until the next start."""
        known = self.state.get("processes", {})
        # The API server last but etcd, so that the others can say goodbye.
        last = [name for name in ("api", "etcd") if name in known]
        for name in [*(known.keys() - last), *last]:
            processes.stop([tuple(known[name])])
        self.state["processes"] = {}
        if self.folder.exists():
            self._save()

    def kill(self, part: str) -> None:
        """End one part at once, as a crash would."""
        processes.stop([tuple(self.state["processes"].pop(part))], seconds=0.5)
        self._save()

    def run(self, part: str) -> None:
        """Start one part (again)."""
        command = self._commands()[part]
        self.state["processes"][part] = processes.start(command, self.folder / "logs" / f"{part}.log")
        self._save()

    def schedule_by(self, configuration: Path | None) -> None:
        """Start the scheduler anew with a KubeSchedulerConfiguration, whose kubeconfig it needs to name; None for its defaults.

        Raises:
            NotReadyError: It does not come up with that; its log is in the folder.
        """
        self.kill("scheduler")
        self.state["scheduled_by"] = configuration and str(configuration)
        self.run("scheduler")
        wait_until(lambda: self._healthy("scheduler"), "scheduler healthy", alive=lambda: self.running)

    def _save(self) -> None:
        (self.folder / "state.json").write_text(json.dumps(self.state, indent=1))

    def _certify(self) -> None:
        folder = self.folder / "certificates"
        authority = Authority(folder)
        signing_key(folder / "accounts.key")
        authority.issue("serving", user="kube-apiserver")
        for name, user, group in (
            ("admin", "admin", "system:masters"),
            ("kwok", "kwok", "system:masters"),
            ("controllers", "system:kube-controller-manager", None),
            ("scheduler", "system:kube-scheduler", None),
        ):
            pair = authority.issue(name, user=user, group=group)
            path = self.kubeconfig if name == "admin" else self.folder / f"{name}.kubeconfig"
            path.touch(mode=0o600)
            path.write_text(json.dumps(self._kubeconfig(name, pair), indent=1))

    def _kubeconfig(self, name: str, pair: Pair) -> dict[str, Any]:
        cluster = {"server": self.url, "certificate-authority": str(self.authority)}
        user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        context = {"cluster": self.folder.name, "user": name}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": self.folder.name, "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": self.folder.name, "context": context}],
            "current-context": self.folder.name,
        }

    def _commands(self) -> dict[str, list[str | Path]]:
        built, ports, certificates = programs(), self.state["ports"], self.folder / "certificates"
        scheduled_by = self.state.get("scheduled_by")
        etcd = f"http://127.0.0.1:{ports['etcd']}"
        peer = f"http://127.0.0.1:{ports['etcd-peer']}"
        fast = ["--leader-elect=false", "--bind-address=127.0.0.1", f"--cert-dir={certificates}"]
        return {
            "etcd": [
                built / "etcd",
                f"--data-dir={self.folder / 'etcd'}",
                "--unsafe-no-fsync",
                f"--listen-client-urls={etcd}",
                f"--advertise-client-urls={etcd}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--quota-backend-bytes=4294967296",
            ],
            "api": [
                built / "kube-apiserver",
                f"--etcd-servers={etcd}",
                f"--secure-port={ports['api']}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                "--service-cluster-ip-range=10.0.0.0/24",
                f"--tls-cert-file={certificates / 'serving.crt'}",
                f"--tls-private-key-file={certificates / 'serving.key'}",
                f"--client-ca-file={self.authority}",
                "--authorization-mode=Node,RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={certificates / 'accounts.key'}",
                f"--service-account-signing-key-file={certificates / 'accounts.key'}",
                "--allow-privileged",
            ],
            "controllers": [
                built / "kube-controller-manager",
                f"--kubeconfig={self.folder / 'controllers.kubeconfig'}",
                f"--secure-port={ports['controllers']}",
                f"--root-ca-file={self.authority}",
                f"--service-account-private-key-file={certificates / 'accounts.key'}",
                "--use-service-account-credentials",
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
                "--concurrent-deployment-syncs=20",
                "--concurrent-replicaset-syncs=20",
                *fast,
            ],
            "scheduler": [
                built / "kube-scheduler",
                f"--kubeconfig={self.folder / 'scheduler.kubeconfig'}",
                f"--authentication-kubeconfig={self.folder / 'scheduler.kubeconfig'}",
                f"--authorization-kubeconfig={self.folder / 'scheduler.kubeconfig'}",
                f"--secure-port={ports['scheduler']}",
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
                *fast,
                # It then looks at neither --kubeconfig nor --kube-api-….
                *([f"--config={scheduled_by}"] if scheduled_by else []),
            ],
            "kwok": [
                built / "kwok",
                f"--kubeconfig={self.folder / 'kwok.kubeconfig'}",
                "--manage-all-nodes=true",
                "--node-lease-duration-seconds=40",
                f"--server-address=127.0.0.1:{ports['kwok']}",
                *STAGES,
            ],
        }

    def _start_all(self) -> None:
        api = self.api
        for part in ("etcd", "api"):
            self.run(part)
        wait_until(api.answers, "API server ready", alive=lambda: self.running)
        for part in ("controllers", "scheduler", "kwok"):
            self.run(part)
        for part in ("controllers", "scheduler"):
            wait_until(lambda part=part: self._healthy(part), f"{part} healthy", alive=lambda: self.running)  # type: ignore[misc]
        # Pods are admitted only once their namespace has its service account.
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        wait_until(lambda: api.answers(account), "service accounts made", alive=lambda: self.running)

    def _healthy(self, part: str) -> bool:
        # They serve certificates of their own making, and say no more than ok, on loopback.
        context = ssl._create_unverified_context()
        try:
            with urlopen(f"https://127.0.0.1:{self.state['ports'][part]}/healthz", timeout=2, context=context) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
