#!/usr/bin/python
# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_snapshot
short_description: Save what measuring and planning need of a cluster, and nothing else
version_added: 0.1.0
author:
  - gpuops.defrag contributors (@gpuops)
description:
  - Reads a cluster's state and writes a snapshot file that every module of this collection takes as O(src). Measured
    from that file, the cluster's figures are exactly the same.
  - The file holds nodes, pods, PodDisruptionBudgets, the workloads that own pods, namespaces, volumes, storage and
    priority classes and autoscalers. Of each it keeps only the fields that decide where pods may run and what they
    take.
  - Never kept are environment variables, arguments, commands, images, probes, hooks, volumes of secrets and config maps,
    service accounts, addresses, messages, managed fields, pod templates, and annotations but those of this collection,
    of the descheduler, of the cluster autoscaler and a few others that decide on evictions.
  - With O(hash_names) the names are replaced as well, so that the file can be given to somebody who must not know them.
options:
  dest:
    description:
      - The file to write, on the host the module runs on. It is compressed with gzip if its name ends in V(.gz).
      - The same input gives the same bytes, one object a line. The file is replaced as a whole, and only if its
        content changes. A new file has the mode V(0600), an old one keeps its mode.
    type: path
    required: true
  hash_names:
    description:
      - Put a token for every name and uid (of nodes, pods, namespaces, workloads, containers, volumes, claims, classes,
        schedulers), for labels, taints and annotations.
      - The same text gets the same token everywhere, also in other files that are written with the same O(hash_key). So
        selectors, affinities, tolerations, owners and topologies match as before, and the figures are the same but for
        the names.
      - Readable remain what every cluster has. These are kinds, resource names, amounts, times, keys of well-known labels
        and taints, GPU products and their properties, numbers that pods compare with C(Gt) and C(Lt), V(true) and
        V(false), V(kube-system), V(default) and their like.
    type: bool
    default: false
  hash_key:
    description:
      - The secret that the tokens are made with (HMAC-SHA256). Required with O(hash_names=true).
      - Whoever has it can find out the names by trying, so use a long random text and do not send it along.
    type: str
  resource_name:
    description:
      - Nothing is left out by it, as one snapshot serves every resource.
      - It is here so that all modules of the action group take the same options.
    type: str
    default: nvidia.com/gpu
  node_selector:
    description:
      - Which nodes to save, by their labels, with the pods on them and the pods that are on no node.
      - A selector as for C(kubectl -l), such as V(pool=inference,!spot) or V(zone in (a,b\)), or a mapping of labels
        that must all be there, as in a pod's C(nodeSelector).
      - Without it, every node is saved.
    type: raw
extends_documentation_fragment:
  - gpuops.defrag.attributes
  - gpuops.defrag.attributes.action_group
  - gpuops.defrag.source
  - gpuops.defrag.source.live
  - kubernetes.core.k8s_auth_options
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - The difference shows the size of the file and how many objects of each kind it holds, never their contents.
  idempotent:
    support: full
seealso:
  - module: gpuops.defrag.gpu_fragmentation_info
    description: Measures a snapshot.
"""

EXAMPLES = r"""
- name: Make a folder for snapshots
  ansible.builtin.file:
    path: build/snapshots
    state: directory
    mode: "0755"

- name: Keep the state of the cluster, without secrets and environment
  gpuops.defrag.gpu_snapshot:
    src: examples/gpu200-1.json.gz
    dest: build/snapshots/cluster.json.gz

- name: Dump a live cluster
  gpuops.defrag.gpu_snapshot:
    kubeconfig: ~/.kube/config
    dest: build/snapshots/live.json.gz

- name: Write a file that can be sent to somebody else
  gpuops.defrag.gpu_snapshot:
    src: examples/gpu200-1.json.gz
    dest: build/snapshots/for-support.json.gz
    hash_names: true
    hash_key: "{{ vault_snapshot_key }}"
  vars:
    vault_snapshot_key: a long random text that a vault keeps
  register: snapshot

- name: See what it holds and what was left out
  ansible.builtin.assert:
    that:
      - snapshot.kinds.Node > 0
      - "'Secret' not in snapshot.kinds"

- name: Measure it; the figures are those of the cluster
  gpuops.defrag.gpu_fragmentation_info:
    src: build/snapshots/for-support.json.gz

- name: Save only the nodes of one pool, with their pods and those that wait
  gpuops.defrag.gpu_snapshot:
    src: examples/blocked.yaml
    dest: build/snapshots/a100.json
    node_selector: nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
  sample: build/snapshots/cluster.json.gz
objects:
  description: How many objects it holds.
  returned: success
  type: int
  sample: 142
bytes:
  description: Its size.
  returned: success
  type: int
  sample: 3231
kinds:
  description: How many objects of each kind it holds.
  returned: success
  type: dict
  sample: {"Node": 25, "Pod": 117}
dropped:
  description: How many objects of each kind were read and left out, for their kind or by O(node_selector).
  returned: success
  type: dict
  sample: {"ConfigMap": 12, "Event": 300, "Secret": 40}
cluster:
  description: Which cluster was read, by C(server) and C(uid) as M(gpuops.defrag.gpu_fragmentation_info) returns them.
  returned: success
  type: dict
  sample: {"server": null, "uid": null}
notes:
  description: What could not be read of a live cluster, for want of rights or because the cluster does not serve it.
  returned: success
  type: list
  elements: str
  sample: []
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpuops.defrag.plugins.module_utils._arguments import SELECTION_ARGUMENTS, node_selector
from ansible_collections.gpuops.defrag.plugins.module_utils._core.errors import InputError
from ansible_collections.gpuops.defrag.plugins.module_utils._core.kube.decode import decode, objects
from ansible_collections.gpuops.defrag.plugins.module_utils._core.snapshot.redact import hash_names, reduce, select_nodes
from ansible_collections.gpuops.defrag.plugins.module_utils._secrets import hide_secrets
from ansible_collections.gpuops.defrag.plugins.module_utils._snapshot import (
    differs,
    read_objects,
    snapshot_bytes,
    write_snapshot,
)
from ansible_collections.gpuops.defrag.plugins.module_utils._source import EVERYTHING, SOURCE_ARGUMENTS, open_source


def kinds(items: Iterable[Mapping[str, Any]]) -> Counter[str]:
    return Counter(sorted(item["kind"] for item in items))


def described(path: str) -> dict[str, Any]:
    """Size and kinds of the file that is there now; nothing if there is none or it is no snapshot."""
    try:
        return {"bytes": os.path.getsize(path), "kinds": dict(kinds(objects(read_objects(path))))}
    except (OSError, InputError):
        return {}


def snapshot(params: Mapping[str, Any], *, check: bool, diff: bool) -> dict[str, Any]:
    """Read, reduce and write; the module's result.

    Raises:
        InputError: The source is no cluster's state, or the file cannot be written.
    """
    path, selector = params["dest"], node_selector(params)
    if params["src"] is not None and os.path.realpath(params["src"]) == os.path.realpath(path):
        raise InputError("is src itself; give another path, so that the original stays", field="dest")
    source = open_source(params)
    read: Counter[str] = Counter()
    listed: dict[str, str] = {}

    def reduced(documents: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
        """Page by page, so that no more than one page is ever there in full."""
        read.clear()
        kept: list[dict[str, Any]] = []
        for document in documents:
            if document["kind"].endswith("List") and isinstance(document.get("items"), list):
                listed[document["kind"]] = str(document.get("apiVersion") or "v1")
            items = list(objects([document]))
            read.update(item["kind"] for item in items)
            kept += reduce(items)
        return kept

    try:
        kept = source.read(EVERYTHING, reduced)
        # What cannot be measured is not worth keeping, and its fault is told here.
        decode(kept, source=source.name, live=source.live)
        wanted = select_nodes(kept, selector)
        kept = hash_names(wanted, params["hash_key"]) if params["hash_names"] else list(map(dict, wanted))
    except InputError as error:
        raise (error.within(source=source.name) if error.object else error) from None
    # An empty list says that there is none; without it the kind would count as not read.
    empty = [
        {"apiVersion": version, "kind": kind, "items": []}
        for kind, version in sorted(listed.items())
        if kind != "List" and not read[kind.removesuffix("List")]
    ]
    data = snapshot_bytes([*kept, *empty], compress=path.endswith(".gz"))
    after = {"bytes": len(data), "kinds": dict(kinds(kept))}
    result = {"path": path, "objects": len(kept), "dropped": dict(sorted((read - kinds(kept)).items())), **after}
    result |= {"cluster": source.identity, "notes": source.notes}
    if diff:
        result["diff"] = {"before_header": path, "after_header": path, "before": described(path), "after": after}
    result["changed"] = differs(path, data) if check else write_snapshot(path, data)
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **SOURCE_ARGUMENTS,
            **SELECTION_ARGUMENTS,
            "dest": {"type": "path", "required": True},
            "hash_names": {"type": "bool", "default": False},
            "hash_key": {"type": "str", "no_log": True},
        },
        required_if=[("hash_names", True, ["hash_key"])],
        supports_check_mode=True,
    )
    hide_secrets(module)
    try:
        result = snapshot(module.params, check=module.check_mode, diff=module._diff)
    except InputError as error:
        module.fail_json(msg=str(error))
    if module.params["node_selector"] and "Node" not in result["kinds"]:
        module.warn("no node matches node_selector; the snapshot holds none")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
