"""Manifests: JSON files that list the other files of a folder with sizes and checksums.

A manifest is written last, so a folder with a valid manifest is complete. The fields are declared
by a subclass of `Manifest`, and their types are checked when it is read.
"""

from __future__ import annotations

import zlib
from typing import Annotated, TypeVar

import msgspec
from msgspec import structs

from robirank.storage.folder import Folder

_MOST_BYTES = 1 << 28

#: A non-negative integer that fits into int64.
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]

M = TypeVar("M", bound="Manifest")
S = TypeVar("S", bound=msgspec.Struct)

MANIFEST = "manifest.json"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of manifests.

    The defaults of ``format`` and ``format_version`` in a subclass are the format and the version
    that are written and read. ``crc32`` is the checksum of all other fields.
    """

    format: str
    format_version: int
    crc32: int = 0


def write_manifest(folder: Folder, name: str, manifest: M) -> M:
    """Write a manifest and return it with its checksum."""
    manifest = structs.replace(manifest, crc32=_checksum(manifest))
    folder.write_bytes(name, msgspec.json.format(msgspec.json.encode(manifest), indent=1))
    return manifest


def read_manifest(folder: Folder, name: str, kind: type[M]) -> M:
    """Read a manifest; the folder's class of errors is raised if it is not valid."""
    path, stamp = folder.path(name), decode_manifest(folder, name, Manifest)
    expected = {field.name: field.default for field in structs.fields(kind)}
    if stamp.format != expected["format"]:
        raise folder.error(f"{path} does not describe {expected['format']}")
    if stamp.format_version != expected["format_version"]:
        raise folder.error(
            f"{path} has format version {stamp.format_version}; this robirank reads version "
            f"{expected['format_version']}. Write it anew, or use the robirank that wrote it"
        )
    manifest = decode_manifest(folder, name, kind)
    if manifest.crc32 != _checksum(manifest):
        raise folder.error(f"{path} is damaged: its checksum is wrong")
    return manifest


def format_of(folder: Folder, name: str) -> str | None:
    """The format of a manifest, even if it is damaged otherwise; None if it is no manifest."""
    try:
        return decode_manifest(folder, name, Manifest).format
    except folder.error:
        return None


def decode_manifest(folder: Folder, name: str, kind: type[S]) -> S:
    """Read the fields of a manifest that a msgspec struct declares; ignore the others."""
    size = folder.size(name)
    if size is not None and size > _MOST_BYTES:
        raise folder.error(f"{folder.path(name)} is too large to be a manifest: {size} bytes")
    with folder.open(name) as file:
        content = file.read(_MOST_BYTES + 1)
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise folder.error(f"{folder.path(name)} is damaged: {error}") from None


def _checksum(manifest: Manifest) -> int:
    """The checksum of all fields except ``crc32``."""
    return zlib.crc32(msgspec.json.encode(structs.replace(manifest, crc32=0)))
