# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What becomes of names: they stay, or every one gets a token of its own."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable

from ..cluster.pools import PRODUCT_LABELS
from ..errors import InputError

# Domains whose label keys, taint keys and API groups are public knowledge.
_KNOWN_DOMAIN = re.compile(
    r"([a-z0-9-]+\.)*(kubernetes\.io|k8s\.io|x-k8s\.io|gpuops\.io|nvidia\.com|amd\.com|intel\.com|habana\.ai"
    r"|karpenter\.sh|k8s\.aws|amazonaws\.com|cloud\.google\.com|azure\.com"
    r"|volcano\.sh|kubeflow\.org|ray\.io|kserve\.io|argoproj\.io|openshift\.io)"
)
# Under these two, operators choose the part after the slash themselves.
_CHOSEN_DOMAINS = ("node-role.kubernetes.io", "node-restriction.kubernetes.io")
_KNOWN_KEYS = frozenset(("pod-template-hash", "controller-revision-hash", "controller-uid", "job-name"))

# Labels whose values describe a GPU, not its owner.
_GPU_LABEL = re.compile(
    "|".join(map(re.escape, PRODUCT_LABELS)) + r"|kubernetes\.azure\.com/accelerator"
    r"|nvidia\.com/(gpu\.(count|memory|family|mode|replicas|sharing-strategy|compute\.(major|minor)|present)"
    r"|mig\.(strategy|capable)|mig-.+|mps\.capable|vgpu\.present|cuda\..+)"
    r"|(beta\.)?amd\.com/gpu\.(vram|family|cu-count|simd-count|device-id)(\..+)?"
    r"|gpu\.nvidia\.com/(class|model|count|vram)"
    r"|cloud\.google\.com/gke-(accelerator-count|gpu-partition-size|gpu-sharing-strategy|max-shared-clients-per-gpu)"
    r"|karpenter\.k8s\.aws/instance-gpu-(manufacturer|count|memory)"
)
# A volume that several zones reach carries them in one label, joined by "__".
_ZONE_LABEL = re.compile(r"(topology|failure-domain\.beta)\.kubernetes\.io/(zone|region)")

# Texts that stay wherever they stand: they are the same in every cluster.
_WORDS = frozenset(
    (
        *("", "true", "false", "present", "spot", "on-demand", "file", "http", "api", "0.0.0.0", "127.0.0.1", "::"),
        *("amd64", "arm64", "ppc64le", "s390x", "linux", "windows", "control-plane", "master", "worker"),
        *("default", "kube-system", "kube-public", "kube-node-lease", "default-scheduler"),
        *("system-cluster-critical", "system-node-critical"),
    )
)
_NUMBER = re.compile(r"[+-]?[0-9]+")
_PUBLIC_VALUE = re.compile(r"(?i:true|false)|[+-]?[0-9]{1,18}(\.[0-9]{1,9})?|([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|ms|s|m|h|d))+")
_CAMEL_CASE = re.compile(r"[A-Z][A-Za-z0-9]{1,63}")


class Names:
    """What becomes of each kind of text. Here: nothing."""

    def name(self, text: str) -> str:
        """A name or uid of an object, container, volume, scheduler, …"""
        return text

    def key(self, text: str) -> str:
        """The key of a label, taint or annotation, or another text that begins with a domain."""
        return text

    def value(self, key: str, text: str) -> str:
        """The value that goes with the key of a label or taint."""
        return text

    def annotation(self, text: str) -> str:
        """The value of a known annotation."""
        return text

    def word(self, text: str) -> str:
        """A reason or a condition's type: a word in CamelCase, as the API has it."""
        return text


class Hasher(Names):
    """Puts a token for every text that could tell something, the same token for the same text everywhere.

    A token is a keyed hash (HMAC-SHA256), a valid name for any object: whoever lacks the key cannot try names out.

    Args:
        key: The secret.
        compared: Label and taint keys that some pod compares by Gt or Lt; numbers under them stay.
    """

    def __init__(self, key: str, compared: Iterable[str] = ()) -> None:
        if not key:
            raise InputError("is empty; give a long random text and keep it secret", field="hash_key")
        self._secret = key.encode()
        self._compared = frozenset(compared)
        self._tokens: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def name(self, text: str) -> str:
        if text in _WORDS:
            return text
        token = self._tokens.get(text)
        if token is None:
            token = "h-" + hmac.digest(self._secret, text.encode(), "sha256").hex()[:12]
            if self._texts.setdefault(token, text) != text:
                raise InputError("two names get one token under this hash_key; choose another one")
            self._tokens[text] = token
        return token

    def join(self, text: str, parts: tuple[str, ...]) -> None:
        """From now on the text, which Kubernetes made of the parts, is their tokens joined by a dash."""
        self._tokens[text] = "-".join(map(self.name, parts))

    def key(self, text: str) -> str:
        domain, slash, rest = text.partition("/")
        if domain in _CHOSEN_DOMAINS:
            return domain + slash + self.name(rest)
        return text if text in _KNOWN_KEYS or _KNOWN_DOMAIN.fullmatch(domain) else self.name(text)

    def value(self, key: str, text: str) -> str:
        if _GPU_LABEL.fullmatch(key) or (key in self._compared and _NUMBER.fullmatch(text)):
            return text
        if _ZONE_LABEL.fullmatch(key):
            return "__".join(map(self.name, text.split("__")))
        return self.name(text)

    def annotation(self, text: str) -> str:
        return text if _PUBLIC_VALUE.fullmatch(text) else self.name(text)

    def word(self, text: str) -> str:
        return text if _CAMEL_CASE.fullmatch(text) else self.name(text)
