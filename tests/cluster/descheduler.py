# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The descheduler that is installed on a cluster, run once for real.

kwok's pods run nothing. So the real program is started here as the pod would start it: with the arguments of the live CronJob or
Deployment, the files of the ConfigMap that its pod would mount, and a token of its ServiceAccount. That shows rights, policy
and arguments together.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from .programs import KUBE, go, programs

# Seconds until a run counts as one that hangs: informers without rights wait for ever.
PATIENCE = 60.0

_EVICTED = re.compile(r'"Evicted pod( in dry run mode)?".* pod="([^"]+)".*?(?:plugin|strategy)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one run did.

    Attributes:
        code: The exit code; None if it did not end.
        evicted: Namespace/name of each pod, in order.
        plugins: Of each eviction, the plugin.
        log: What it wrote.
    """

    code: int | None
    evicted: list[str]
    plugins: list[str]
    log: str


def chart() -> Path:
    """The chart in the source of the descheduler that is built here; it is labelled as the version before."""
    command = [go(), "list", "-m", "-mod=readonly", "-f", "{{.Dir}}", "sigs.k8s.io/descheduler"]
    folder = subprocess.run(command, cwd=KUBE.folder, check=True, capture_output=True, text=True).stdout.strip()
    return Path(folder) / "charts" / "descheduler"


def copy_chart(folder: Path, version: str, *, lacking: Iterable[str] = ()) -> Path:
    """A copy of the chart that bears the version, and grants no right to some resources, as charts of old do.

    Args:
        folder: Where the copy goes: ``folder/descheduler``.
        version: Of chart and program.
        lacking: Resources, as ``persistentvolumeclaims``.
    """
    copy = folder / "descheduler"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(chart(), copy)
    for path in (copy, *copy.rglob("*")):
        # The module cache is read-only.
        path.chmod(0o755 if path.is_dir() else 0o644)
    about = copy / "Chart.yaml"
    about.write_text(re.sub(r"^(version|appVersion): .*$", rf"\1: {version}", about.read_text(), flags=re.MULTILINE))
    role = copy / "templates" / "clusterrole.yaml"
    text = role.read_text()
    for resource in lacking:
        rule = re.compile(rf'- apiGroups: \[[^\]]*\]\n  resources: \["{resource}"\]\n  verbs: .*\n')
        text, found = rule.subn("", text)
        if not found:
            raise ValueError(f"the chart has no rule for {resource}")
    role.write_text(text)
    return copy


def run_installed(kubeconfig: Path, namespace: str, name: str) -> Cycle:
    """One cycle of the descheduler that the CronJob or Deployment of that name is for.

    Raises:
        LookupError: There is neither.
        subprocess.CalledProcessError: Its policy or its account is not there.
    """
    workload = _workload(kubeconfig, namespace, name)
    template = workload["spec"].get("jobTemplate", {}).get("spec", workload["spec"])["template"]["spec"]
    (container,) = template["containers"]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        arguments = list(container["args"])
        for mount in container["volumeMounts"]:
            local = folder / mount["name"]
            (volume,) = [each for each in template["volumes"] if each["name"] == mount["name"]]
            _mount(kubeconfig, namespace, volume["configMap"]["name"], local)
            arguments = [argument.replace(mount["mountPath"], str(local)) for argument in arguments]
        access = folder / "kubeconfig"
        access.write_text(json.dumps(_as_account(kubeconfig, namespace, template["serviceAccountName"])))
        access.chmod(0o600)
        # One cycle, also of a Deployment; served on no port, so that several may run side by side. The last one counts.
        more = [f"--kubeconfig={access}", "--secure-port=0", "--descheduling-interval=0"]
        return _run([str(programs() / "descheduler"), *arguments, *more])


def _run(command: list[str]) -> Cycle:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        code: int | None = done.returncode
        log = done.stdout + done.stderr
    except subprocess.TimeoutExpired as ended:
        code, log = None, (ended.stderr or b"").decode()
    found = _EVICTED.findall(log)
    return Cycle(code, [pod for _dry, pod, _plugin in found], [plugin for _dry, _pod, plugin in found], log)


def _kubectl(kubeconfig: Path, *arguments: str, given: str | None = None) -> str:
    command = [str(programs() / "kubectl"), f"--kubeconfig={kubeconfig}", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, input=given).stdout


def _workload(kubeconfig: Path, namespace: str, name: str) -> dict[str, Any]:
    for kind in ("cronjob", "deployment"):
        found = _kubectl(kubeconfig, "get", kind, name, "-n", namespace, "--ignore-not-found", "-o", "json")
        if found:
            return dict(json.loads(found))
    raise LookupError(f"neither a CronJob nor a Deployment is {namespace}/{name}")


def _mount(kubeconfig: Path, namespace: str, name: str, folder: Path) -> None:
    folder.mkdir()
    for key, text in json.loads(_kubectl(kubeconfig, "get", "configmap", name, "-n", namespace, "-o", "json"))["data"].items():
        (folder / key).write_text(text)


def _as_account(kubeconfig: Path, namespace: str, account: str) -> dict[str, Any]:
    """The same cluster, with a token of the account and no other right."""
    view = yaml.safe_load(_kubectl(kubeconfig, "config", "view", "--minify", "--raw", "--flatten", "-o", "yaml"))
    token = _kubectl(kubeconfig, "create", "token", account, "-n", namespace).strip()
    return {
        **{key: view[key] for key in ("apiVersion", "kind", "clusters")},
        "users": [{"name": account, "user": {"token": token}}],
        "contexts": [{"name": "it", "context": {"cluster": view["clusters"][0]["name"], "user": account}}],
        "current-context": "it",
    }


def stick(kubeconfig: Path, namespace: str, release: str) -> None:
    """Leave a release as a helm does that is killed in the middle of an upgrade: with a next revision that is pending."""
    selector = f"owner=helm,name={release}"
    found = json.loads(_kubectl(kubeconfig, "get", "secrets", "-n", namespace, "-l", selector, "-o", "json"))["items"]
    last = max(found, key=lambda secret: int(secret["metadata"]["labels"]["version"]))
    record = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(last["data"]["release"]))))
    record["version"] += 1
    record["info"]["status"] = "pending-upgrade"
    packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(record).encode()))).decode()
    labels = last["metadata"]["labels"] | {"version": str(record["version"]), "status": "pending-upgrade"}
    metadata = {"name": f"sh.helm.release.v1.{release}.v{record['version']}", "namespace": namespace, "labels": labels}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": last["type"], "metadata": metadata, "data": {"release": packed}}
    _kubectl(kubeconfig, "create", "-f", "-", given=json.dumps(secret))


# Comes and goes by itself, or stands for what is listed in another way.
_PASSING = {"events", "events.events.k8s.io", "componentstatuses", "pods", "leases.coordination.k8s.io", "endpoints"}
_PASSING |= {"endpointslices.discovery.k8s.io", "replicasets.apps", "controllerrevisions.apps", "bindings"}
_NAMED = '{range .items[*]}{.kind}{" "}{.metadata.namespace}{"/"}{.metadata.name}{"\\n"}{end}'


def objects(kubeconfig: Path) -> list[str]:
    """Kind and namespace/name of every object on the cluster that stays unless somebody removes it."""
    kinds = set(_kubectl(kubeconfig, "api-resources", "--verbs=list", "-o", "name").split()) - _PASSING
    named = _kubectl(kubeconfig, "get", ",".join(sorted(kinds)), "-A", "-o", f"jsonpath={_NAMED}")
    return sorted(set(named.splitlines()))


def as_json(cycle: Cycle, *, lines: int = 40) -> str:
    """For a caller in another process; of the log the end."""
    return json.dumps(asdict(cycle) | {"log": cycle.log.splitlines()[-lines:]}, indent=1)
