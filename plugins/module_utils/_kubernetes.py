# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A live cluster, read page by page, and written to. The only file that imports kubernetes.core and its client."""

from __future__ import annotations

import json
import os
import reprlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from itertools import count
from time import perf_counter
from typing import Any, TypeVar

from ._core.errors import InputError

# Said by connect(), so that files can be read without them.
MISSING: str | None = None
try:
    from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import (
        _create_auth_spec,
        _create_configuration,
        _create_headers,
        _set_header,
    )
except ImportError:
    MISSING = "the collection kubernetes.core"
    AUTH_ARG_SPEC = {}

try:
    from kubernetes.client import ApiClient, Configuration
    from kubernetes.client.exceptions import ApiException
    from kubernetes.dynamic import DynamicClient
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

FIRST_WAIT = 0.5
"""Seconds until it is asked again, doubled each time, or as long as the server says."""

LONGEST_WAIT = 8.0
"""Seconds between two attempts, unless the server asks for more."""

_BUSY = (429, 500, 502, 503, 504)
_EXPIRED = 410
_SERVER = "check that this is the API server and that it is well"
_ADVICE = {401: "renew the credentials", 403: "grant this right"}


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
TUNING: tuple[Kind, ...] = (*_PLACING, _kind("PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets"), _PODS, _NODES)
"""What setting the rate looks at."""
PROTECTING: tuple[Kind, ...] = (
    _kind("Namespace", "/api/v1/namespaces"),
    _kind("PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets", optional=False),
    *(kind for kind in EVERYTHING if kind.group in ("apps", "batch", "autoscaling")),
    _kind("ReplicationController", "/api/v1/replicationcontrollers"),
    _PODS,
)
"""What protection looks at: whose pods they are, and what protects them."""


class RefusedError(Exception):
    """The server refuses a request.

    Attributes:
        status: The HTTP status.
        after: Seconds after which it may be tried again, if the server says so.
    """

    def __init__(self, status: int, message: str, after: float | None = None) -> None:
        self.status = status
        self.after = after
        super().__init__(message)


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
        patience: Seconds for which a server that is away is waited for, however often it was asked.
        broke: When a request last got no answer, by ``time.perf_counter``.
        away: Seconds for which none had got one then.
    """

    client: Any
    name: str
    page_size: int
    timeout: int
    resource_version: str | None
    uid: str | None = None
    now: float | None = None
    notes: list[str] = field(default_factory=list)
    patience: float = 0.0
    broke: float | None = None
    away: float = 0.0
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
        told = f"lists expired {ATTEMPTS} times before they were read; give a larger page_size"
        if self.resource_version:
            told = f"lists at resource_version {self.resource_version} expired {ATTEMPTS} times; leave it out to read the newest"
        raise InputError(told, source=self.name)

    def _pages(self, kinds: Sequence[Kind]) -> Iterator[dict[str, Any]]:
        missing: list[Kind] = []
        for kind in kinds:
            begun = False
            try:
                # Once a list that must be there is refused, the others are only asked for their rights.
                for page in self._list(kind, only_try=any(not other.optional for other in missing)):
                    begun = True
                    yield page
                    del page  # Before the next one comes: two at once would be twice the memory.
            except ApiException as error:
                # What is refused half-way is neither there nor missing.
                if error.status == 403 and not begun:
                    missing.append(kind)
                elif error.status == 404 and kind.optional and not begun:
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
            meta = page.get("metadata")
            if not isinstance(meta, dict) or page.get("kind") != f"{kind.name}List" or "items" not in page:
                raise self._strange(kind.path, page, f"a {kind.name}List")
            if only_try:
                return
            # All pages of one list show one moment; a server that forgot it may go on with another.
            if version not in (None, meta.get("resourceVersion")):
                raise _ExpiredError
            version = meta.get("resourceVersion")
            if following and following == meta.get("continue"):
                raise InputError(f"GET {kind.path} gives the same page again and again; {_SERVER}", source=self.name)
            following = meta.get("continue") or ""
            yield {"apiVersion": page.pop("apiVersion", None), "kind": page["kind"], "items": page.pop("items") or []}
            if not following:
                return

    def ask(self, path: str, *, once: bool = False, **query: Any) -> tuple[dict[str, Any] | None, str]:
        """One answer; or None and why there is none, where it may not be read or is not there.

        ``once`` is for what may well not answer: it is not asked for again, and no answer is no error.

        Raises:
            InputError: The server does not answer.
        """
        try:
            return self._get(path, 1 if once else ATTEMPTS, **query), ""
        except ApiException as error:
            if not once and error.status not in (403, 404):
                raise self._failure(error, path) from None
            return None, str(self._failure(error, path))
        except InputError as error:
            if not once:
                raise
            return None, str(error)

    def _get(self, path: str, attempts: int = ATTEMPTS, **query: Any) -> dict[str, Any]:
        """One answer, whole and parsed; asked for again while the server is busy or the line breaks."""
        try:
            return self._request("get", path, _BUSY, attempts, **query)
        except ApiException as error:
            if error.status == _EXPIRED:
                raise _ExpiredError from None
            raise

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: str = "application/json",
        busy: Sequence[int] = _BUSY,
        once: bool = False,
    ) -> dict[str, Any]:
        """One request that may write, and its answer; sent again while the server is away, so it must bear to be made twice.

        Args:
            method: The HTTP method.
            path: Of the object.
            body: What is sent.
            content: Its content type.
            busy: The answers upon which it is sent again.
            once: It is not sent again, whatever becomes of it.

        Raises:
            RefusedError: The server says no.
            InputError: It does not answer.
        """
        try:
            return self._request(method, path, () if once else busy, 1 if once else ATTEMPTS, body=body, content_type=content)
        except ApiException as error:
            if not error.status:
                raise self._failure(error, path) from None
            after = str((error.headers or {}).get("Retry-After", ""))
            told = f"{method.upper()} {path} answers {error.status}: {_message(error)}"
            raise RefusedError(error.status, told, float(after) if after.isdecimal() else None) from None

    def _request(self, method: str, path: str, busy: Sequence[int], attempts: int, **query: Any) -> dict[str, Any]:
        given = {name: value for name, value in query.items() if value is not None}
        wait, waited, since = FIRST_WAIT, 0.0, perf_counter()
        for attempt in count(1):
            last = attempt >= attempts and (attempts == 1 or waited >= self.patience)
            asked = 0.0
            try:
                answer = self.client.request(method, path, serialize=False, _request_timeout=self.timeout, **given)
                if date := answer.headers.get("Date"):
                    self.now = parsedate_to_datetime(date).timestamp()
                page = json.loads(answer.data)
                if not isinstance(page, dict):
                    raise ValueError(f"the answer is {type(page).__name__}, not an object")
                return page
            except ApiException as error:
                if error.status not in busy or last:
                    raise
                after = str((error.headers or {}).get("Retry-After", ""))
                asked = min(float(after), self.timeout) if after.isdecimal() else 0.0
            except (HTTPError, OSError, ValueError, RecursionError) as error:
                # ValueError: half an answer, which no parser takes.
                self.broke = perf_counter()
                self.away = self.broke - since
                if last:
                    told = f"{method.upper()} {path} fails{f' {attempt} times' if attempt > 1 else ''}: {_short(error)}"
                    raise InputError(f"{told}; {_SERVER}, or give a longer request_timeout", source=self.name) from None
            pause = max(wait, asked)
            time.sleep(pause)
            waited += pause
            wait = min(2 * wait, LONGEST_WAIT)
        raise AssertionError("unreachable")

    def _failure(self, error: Any, path: str) -> InputError:
        if not error.status:
            # So the client tells that the server's certificate, or ours, is not taken.
            return InputError(f"GET {path} fails: {_message(error)}; give ca_cert, or check host", source=self.name)
        advice = _ADVICE.get(error.status, "try again later" if error.status in _BUSY else _SERVER)
        return InputError(f"GET {path} answers {error.status}: {_message(error)}; {advice}", source=self.name)

    def _strange(self, path: str, page: Mapping[str, Any], wanted: str) -> InputError:
        return InputError(f"GET {path} answers with {reprlib.repr(page.get('kind'))}, not {wanted}; {_SERVER}", source=self.name)


def connect(params: Params) -> Live:
    """A connection by the options that kubernetes.core shares, made sure to be the cluster meant.

    Raises:
        InputError: Options and environment name different clusters, the cluster cannot be reached, or it is another one
            than ``cluster_uid`` says.
    """
    if MISSING:
        raise InputError(f"reading a live cluster needs {MISSING}; install it, or read a file with src")
    if conflict := contradiction(params, os.environ):
        raise InputError(conflict)
    if params["page_size"] < 1 or params["request_timeout"] < 1:
        name = "page_size" if params["page_size"] < 1 else "request_timeout"
        raise InputError(f"is {params[name]}; it must be at least 1", field=name)
    try:
        client = _client(params)
    except Exception as error:  # What a kubeconfig of the wrong shape raises is not foreseeable.
        raise InputError(f"cannot connect: {_short(error)}; give kubeconfig, or host and api_key") from None
    live = Live(
        client=client,
        name=str(client.configuration.host),
        page_size=params["page_size"],
        timeout=params["request_timeout"],
        resource_version=params["resource_version"],
    )
    _identify(live, params["cluster_uid"])
    return live


def reach(params: Params, url: str, ca_cert: str | None, validate_certs: bool) -> Live:
    """A connection to another part of the cluster than its API server, with the same credentials.

    Raises:
        InputError: Options and environment name different credentials, or they cannot be read.
    """
    if MISSING:
        raise InputError(f"asking {url} needs {MISSING}; install it")
    if conflict := contradiction(params, os.environ):
        raise InputError(conflict)
    # Its certificate is seldom of the cluster's authority.
    given = {**params, "host": url, "validate_certs": validate_certs, "ca_cert": ca_cert or params.get("ca_cert")}
    try:
        client = _client(given)
    except Exception as error:  # As in connect().
        raise InputError(f"cannot connect: {_short(error)}; give api_key or kubeconfig", source=url) from None
    return Live(client=client, name=url, page_size=1, timeout=params["request_timeout"], resource_version=None)


def _client(params: Params) -> Any:
    """The client that kubernetes.core makes of its options, but for two things.

    It asks for what it is told to and discovers nothing first, which would have no timeout. And it tries once: how often
    and how long to wait is decided in one place, which is :meth:`Live._get`.
    """
    given = {name: params.get(name) for name in AUTH_ARG_SPEC}
    Configuration.set_default(None)  # A kubeconfig that was loaded before in this process would shine through.
    configuration = _create_configuration(_create_auth_spec(**given))
    configuration.retries = False
    client = ApiClient(configuration)
    for name, value in _create_headers(**given).items():
        _set_header(client, name, value)
    return DynamicClient(client, discoverer=lambda *_: None)


def _identify(live: Live, declared: str | None) -> None:
    path = "/api/v1/namespaces/kube-system"
    try:
        found = live._get(path)
    except _ExpiredError:
        raise InputError(f"GET {path} answers that it expired (410); {_SERVER}", source=live.name) from None
    except ApiException as error:
        if error.status != 403:
            raise live._failure(error, path) from None
        if declared:
            raise InputError(
                "may not get namespaces, so it cannot be told whether this is the cluster meant; grant this right",
                source=live.name,
            ) from None
        return
    meta = found.get("metadata")
    if found.get("kind") != "Namespace" or not isinstance(meta, dict) or not isinstance(meta.get("uid"), str):
        raise live._strange(path, found, "a Namespace")
    live.uid = meta["uid"]
    if declared and live.uid != declared:
        raise InputError(f"is the cluster {live.uid}, not {declared} as cluster_uid says", source=live.name)


def contradiction(params: Params, environ: Mapping[str, str]) -> str | None:
    """Why options and environment may mean different clusters, if they may.

    kubernetes.core fills what is not given from the environment, one by one, takes a host with credentials before any
    kubeconfig, and puts a host or credentials over what a kubeconfig says: the kubeconfig would be ignored, or a token
    be sent to a host that it is not for.
    """

    def from_environment(*names: str) -> list[str]:
        spelt = [f"K8S_AUTH_{spelling}" for name in names if params.get(name) is None for spelling in _spellings(name)]
        return [name for name in spelt if environ.get(name)]

    credentials = ("api_key", "username", "password", "client_cert")
    chosen = [name for name in ("kubeconfig", "context") if params.get(name)]
    if chosen and (others := from_environment("host", *credentials)):
        return f"{chosen[0]} is given, yet {others[0]} of the environment would be taken before what it says; unset {others[0]}"
    if not chosen and (host := from_environment("host")) and (others := from_environment("kubeconfig", "context")):
        return f"the environment has both {host[0]} and {others[0]}; unset one of them"
    bare = params.get("host") and not any(params.get(name) for name in credentials)
    if bare and not chosen and (others := from_environment(*credentials, "kubeconfig", "context")):
        return f"host is given, and what {others[0]} of the environment holds would be sent to it; give api_key beside host"
    return None


def _spellings(name: str) -> tuple[str, ...]:
    return ("CLIENT_CERT", "CERT_FILE") if name == "client_cert" else (name.upper(),)


def _short(error: BaseException) -> str:
    """The bottom of a chain of causes: what went wrong first."""
    while inner := error.__cause__ or next((part for part in error.args if isinstance(part, BaseException)), None):
        error = inner
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def _message(error: Any) -> str:
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return (str(error.reason).splitlines() or ["no reason given"])[-1]
