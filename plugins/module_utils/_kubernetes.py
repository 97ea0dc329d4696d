# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A live cluster, read page by page. The only file that imports kubernetes.core and its client."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from ._core.errors import InputError

# Said by connect(), so that files can be read without them.
MISSING: str | None = None
try:
    from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException
except ImportError:
    MISSING = "the collection kubernetes.core"
    AUTH_ARG_SPEC = {}

try:
    from kubernetes.client.exceptions import ApiException
    from kubernetes.config import ConfigException
    from urllib3.exceptions import HTTPError
except ImportError:
    MISSING = "the Python package kubernetes"

T = TypeVar("T")
Params = Mapping[str, Any]

LIVE_ARGUMENTS: dict[str, dict[str, Any]] = {
    **AUTH_ARG_SPEC,
    "cluster_uid": {"type": "str"},
    "page_size": {"type": "int", "default": 500},
    "request_timeout": {"type": "int", "default": 60},
    "resource_version": {"type": "str"},
}

ATTEMPTS = 5
"""So often one page is asked for, and so often a list that expired is begun again."""

_BUSY = (429, 500, 502, 503, 504)
_EXPIRED = 410


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind that can be listed over all namespaces.

    Attributes:
        optional: Without it less can be told, yet the rest is right.
        fields: A field selector: what it leaves out is not wanted.
    """

    name: str
    path: str
    group: str
    resource: str
    optional: bool = True
    fields: str | None = None


def _kind(name: str, path: str, **more: Any) -> Kind:
    group = path.split("/")[2] if path.startswith("/apis/") else ""
    return Kind(name, path, group, path.rpartition("/")[2], **more)


# Finished pods hold nothing, and there may be many. Pods come before nodes, so that their nodes are there.
_PODS = _kind("Pod", "/api/v1/pods", optional=False, fields="status.phase!=Succeeded,status.phase!=Failed")
_NODES = _kind("Node", "/api/v1/nodes", optional=False)
_PLACING = (
    _kind("Namespace", "/api/v1/namespaces"),
    _kind("PersistentVolumeClaim", "/api/v1/persistentvolumeclaims"),
    _kind("PersistentVolume", "/api/v1/persistentvolumes"),
)
MEASURING: tuple[Kind, ...] = (*_PLACING, _PODS, _NODES)
"""What an audit looks at."""
EVERYTHING: tuple[Kind, ...] = (
    *_PLACING,
    _kind("StorageClass", "/apis/storage.k8s.io/v1/storageclasses"),
    _kind("PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses"),
    _kind("PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets"),
    _kind("ReplicaSet", "/apis/apps/v1/replicasets"),
    _kind("Deployment", "/apis/apps/v1/deployments"),
    _kind("StatefulSet", "/apis/apps/v1/statefulsets"),
    _kind("DaemonSet", "/apis/apps/v1/daemonsets"),
    _kind("Job", "/apis/batch/v1/jobs"),
    _kind("HorizontalPodAutoscaler", "/apis/autoscaling/v2/horizontalpodautoscalers"),
    _PODS,
    _NODES,
)
"""What planning looks at too: what a snapshot keeps."""


class _ExpiredError(Exception):
    """The list began too long ago to go on; what came of it so far may not be used."""


@dataclass(slots=True)
class Live:
    """A connection to one cluster.

    Attributes:
        name: Its address.
        uid: Uid of its namespace kube-system, which tells clusters apart; None where it may not be read.
        now: The server's clock at the last answer, in seconds since 1970.
        notes: What could not be read, and what that means.
    """

    client: Any
    name: str
    page_size: int
    timeout: int
    resource_version: str | None
    uid: str | None = None
    now: float | None = None
    notes: list[str] = field(default_factory=list)
    live = True

    @property
    def identity(self) -> dict[str, str | None]:
        """Which cluster it is, for results."""
        return {"server": self.name, "uid": self.uid}

    def read(self, kinds: Sequence[Kind], build: Callable[[Iterator[dict[str, Any]]], T]) -> T:
        """What ``build`` makes of the lists of these kinds, given page after page.

        A list that expires on the way is never used in part: everything is read again, into a new build.

        Raises:
            InputError: The cluster does not answer, or a right is missing without which there is nothing to tell; it
                names every right that is missing.
        """
        for _attempt in range(ATTEMPTS):
            self.notes = []
            try:
                return build(self._pages(kinds))
            except _ExpiredError:
                continue
        raise InputError(f"lists expired {ATTEMPTS} times before they were read; give a larger page_size", source=self.name)

    def _pages(self, kinds: Sequence[Kind]) -> Iterator[dict[str, Any]]:
        missing: list[Kind] = []
        for kind in kinds:
            try:
                # Once a list that must be there is refused, the others are only asked for their rights.
                yield from self._list(kind, only_try=any(not other.optional for other in missing))
            except ApiException as error:
                if error.status == 403:
                    missing.append(kind)
                elif error.status == 404 and kind.optional:
                    self.notes.append(f"the cluster serves no {kind.resource}")
                else:
                    raise self._failure(error, kind.path) from None
        if not missing:
            return
        rights = ", ".join(f"list {kind.resource}{'.' + kind.group if kind.group else ''}" for kind in missing)
        if any(not kind.optional for kind in missing):
            raise InputError(
                f"may not {rights}; grant these rights (policies/rbac/reader.yaml has all that are needed)", source=self.name
            )
        self.notes.append(f"may not {rights}: what depends on it is unknown")

    def _list(self, kind: Kind, *, only_try: bool) -> Iterator[dict[str, Any]]:
        query: dict[str, Any] = {"limit": 1 if only_try else self.page_size, "field_selector": kind.fields}
        version = None
        following = ""
        while True:
            start = {"_continue": following} if following else {"resource_version": self.resource_version}
            page = self._get(kind.path, **query, **start)
            meta, items = page.get("metadata"), page.get("items")
            if not isinstance(meta, dict) or page.get("kind") != f"{kind.name}List":
                raise InputError(f"GET {kind.path} answers with {page.get('kind')!r}, not a {kind.name}List", source=self.name)
            if only_try:
                return
            # All pages of one list show one moment; a server that forgot it may go on with another.
            if version not in (None, meta.get("resourceVersion")):
                raise _ExpiredError
            version = meta.get("resourceVersion")
            yield {"apiVersion": page.get("apiVersion"), "kind": page["kind"], "items": items or []}
            following = meta.get("continue") or ""
            if not following:
                return

    def _get(self, path: str, **query: Any) -> dict[str, Any]:
        """One answer, whole and parsed; asked for again while the server is busy or the line breaks."""
        given = {name: value for name, value in query.items() if value is not None}
        wait = 0.2
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer = self.client.request("get", path, serialize=False, _request_timeout=self.timeout, **given)
                if date := answer.headers.get("Date"):
                    self.now = parsedate_to_datetime(date).timestamp()
                page = json.loads(answer.data)
                if not isinstance(page, dict):
                    raise ValueError("not an object")
                return page
            except ApiException as error:
                if error.status == _EXPIRED:
                    raise _ExpiredError from None
                if error.status not in _BUSY or attempt == ATTEMPTS:
                    raise
                after = str((error.headers or {}).get("Retry-After", ""))
                wait = max(wait, min(float(after) if after.isdecimal() else 0.0, self.timeout))
            except (HTTPError, OSError, ValueError) as error:
                # ValueError: half an answer, which no parser takes.
                if attempt == ATTEMPTS:
                    raise InputError(f"GET {path} fails: {_short(error)}", source=self.name) from None
            time.sleep(wait)
            wait *= 2
        raise AssertionError("unreachable")

    def _failure(self, error: Any, path: str) -> InputError:
        if error.status == 401:
            return InputError("does not accept these credentials (401); renew them", source=self.name)
        return InputError(f"GET {path} answers {error.status}: {_message(error)}", source=self.name)


def connect(params: Params) -> Live:
    """A connection by the options that kubernetes.core shares, made sure to be the cluster meant.

    Raises:
        InputError: Options and environment name different clusters, the cluster cannot be reached, or it is another one
            than ``cluster_uid`` says.
    """
    if get_api_client is None:
        raise InputError(
            "reading a live cluster needs the collection kubernetes.core and the Python package kubernetes; install them"
        )
    if conflict := contradiction(params, os.environ):
        raise InputError(conflict)
    if params["page_size"] < 1 or params["request_timeout"] < 1:
        name = "page_size" if params["page_size"] < 1 else "request_timeout"
        raise InputError(f"is {params[name]}; it must be at least 1", field=name)
    try:
        found = get_api_client(**{name: params.get(name) for name in AUTH_ARG_SPEC})
        live = Live(
            client=found.client,
            name=str(found.configuration.host),
            page_size=params["page_size"],
            timeout=params["request_timeout"],
            resource_version=params["resource_version"],
        )
    except (ConfigException, CoreException, HTTPError, OSError, ValueError) as error:
        raise InputError(f"cannot connect: {_short(error)}; give kubeconfig, or host and api_key") from None
    except ApiException as error:
        raise InputError(f"cannot connect: {error.status}: {_message(error)}") from None
    _identify(live, params["cluster_uid"])
    return live


def _identify(live: Live, declared: str | None) -> None:
    try:
        live.uid = live._get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    except _ExpiredError:
        raise InputError("GET of a namespace answers that it expired (410)", source=live.name) from None
    except ApiException as error:
        if error.status != 403:
            raise live._failure(error, "/api/v1/namespaces/kube-system") from None
        if declared:
            raise InputError(
                "may not get namespaces, so it cannot be told whether this is the cluster meant", source=live.name
            ) from None
    if declared and live.uid != declared:
        raise InputError(f"is the cluster {live.uid}, not {declared} as cluster_uid says", source=live.name)


def contradiction(params: Params, environ: Mapping[str, str]) -> str | None:
    """Why options and environment may mean different clusters, if they may.

    kubernetes.core fills what is not given from the environment, one by one, and takes a host with a token before any
    kubeconfig: in a job with both, the kubeconfig would be ignored, or a token sent to a host it is not for.
    """

    def from_environment(*names: str) -> list[str]:
        spelt = [f"K8S_AUTH_{name.upper()}" for name in names if params.get(name) is None]
        return [name for name in spelt if environ.get(name)]

    credentials = ("api_key", "username", "client_cert", "password")
    chosen = [name for name in ("kubeconfig", "context") if params.get(name) is not None]
    host = from_environment("host")
    if chosen and host and from_environment(*credentials):
        return f"{chosen[0]} is given, yet {host[0]} of the environment would be taken instead; unset it, or give host itself"
    if not chosen and host and (others := from_environment("kubeconfig", "context")):
        return f"the environment has both {host[0]} and {others[0]}; unset one of them"
    bare = params.get("host") is not None and all(params.get(name) is None for name in credentials)
    if bare and (others := from_environment(*credentials)):
        return f"host is given, and {others[0]} of the environment would be sent to it; give api_key beside host"
    return None


def _short(error: Exception) -> str:
    """The last of a chain of causes: what went wrong at the bottom."""
    reason = getattr(error, "reason", None)
    return str(reason if isinstance(reason, Exception) else error).splitlines()[0] or type(error).__name__


def _message(error: Any) -> str:
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.reason)
