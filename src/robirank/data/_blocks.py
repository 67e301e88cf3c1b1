"""Text files as blocks of whole lines, unpacked on the way where they are gzip."""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from mmap import mmap
from typing import IO, Any

_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_OTHER_PACKERS = {  # what their files begin with; bzip2 has its level as fourth byte
    "bzip2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
    "zip": re.compile(rb"PK\x03\x04"),
}
_HEAD_BYTES = 10  # the longest of them
_PACKED_BYTES = 1 << 18


class DamagedGzipError(Exception):
    """A gzip stream that is cut off or corrupted."""


class OtherPackingError(ValueError):
    """A file that is packed, but not by gzip."""


def line_blocks(file: IO[bytes], block_bytes: int) -> Iterator[memoryview]:
    r"""Read a binary file, plain or gzip, as blocks of whole lines.

    A last line without a line end gets one; a byte order mark at the start is left out. A block is
    valid until the next but one is asked for: there are two buffers, so that one can be filled
    while the other is in use.

    Raises
    ------
    DamagedGzipError
        After the whole lines before the damage have been handed out.
    OtherPackingError
        For a file that bzip2, xz, zstd or zip has packed.

    Examples
    --------
    >>> import io
    >>> [bytes(block) for block in line_blocks(io.BytesIO(b"one\ntwo\nthree"), 9)]
    [b'one\ntwo\n', b'three\n']
    """
    blocks = _cut(_unpacked(_Plain(file)), block_bytes)
    for first in blocks:
        yield first[len(_BOM) :] if first[: len(_BOM)] == _BOM else first
        break
    yield from blocks


def ahead(blocks: Iterator[memoryview]) -> Generator[memoryview]:
    """Have the next block made by another thread while the current one is in use."""
    with ThreadPoolExecutor(1, thread_name_prefix="robirank-read") as pool:
        coming = pool.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = pool.submit(next, blocks, None)
            yield block


def _cut(source: _Plain | _Gunzip, block_bytes: int) -> Iterator[memoryview]:
    # Anonymous maps: a small file touches, and so takes, only the start of them.
    block, other = mmap(-1, block_bytes), mmap(-1, block_bytes)
    rest = b""  # the start of a line, at the end of the block before
    ended = False
    while not ended:
        if len(block) <= len(rest):  # a line that is longer than a block
            block = mmap(-1, 2 * len(rest))
        view = memoryview(block)
        view[: len(rest)] = rest
        size = len(rest) + source.fill(view[len(rest) :])
        ended = size < len(block)
        cut = block.rfind(b"\n", 0, size) + 1
        rest = bytes(view[cut:size])
        if cut:
            yield view[:cut]
            block, other = other, block
    if source.damage is not None:
        raise source.damage
    if rest:
        yield memoryview(rest + b"\n")


def _unpacked(plain: _Plain) -> _Plain | _Gunzip:
    head = plain.peek(_HEAD_BYTES)
    for packer, magic in _OTHER_PACKERS.items():
        if magic.match(head):
            raise OtherPackingError(
                f"the file is packed by {packer}; plain text and gzip (.gz) can be read, "
                "so unpack it, or pack it by gzip"
            )
    return _Gunzip(plain) if head.startswith(_GZIP) else plain


class _Plain:
    """Fills buffers from a file."""

    damage: DamagedGzipError | None = None

    def __init__(self, file: IO[bytes]) -> None:
        self._file: Any = file
        self._into = getattr(file, "readinto", None) or self._copy_into
        self._head = b""

    def peek(self, size: int) -> bytes:
        """The first bytes of the file, which `fill` will give again."""
        head = bytearray(size)
        self._head = bytes(head[: self.fill(memoryview(head))])
        return self._head

    def fill(self, room: memoryview) -> int:
        """Fill the room; less than all of it means that the file has ended."""
        size = min(len(self._head), len(room))
        room[:size] = self._head[:size]
        self._head = self._head[size:]
        while size < len(room) and (n := self._into(room[size:])):
            size += n
        return size

    def _copy_into(self, room: memoryview) -> int:
        data = self._file.read(len(room))
        if isinstance(data, str):
            raise TypeError("the file gives str; open it in binary mode, open(path, 'rb')")
        room[: len(data)] = data
        return len(data)


class _Gunzip:
    """Fills buffers with what a gzip file unpacks to; several members may follow one another."""

    def __init__(self, packed: _Plain) -> None:
        self.damage: DamagedGzipError | None = None
        self._packed = packed
        self._room = memoryview(bytearray(_PACKED_BYTES))
        self._input = b""
        self._inflate = zlib.decompressobj(wbits=31)

    def fill(self, room: memoryview) -> int:
        """Fill the room; less than all of it means the end, or damage."""
        size = 0
        while size < len(room) and self.damage is None:
            if self._inflate.eof and not self._next_member():
                break
            self._input = self._input or self._read()
            at_end = not self._input
            try:
                text = self._inflate.decompress(self._input, len(room) - size)
            except zlib.error as error:
                self.damage = DamagedGzipError(f"the gzip file is corrupted ({error})")
                break
            self._input = self._inflate.unconsumed_tail or self._inflate.unused_data
            room[size : size + len(text)] = text
            size += len(text)
            if at_end and not text and not self._inflate.eof:
                self.damage = DamagedGzipError("the gzip file is truncated")
        return size

    def _read(self) -> bytes:
        return bytes(self._room[: self._packed.fill(self._room)])

    def _next_member(self) -> bool:
        self._input = self._input.lstrip(b"\0")  # padding between members is allowed
        while len(self._input) < len(_GZIP) and (more := self._read()):
            self._input = (self._input + more).lstrip(b"\0")
        if not self._input:
            return False
        if not self._input.startswith(_GZIP):
            self.damage = DamagedGzipError("the gzip file goes on with something other than gzip")
            return False
        self._inflate = zlib.decompressobj(wbits=31)
        return True
