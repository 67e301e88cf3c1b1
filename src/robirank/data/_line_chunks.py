"""Reading of text files, plain or gzip, in chunks of whole lines."""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO

from robirank.errors import RobirankError

_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_OTHER_PACKERS = {  # magic bytes; the fourth byte of bzip2 is the compression level
    "bzip2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
    "zip": re.compile(rb"PK\x03\x04"),
}
_HEAD_BYTES = 10  # length of the longest magic bytes
_SMALL = 1 << 20


class DamagedGzipError(RobirankError, ValueError):
    """The content of a gzip file is truncated or corrupted."""


class OtherPackingError(RobirankError, ValueError):
    """The file is compressed, but not by gzip."""


def line_chunks(file: IO[bytes], chunk_bytes: int) -> Iterator[bytes]:
    """Read a binary file, plain or gzip, as chunks of whole lines.

    A last line without a line end gets one; a byte order mark at the start is left out. A damaged
    gzip file is a `DamagedGzipError` after all whole lines before the damage, and a file of another
    packer an `OtherPackingError`.
    """
    mark = _BOM
    rest = b""  # the beginning of a line whose end has not been read yet
    for text in _texts(file, chunk_bytes):
        end = text.rfind(b"\n") + 1
        if end:
            yield b"".join((rest, memoryview(text)[:end])).removeprefix(mark)
            mark = b""
        rest = text[end:] if end else rest + text
    if rest:
        yield rest.removeprefix(mark) + b"\n"


def ahead(chunks: Iterator[bytes]) -> Generator[bytes]:
    """Read the next chunk in another thread while the current one is in use.

    A file whose first chunk is small is read without a thread, which would take longer to start.
    """
    first = next(chunks, b"")
    yield first
    if len(first) < _SMALL:
        yield from chunks
        return
    with ThreadPoolExecutor(1, thread_name_prefix="robirank-read") as pool:
        coming = pool.submit(next, chunks, None)
        while (chunk := coming.result()) is not None:
            coming = pool.submit(next, chunks, None)
            yield chunk


def _texts(file: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield the decompressed content of a file in pieces of about ``size`` bytes."""
    content = _read(file, max(size, _HEAD_BYTES))
    for packer, magic in _OTHER_PACKERS.items():
        if magic.match(content):
            raise OtherPackingError(
                f"the file is packed by {packer}; plain text and gzip (.gz) can be read, "
                "so unpack it, or pack it by gzip"
            )
    if content.startswith(_GZIP):
        yield from _inflated(file, content, size)
        return
    while content:
        yield content
        content = _read(file, size)


def _inflated(file: IO[bytes], packed: bytes, size: int) -> Iterator[bytes]:
    """Decompress a gzip file of one member or several; ``packed`` was read from it already."""
    inflate = zlib.decompressobj(wbits=31)
    while True:
        packed = packed or _read(file, size)
        has_ended = not packed
        if inflate.eof:
            packed = packed.lstrip(b"\0")  # padding between members is allowed
            if has_ended:
                return
            if not packed:
                continue
            if len(packed) < len(_GZIP):
                packed += _read(file, size)
            if not packed.startswith(_GZIP):
                raise DamagedGzipError("the gzip file goes on with something other than gzip")
            inflate = zlib.decompressobj(wbits=31)
        try:
            text = inflate.decompress(packed, size)
        except zlib.error as error:
            raise DamagedGzipError(f"the gzip file is corrupted ({error})") from None
        packed = inflate.unconsumed_tail or inflate.unused_data
        if text:
            yield text
        elif has_ended and not inflate.eof:
            raise DamagedGzipError("the gzip file is truncated")


def _read(file: IO[bytes], size: int) -> bytes:
    """Read ``size`` bytes; fewer only at the end of the file."""
    parts = []
    while size and (data := file.read(size)):
        if isinstance(data, str):
            raise TypeError("the file gives str; open it in binary mode, open(path, 'rb')")
        parts.append(data)
        size -= len(data)
    return parts[0] if len(parts) == 1 else b"".join(parts)
