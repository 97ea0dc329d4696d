# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshot files: what ``kubectl get … -o json|yaml`` prints, read and written."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from ._core.errors import InputError

# More is no cluster's state: a gzip bomb, or the wrong file.
MOST_BYTES = 2 * 1024**3

_CHUNK = 1024**2
_GZIP = b"\x1f\x8b"
_SPACE = re.compile(r"\s*")
_AGAIN = "write the file again with kubectl get … -o json"


def read_objects(path: str) -> list[dict[str, Any]]:
    """The documents of a snapshot file, lists (List, NodeList, …) not yet taken apart.

    JSON or YAML, one document or several after one another, plain or gzip; what it is, the content tells.
    Times in YAML stay text, as in JSON.

    Raises:
        InputError: The file cannot be read, or is not what kubectl prints. It says where and what to do.
    """
    try:
        text = _text(path)
        start = _space_end(text, 0)
        read = _json_documents if text[start : start + 1] in ("{", "[") else _yaml_documents
        documents = [_checked(document) for document in read(text, start)]
        if not documents:
            raise InputError(f"is empty; {_AGAIN}")
        if "\\ud" in text or "\\uD" in text:
            _refuse_half_characters(documents)
    except InputError as error:
        raise error.within(source=path) from None
    except RecursionError:
        raise InputError(f"is nested too deeply to come from kubectl; {_AGAIN}", source=path) from None
    return documents


def _checked(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        # Which one is not told: a wrong path may be that of a token.
        found = "a list" if isinstance(document, list) else "a single value"
        raise InputError(f"holds {found} where an object belongs; {_AGAIN}")
    if not isinstance(document.get("kind"), str):
        raise InputError(f"holds an object without kind; {_AGAIN}")
    return document


def _refuse_half_characters(documents: list[dict[str, Any]]) -> None:
    """JSON can write half of a surrogate pair, which is no text: nobody could print it or send it on."""
    try:
        json.dumps(documents, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise InputError(f"holds {half}, half a character; {_AGAIN}") from None


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = _bounded(file)
    except FileNotFoundError:
        raise InputError("there is no such file; give src the path of a snapshot on this host") from None
    except IsADirectoryError:
        raise InputError("is a directory; give src one file") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from None
    if data.startswith(_GZIP):
        data = _unzipped(data)
    try:
        return str(data, "utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"is not UTF-8 text (byte {error.start + 1}); save it as UTF-8 JSON or YAML, plain or gzip") from None


def _unzipped(data: bytearray) -> bytearray:
    try:
        return _bounded(gzip.GzipFile(fileobj=io.BytesIO(data)))
    except EOFError:
        raise InputError("the gzip data ends too early: the file was cut short; copy or write it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"the gzip data is damaged ({error}); copy or write it again") from None


def _bounded(stream: io.BufferedIOBase) -> bytearray:
    data = bytearray()
    while chunk := stream.read(_CHUNK):
        data += chunk
        if len(data) > MOST_BYTES:
            raise InputError(f"holds more than {MOST_BYTES:,} bytes; no cluster's state is that large")
    return data


def _space_end(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _json_documents(text: str, start: int) -> Iterator[Any]:
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    try:
        while start < len(text):
            document, end = decoder.raw_decode(text, start)
            yield document
            start = _space_end(text, end)
    except json.JSONDecodeError as error:
        cut = " (the file ends there: was it cut short?)" if not text[error.pos :].strip() else ""
        raise InputError(f"is not JSON: line {error.lineno}, column {error.colno}: {error.msg}{cut}; {_AGAIN}") from None
    except ValueError as error:
        raise InputError(f"is not usable JSON: {error}; {_AGAIN}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number that JSON has")


def _yaml_documents(text: str, start: int) -> Iterator[Any]:
    if start == len(text):
        return
    try:
        import yaml
    except ImportError:
        raise InputError(
            "is not JSON; to read YAML, install the Python package PyYAML for the Python that Ansible runs there, or " + _AGAIN
        ) from None
    try:
        yield from _YamlReader(yaml, text).documents()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise InputError(f"is neither JSON nor YAML: {place}{problem}; {_AGAIN}") from None
    except ValueError as error:
        raise InputError(f"is not usable YAML: {error}; {_AGAIN}") from None


class _YamlReader:
    """YAML read as the JSON that it stands for, from the parser's events, with no tree in between.

    Keys and times are text, there are no other types than JSON's, and no aliases: a few lines of those can stand for
    more objects than any memory holds, and kubectl prints none.
    """

    def __init__(self, yaml: Any, text: str) -> None:
        self.yaml = yaml
        self.loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        make = yaml.constructor.SafeConstructor()
        self.plain = {
            "tag:yaml.org,2002:null": lambda node: None,
            "tag:yaml.org,2002:bool": make.construct_yaml_bool,
            "tag:yaml.org,2002:int": make.construct_yaml_int,
            "tag:yaml.org,2002:float": lambda node: float(node.value),
        }

    def documents(self) -> Iterator[Any]:
        """Every document but the empty ones."""
        events = self.yaml.events
        while not isinstance(event := self.loader.get_event(), events.StreamEndEvent):
            if isinstance(event, events.DocumentStartEvent):
                document = self.value(self.loader.get_event())
                if document is not None:
                    yield document

    def value(self, event: Any) -> Any:
        """The value that begins with this event."""
        events, following = self.yaml.events, self.loader.get_event
        if isinstance(event, events.ScalarEvent):
            return self.scalar(event)
        if isinstance(event, events.MappingStartEvent):
            mapping = {}
            while not isinstance(key := following(), events.MappingEndEvent):
                if not isinstance(key, events.ScalarEvent):
                    raise self.refused(key, "a key must be text")
                mapping[key.value] = self.value(following())
            return mapping
        if isinstance(event, events.SequenceStartEvent):
            items = []
            while not isinstance(item := following(), events.SequenceEndEvent):
                items.append(self.value(item))
            return items
        raise self.refused(event, "aliases (*name) are not read; write the value out")

    def scalar(self, event: Any) -> Any:
        """Text, unless it is plain (unquoted) and means null, a boolean or a number."""
        if event.tag is None and event.implicit[0]:
            node = self.yaml.nodes.ScalarNode
            tag = self.loader.resolve(node, event.value, event.implicit)
            if make := self.plain.get(tag):
                return make(node(tag, event.value))
        return event.value

    def refused(self, event: Any, problem: str) -> Exception:
        """The error that points at the event."""
        error: Exception = self.yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        return error


def snapshot_bytes(objects: Sequence[dict[str, Any]], *, compress: bool) -> bytes:
    """A snapshot file's content: one ``v1`` List, an object a line, so that diffs read well. Same objects, same bytes."""
    lines = ",\n".join(json.dumps(item, sort_keys=True, separators=(",", ":")) for item in objects)
    data = f'{{"apiVersion":"v1","kind":"List","items":[\n{lines}\n]}}\n'.encode()
    if not compress:
        return data
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as packed:
        packed.write(data)
    return buffer.getvalue()


def differs(path: str, data: bytes) -> bool:
    """Whether the file is missing or holds anything else.

    Raises:
        InputError: The path is a directory, its folder is missing, or it cannot be read.
    """
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise InputError("its folder does not exist; create it first", source=path)
    try:
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_size != len(data) or file.read() != data
    except FileNotFoundError:
        return True
    except IsADirectoryError:
        raise InputError("is a directory; give the path of a file", source=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=path) from None


def write_snapshot(path: str, data: bytes) -> bool:
    """Write a file whole or not at all, unless it holds the same bytes already.

    A new file is for its owner only (mode 0600); an old one keeps its mode, and a link stays a link.

    Returns:
        Whether it was written.

    Raises:
        InputError: It cannot be written.
    """
    if not differs(path, data):
        return False
    target = os.path.realpath(path)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(target), prefix=".snapshot-", delete=False) as file:
            temporary = file.name
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if os.path.exists(target):
                os.fchmod(file.fileno(), os.stat(target).st_mode & 0o7777)
        os.replace(temporary, target)
    except OSError as error:
        if temporary:
            os.unlink(temporary)
        raise InputError(f"cannot be written: {error.strerror}", source=path) from None
    return True
