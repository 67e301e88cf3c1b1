"""Rules of requests as `Rules`: made once for each kind of request, and kept for the next."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import msgspec

from robirank.data.where import condition
from robirank.errors import ArgumentError
from robirank.latent.factors.item_table import ItemTable
from robirank.latent.factors.rules import Rules
from robirank.serve.messages import RuleSet

_KEPT = 32  # different rules that are kept, of which each takes a few bytes an item
_NO_RULES = RuleSet()


class RuleBook:
    """The rules of the server, which always hold, joined with those of a request.

    Both are a `RuleSet`. Conditions of both must hold, the lower of two caps and the higher of two
    minimums count, and a place that the server pins stays pinned. The lists ``only`` and
    ``exclude`` of a request are not part of `Rules`: they are the candidates of one search.

    Examples
    --------
    >>> table = ItemTable({"id": ["tea", "rum"], "stock": [3, 0]}, "id")
    >>> book = RuleBook(table, RuleSet(where="stock > 0"))
    >>> book.rules(None), book.rules(RuleSet(at_most={"stock": 1})) is book.rules(None)
    (Rules(allow), False)
    """

    def __init__(self, table: ItemTable | None, standing: RuleSet | None = None) -> None:
        self._table, self._standing = table, standing or _NO_RULES
        self._made: OrderedDict[bytes, Rules | None] = OrderedDict()
        self._lock = threading.Lock()
        self.rules(None)  # an error in the rules of the server is told when it starts

    @property
    def standing(self) -> RuleSet:
        """The rules of the server."""
        return self._standing

    def rules(self, asked: RuleSet | None) -> Rules | None:
        """The rules of a request; the same object for the same rules. None where there is none."""
        key = b"" if asked is None else msgspec.json.encode(_without_lists(asked), order="sorted")
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
        rules = self._make(_NO_RULES if asked is None else asked)
        with self._lock:
            self._made[key] = rules
            while len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return rules

    def _make(self, asked: RuleSet) -> Rules | None:
        both = (self._standing, asked)
        allow = [self._condition(one.where) for one in both if one.where is not None]
        allow += [one.allow for one in both if one.allow]
        deny: list[Any] = [one.deny for one in both if one.deny]
        allow += [list(self._standing.only)] if self._standing.only is not None else []
        deny += [list(self._standing.exclude)] if self._standing.exclude else []
        at_most = _joined(self._standing.at_most, asked.at_most, min)
        at_least = _joined(self._standing.at_least, asked.at_least, max)
        pins = (asked.pin or {}) | (self._standing.pin or {})
        ties = asked.ties or self._standing.ties
        if not any((allow, deny, at_most, at_least, pins, ties)):
            return None
        return Rules(
            self._table,
            allow=_one_or_several(allow),
            deny=_one_or_several(deny),
            at_most=at_most or None,
            at_least=at_least or None,
            pin={int(place): id for place, id in pins.items()} or None,
            ties=ties,
        )

    def _condition(self, text: str) -> Any:
        if self._table is None:
            raise ArgumentError("where", "needs a table of items, which this server was not given")
        return condition(text, self._table.columns)


def _one_or_several(rules: list[Any]) -> Any:
    return (rules[0] if len(rules) == 1 else rules) if rules else None


def _without_lists(asked: RuleSet) -> RuleSet:
    return msgspec.structs.replace(asked, only=None, exclude=None)


def _joined(first: dict[str, int] | None, second: dict[str, int] | None, choose: Any) -> Any:
    """The numbers of two dicts; ``choose`` takes one of two for the same key."""
    joined = dict(first or {})
    for key, number in (second or {}).items():
        joined[key] = choose(joined[key], number) if key in joined else number
    return joined
