"""How an entry lies in its file: what it is, its bytes, and a hash of these and its name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

Key = Sequence[str | bytes]

_MAGIC = b"fusegen cache 3\n"
"""Begins every file, and is part of every key: raise the number when files change."""
_DIGEST = hashlib.sha256
_SIZE = _DIGEST().digest_size
_NAME = re.compile(r"[0-9a-f]{64}\.[a-z0-9.]+")  # with the suffixes that earlier versions had


def name_of(key: Key) -> str:
    """Hash of the parts, each with its length, so that ("ab", "c") is not ("a", "bc")."""
    digest = _DIGEST(_MAGIC)
    for part in key:
        raw = part.encode() if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return f"{digest.hexdigest()}.entry"


def is_entry(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def packed(name: str, label: str, data: bytes) -> bytes:
    """The file of an entry of this name; `label` says in a line what it is."""
    body = label.replace("\n", " ").encode() + b"\n" + data
    return _MAGIC + _hash(name, body) + body


def unpacked(name: str, raw: bytes) -> tuple[str, bytes] | None:
    """(label, data) of a file; None if it is damaged, or was written under another name."""
    start = len(_MAGIC) + _SIZE
    body = raw[start:]
    if raw[: len(_MAGIC)] != _MAGIC or raw[len(_MAGIC) : start] != _hash(name, body):
        return None
    label, _, data = body.partition(b"\n")
    return label.decode(errors="replace"), data


def _hash(name: str, body: bytes) -> bytes:
    return _DIGEST(name.encode() + b"\n" + body).digest()
