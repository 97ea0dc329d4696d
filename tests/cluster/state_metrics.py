# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What kube-state-metrics (2.20) tells of a cluster, as far as rules and tuning ask: a program, KUBECONFIG PORT TEXTFILES.

kube-state-metrics is in no Go module proxy, so that it cannot be built like the other programs. Names, labels, values and what is
left out when are those of its internal/store/*.go. Node labels are told as with --metric-labels-allowlist=nodes=[*], and node
selectors as with --metric-opt-in-list=kube_pod_nodeselectors. The files *.prom in the folder TEXTFILES are told too, as
node_exporter does.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kubernetes import config
from kubernetes.dynamic import DynamicClient
from kubernetes.utils.quantity import parse_quantity

Object = dict[str, Any]
Sample = tuple[str, Mapping[str, str], float]

PHASES = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
REASONS = (
    "Evicted", "NodeAffinity", "NodeLost", "PreemptionByScheduler", "SchedulingGated", "Shutdown", "TerminationByKubelet",
    "UnexpectedAdmissionError",
)  # fmt: skip
DISRUPTIONS = (
    "PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI", "DeletionByPodGC", "TerminationByKubelet",
)  # fmt: skip
UNITS = {"cpu": "core", "memory": "byte", "ephemeral-storage": "byte", "pods": "integer"}


def sanitized(name: str) -> str:
    """A name as a label may have it."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def label_of(key: str, kind: str = "label") -> str:
    """The label that tells a Kubernetes label of that key, or what a node selector asks of it."""
    return f"{kind}_" + re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", sanitized(key)).lower()


def seconds(time: str) -> float:
    """Since 1970."""
    return datetime.fromisoformat(time).timestamp()


def amounts(found: Mapping[str, str]) -> Iterator[tuple[dict[str, str], float]]:
    """Labels and value of each amount of resources."""
    for resource, quantity in found.items():
        unit = UNITS.get(resource, "integer" if "/" in resource else None)
        if unit:
            yield {"resource": sanitized(resource), "unit": unit}, float(parse_quantity(quantity))


def conditions(thing: Object) -> dict[str, Object]:
    """By type."""
    return {condition["type"]: condition for condition in thing.get("status", {}).get("conditions") or ()}


def each_status(status: str) -> Iterator[tuple[str, float]]:
    """A status is told by three series, one of which is 1."""
    for possible in ("True", "False", "Unknown"):
        yield possible.lower(), float(status == possible)


def owners(thing: Object) -> Iterator[dict[str, str]]:
    """Labels of the owners; empty ones where there is none."""
    found = thing["metadata"].get("ownerReferences") or [{"kind": "", "name": ""}]
    for owner in found:
        controller = str(owner.get("controller", False)).lower() if owner["kind"] else ""
        yield {"owner_kind": owner["kind"], "owner_name": owner["name"], "owner_is_controller": controller}


def of_node(node: Object) -> Iterator[Sample]:
    own = {"node": node["metadata"]["name"]}
    yield "kube_node_labels", own | {label_of(key): value for key, value in node["metadata"].get("labels", {}).items()}, 1
    yield "kube_node_spec_unschedulable", own, float(node["spec"].get("unschedulable", False))
    for of in ("allocatable", "capacity"):
        for labels, value in amounts(node["status"].get(of, {})):
            yield f"kube_node_status_{of}", own | labels, value
    for kind, condition in conditions(node).items():
        for status, value in each_status(condition["status"]):
            yield "kube_node_status_condition", own | {"condition": kind, "status": status}, value


def of_pod(pod: Object) -> Iterator[Sample]:
    metadata, spec, status = pod["metadata"], pod["spec"], pod["status"]
    own = {"namespace": metadata["namespace"], "pod": metadata["name"], "uid": metadata["uid"]}
    node = {"node": spec.get("nodeName", "")}
    (controller,) = [o for o in metadata.get("ownerReferences") or () if o.get("controller")] or [{"kind": "", "name": ""}]
    created_by = {"created_by_kind": controller["kind"], "created_by_name": controller["name"]}
    more = {"host_ip": status.get("hostIP", ""), "pod_ip": status.get("podIP", ""), "host_network": "false"}
    yield "kube_pod_info", own | node | created_by | more | {"priority_class": spec.get("priorityClassName", "")}, 1
    yield (
        "kube_pod_nodeselectors",
        own | {label_of(key, "nodeselector"): value for key, value in (spec.get("nodeSelector") or {}).items()},
        1,
    )
    yield "kube_pod_created", own, seconds(metadata["creationTimestamp"])
    if metadata.get("deletionTimestamp"):
        yield "kube_pod_deletion_timestamp", own, seconds(metadata["deletionTimestamp"])
    if status.get("startTime"):
        yield "kube_pod_start_time", own, seconds(status["startTime"])
    for labels in owners(pod):
        yield "kube_pod_owner", own | labels, 1
    if status.get("phase"):
        for phase in PHASES:
            yield "kube_pod_status_phase", own | {"phase": phase}, float(status["phase"] == phase)
    yield from of_containers(pod, own, node)
    yield from of_pod_conditions(pod, own)


def of_containers(pod: Object, own: Mapping[str, str], node: Mapping[str, str]) -> Iterator[Sample]:
    for prefix, kind in (("", "containers"), ("init_", "initContainers")):
        for container in pod["spec"].get(kind) or ():
            for labels, value in amounts(container.get("resources", {}).get("requests") or {}):
                named = {**own, "container": container["name"], **node, **labels}
                yield f"kube_pod_{prefix}container_resource_requests", named, value
    told = {container["name"]: container for container in pod["status"].get("initContainerStatuses") or ()}
    for container in pod["spec"].get("initContainers") or ():
        if container["name"] in told:
            policy = {"restart_policy": container.get("restartPolicy", "")}
            named = {**own, "container": container["name"], "image_spec": container["image"], **policy}
            yield "kube_pod_init_container_info", named, 1


def of_pod_conditions(pod: Object, own: Mapping[str, str]) -> Iterator[Sample]:
    found = conditions(pod)
    for kind, name in (("Ready", "ready"), ("PodScheduled", "scheduled")):
        condition = found.get(kind)
        if condition:
            for status, value in each_status(condition["status"]):
                yield f"kube_pod_status_{name}", {**own, "condition": status}, value
            if condition["status"] == "True":
                yield f"kube_pod_status_{name}_time", own, seconds(condition["lastTransitionTime"])
    scheduled = found.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        yield "kube_pod_status_unschedulable", own, 1
        yield "kube_pod_status_unscheduled_time", own, seconds(scheduled["lastTransitionTime"])
    reasons = {pod["status"].get("reason"), *(condition.get("reason") for condition in found.values())}
    for reason in REASONS:
        if reason in reasons:
            yield "kube_pod_status_reason", {**own, "reason": reason}, 1
    if "DisruptionTarget" in found:
        reason = found["DisruptionTarget"].get("reason", "")
        yield "kube_pod_status_disruption_reason", {**own, "reason": reason if reason in DISRUPTIONS else "Other"}, 1


def of_budget(budget: Object) -> Iterator[Sample]:
    own = {"namespace": budget["metadata"]["namespace"], "poddisruptionbudget": budget["metadata"]["name"]}
    for name, field in (
        ("current_healthy", "currentHealthy"),
        ("desired_healthy", "desiredHealthy"),
        ("pod_disruptions_allowed", "disruptionsAllowed"),
        ("expected_pods", "expectedPods"),
    ):
        yield f"kube_poddisruptionbudget_status_{name}", own, float(budget.get("status", {}).get(field, 0))


def of_replica_set(replica_set: Object) -> Iterator[Sample]:
    own = {"namespace": replica_set["metadata"]["namespace"], "replicaset": replica_set["metadata"]["name"]}
    for labels in owners(replica_set):
        yield "kube_replicaset_owner", own | labels, 1


def of_deployment(deployment: Object) -> Iterator[Sample]:
    own = {"namespace": deployment["metadata"]["namespace"], "deployment": deployment["metadata"]["name"]}
    yield "kube_deployment_spec_replicas", own, float(deployment["spec"]["replicas"])
    yield "kube_deployment_status_replicas_available", own, float(deployment["status"].get("availableReplicas", 0))


def of_cron_job(job: Object) -> Iterator[Sample]:
    own = {"namespace": job["metadata"]["namespace"], "cronjob": job["metadata"]["name"]}
    yield "kube_cronjob_created", own, seconds(job["metadata"]["creationTimestamp"])
    yield "kube_cronjob_spec_suspend", own, float(job["spec"].get("suspend", False))
    if job.get("status", {}).get("lastSuccessfulTime"):
        yield "kube_cronjob_status_last_successful_time", own, seconds(job["status"]["lastSuccessfulTime"])


TOLD = {
    "/api/v1/nodes": of_node,
    "/api/v1/pods": of_pod,
    "/apis/policy/v1/poddisruptionbudgets": of_budget,
    "/apis/apps/v1/replicasets": of_replica_set,
    "/apis/apps/v1/deployments": of_deployment,
    "/apis/batch/v1/cronjobs": of_cron_job,
}


def exposition(samples: Iterable[Sample]) -> str:
    """In Prometheus' text format, which wants the series of a name together."""
    escaped = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    families: dict[str, list[str]] = {}
    for name, labels, value in samples:
        told = ",".join(f'{label}="{text.translate(escaped)}"' for label, text in labels.items())
        families.setdefault(name, []).append(f"{name}{{{told}}} {value!r}")
    return "".join(f"# TYPE {name} gauge\n" + "\n".join(lines) + "\n" for name, lines in sorted(families.items()))


def serve(kubeconfig: str, port: int, textfiles: Path) -> None:
    """Look at the cluster whenever asked, until ended."""
    client = DynamicClient(config.new_client_from_config(kubeconfig))

    def look() -> Iterator[Sample]:
        for path, told in TOLD.items():
            answer = client.request("GET", path, serialize=False, _request_timeout=10)
            for item in json.loads(answer.data)["items"]:
                yield from told(item)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # All of it or an error: half a cluster would be told as if it were the whole.
            told = "".join(file.read_text() for file in sorted(textfiles.glob("*.prom")))
            body = (exposition(look()) + told).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
