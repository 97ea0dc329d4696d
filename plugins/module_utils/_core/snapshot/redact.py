# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Takes out of API objects what must not leave a cluster, and keeps what measuring and planning need.

One table (fields.py) drives both reducing and hashing, so that no field can be kept by the one and forgotten by the
other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import InputError
from ..kube.decode import namesake
from ..kube.selectors import LabelSelector
from .fields import KINDS, Raw, kept
from .names import Hasher, Names


def _identity(item: Raw) -> tuple[str, str, str]:
    meta = item.get("metadata")
    meta = meta if isinstance(meta, Mapping) else {}
    return str(item["kind"]), str(meta.get("namespace") or ""), str(meta.get("name") or "")


def _rewrite(objects: Iterable[Raw], names: Names) -> list[dict[str, Any]]:
    result = []
    for item in objects:
        shape = None if namesake(item) else KINDS.get(item["kind"])
        if shape is None:
            continue
        try:
            result.append(kept(item, shape, names))
        except InputError as error:
            kind, namespace, name = _identity(item)
            raise error.within(object=f"{kind} {namespace + '/' if namespace else ''}{name or '(no name)'}") from None
    return result


def reduce(objects: Iterable[Raw]) -> list[dict[str, Any]]:
    """The objects without what measuring, planning and placement do not look at, in the order given.

    Kinds, fields and annotations are kept by name; all others go, so that neither secrets, environment, arguments,
    commands, images, addresses nor messages remain. What is kept has the API's own shape: the result measures like
    the input, and reducing it again changes nothing.

    Args:
        objects: Single objects (see :func:`.decode.objects`), each with its kind.

    Raises:
        InputError: A field is not of the API's type; it names object and field.
    """
    return _rewrite(objects, Names())


def hash_names(objects: Iterable[Raw], key: str) -> list[dict[str, Any]]:
    """Like :func:`reduce`, with tokens for all names, labels and other text that is the cluster's own.

    Equal texts have equal tokens, within one result and between results of one key, so that owners, selectors,
    affinities, tolerations and topologies match as before and the result measures as before but for the names.
    What stays readable is what every cluster has: kinds, resource names, amounts, times, well-known label and taint
    keys, GPU descriptions, numbers that are compared, ``kube-system`` and its like. The result is sorted, as the
    order of names would tell something about them.

    Args:
        objects: Single objects, each with its kind; reduced or not.
        key: The secret of the hash.

    Raises:
        InputError: A field is not of the API's type, or the key is empty or gives two names one token.
    """
    kept = reduce(objects)
    hasher = Hasher(key, compared=_compared_keys(kept))
    # The claim of an ephemeral volume is named after pod and volume, and must be so again.
    claims = [
        (item["metadata"]["name"], volume["name"])
        for item in kept
        for volume in item.get("spec", {}).get("volumes", ())
        if "ephemeral" in volume
    ]
    # The shortest first, as the name of a claim may itself be part of another's.
    for parts in sorted(claims, key=lambda parts: len("-".join(parts))):
        hasher.join("-".join(parts), parts)
    return sorted(_rewrite(kept, hasher), key=_identity)


def _compared_keys(value: Any) -> Iterator[str]:
    """The keys of all requirements and tolerations that compare numbers."""
    if isinstance(value, dict):
        if value.get("operator") in ("Gt", "Lt") and "key" in value:
            yield value["key"]
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _compared_keys(part)


def select_nodes(objects: Iterable[Raw], selector: LabelSelector) -> list[Raw]:
    """The objects without the nodes that the selector does not match and without the pods bound to them."""
    objects = list(objects)
    names = {
        item["metadata"]["name"]
        for item in objects
        if item["kind"] == "Node" and selector.matches(item["metadata"].get("labels") or {})
    }

    def stays(item: Raw) -> bool:
        if item["kind"] == "Node":
            return item["metadata"]["name"] in names
        bound = item["kind"] == "Pod" and item["spec"].get("nodeName")
        return not bound or bound in names

    return [item for item in objects if stays(item)]
