"""API keys: kept as hashes, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

from robirank.errors import ArgumentError, TableError
from robirank.serve.problems import Problem

_HASH = re.compile(r"[0-9a-f]{64}")
_SHORTEST = 16


def new_key() -> str:
    """A key of 256 random bits."""
    return secrets.token_urlsafe(32)


def hash_of(key: str) -> str:
    """What a file of keys holds for a key: the SHA-256 of it, in hexadecimal digits.

    Keys are random and long, so that a fast hash is enough.

    Examples
    --------
    >>> hash_of("a key of sixteen letters or more")[:16]
    '3c3103fd5fd45a5a'
    """
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


class Keys:
    """The keys that clients may have; without any, everyone may ask.

    Parameters
    ----------
    hashes : iterable of str
        As `hash_of` makes them.
    """

    def __init__(self, hashes: Iterable[str] = ()) -> None:
        self._hashes = [one.encode() for one in hashes]
        for one in self._hashes:
            if not _HASH.fullmatch(one.decode()):
                raise ArgumentError(
                    "keys", "must be SHA-256 hashes of keys, 64 hexadecimal digits each"
                )

    @classmethod
    def of(cls, keys: Iterable[str]) -> Keys:
        """Keys as they are, which must be long."""
        keys = list(keys)
        if any(len(key) < _SHORTEST for key in keys):
            raise ArgumentError("keys", f"must have at least {_SHORTEST} letters each")
        return cls(hash_of(key) for key in keys)

    @classmethod
    def read(cls, path: Path) -> Keys:
        """The hashes of a file, one a line; what follows a # is a remark."""
        lines = [line.split("#")[0].strip() for line in path.read_text("utf-8").splitlines()]
        hashes = [line for line in lines if line]
        if not hashes or not all(_HASH.fullmatch(line) for line in hashes):
            raise TableError(
                f"{path} must hold hashes of keys, one a line; `robirank serve --new-key` makes one"
            )
        return cls(hashes)

    def __bool__(self) -> bool:
        return bool(self._hashes)

    def check(self, headers: dict[bytes, bytes]) -> None:
        """Raise a `Problem` unless a request has a key, where one is needed."""
        if not self._hashes:
            return
        given = headers.get(b"x-api-key")
        if given is None:
            scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
            given = token.strip() if scheme.lower() == b"bearer" else None
        if not given:
            raise Problem(
                "no_key", "send a key as `Authorization: Bearer KEY` or as `X-API-Key: KEY`"
            )
        digest = hashlib.sha256(given).hexdigest().encode()
        # Every key is compared, so that the time says nothing of which one is near.
        matches = [hmac.compare_digest(digest, one) for one in self._hashes]
        if not any(matches):
            raise Problem("wrong_key", "the key is not among those of this server")
