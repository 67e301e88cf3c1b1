"""Manifests: JSON files that make the other files of a folder one thing.

A manifest is described by a `Manifest` class, written last, and checked field by field when it is
read: a folder that has a valid one is whole, whoever wrote it.
"""

from __future__ import annotations

import zlib
from typing import Annotated, TypeVar

import msgspec
from msgspec import structs

from robirank.storage.folder import Folder

_MOST_BYTES = 1 << 28

#: A number of things: what an int64 can hold.
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]

M = TypeVar("M", bound="Manifest")
S = TypeVar("S", bound=msgspec.Struct)

MANIFEST = "manifest.json"  # what makes a folder of files one thing


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the manifests.

    The defaults of ``format`` and ``format_version`` in a subclass say what its folder is, and
    which version is written and read. ``crc32`` is the checksum of all other fields.
    """

    format: str
    format_version: int
    crc32: int = 0


class _Stamp(msgspec.Struct):
    format: str
    format_version: int


def write_manifest(folder: Folder, name: str, manifest: M) -> M:
    """Write a manifest, and from now on the folder counts; returns it with its checksum."""
    manifest = structs.replace(manifest, crc32=_checksum(manifest))
    folder.write_bytes(name, msgspec.json.format(msgspec.json.encode(manifest), indent=1))
    return manifest


def read_manifest(folder: Folder, name: str, kind: type[M]) -> M:
    """Read a manifest; anything wrong with it is an error of the folder's class."""
    path, stamp = folder.path(name), decode_manifest(folder, name, _Stamp)
    wanted = {field.name: field.default for field in structs.fields(kind)}
    if stamp.format != wanted["format"]:
        raise folder.error(f"{path} does not describe {wanted['format']}")
    if stamp.format_version != wanted["format_version"]:
        raise folder.error(
            f"{path} has format version {stamp.format_version}; this robirank reads version "
            f"{wanted['format_version']}. Write it anew, or use the robirank that wrote it"
        )
    manifest = decode_manifest(folder, name, kind)
    if manifest.crc32 != _checksum(manifest):
        raise folder.error(f"{path} is damaged: its checksum is wrong")
    return manifest


def format_of(folder: Folder, name: str) -> str | None:
    """What a manifest says that it describes, even if it is damaged; None where it is none."""
    try:
        return decode_manifest(folder, name, _Stamp).format
    except folder.error:
        return None


def decode_manifest(folder: Folder, name: str, kind: type[S]) -> S:
    """The fields of a manifest that a structure names; others are passed over."""
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
    """Of everything but the checksum itself."""
    return zlib.crc32(msgspec.json.encode(structs.replace(manifest, crc32=0)))
