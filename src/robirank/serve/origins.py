"""Which pages of a browser may ask for changes.

A browser hides the answer from a page of another origin, but sends the request: any page could
write feedback to a server on the machine of the one who looks at it. What no browser sends has no
`Origin`, and is not concerned.
"""

from __future__ import annotations

from collections.abc import Sequence

from robirank.serve.problems import Problem

_OWN = (b"same-origin", b"none")


class Origins:
    """The origins of pages that may ask, beside the server's own.

    Examples
    --------
    >>> origins = Origins(["https://shop.example"])
    >>> origins.check({b"origin": b"https://shop.example"})
    >>> origins.check({b"origin": b"http://localhost:8080", b"host": b"localhost:8080"})
    >>> origins.check({b"origin": b"https://other.example", b"host": b"localhost:8080"})
    Traceback (most recent call last):
    robirank.serve.problems.Problem: pages of other origins may not ask; --origin names some
    """

    def __init__(self, origins: Sequence[str] = ()) -> None:
        self._allowed = {origin.encode() for origin in origins}

    def check(self, headers: dict[bytes, bytes]) -> None:
        """Raise a `Problem` for a request of a page that may not ask."""
        origin = headers.get(b"origin")
        if origin is None or origin in self._allowed or b"*" in self._allowed:
            return
        site = headers.get(b"sec-fetch-site")
        is_own = (
            origin.partition(b"://")[2] == headers.get(b"host") if site is None else site in _OWN
        )
        if not is_own:
            raise Problem("wrong_origin", "pages of other origins may not ask; --origin names some")
