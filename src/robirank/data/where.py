"""Conditions over a table, typed as text: ``stock > 0 and not (brand = Acme or price < 5)``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from robirank.errors import ArgumentError

if TYPE_CHECKING:
    import polars as pl

_TOKEN = re.compile(
    r"""\s*(?:(?P<sign><=|>=|!=|==|[=<>(),])|"(?P<double>[^"]*)"|'(?P<single>[^']*)'"""
    r"""|(?P<word>[^\s<>=!(),"']+))"""
)
_DEEPEST, _LONGEST = 50, 200  # parentheses in parentheses, and comparisons, of a condition
_COMPARE = {
    "=": "eq",
    "==": "eq",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
}


def condition(text: str, types: Mapping[str, pl.DataType]) -> pl.Expr:
    """Read a condition; nothing of the text is run.

    A comparison is a column, one of ``= != < <= > >=`` and a value, or ``in`` and values in
    parentheses. Comparisons are joined by ``and``, ``or``, ``not`` and parentheses; names and
    values that have spaces or signs stand in quotes.

    Parameters
    ----------
    text : str
    types : dict from str to type of polars
        The columns of the table.

    Examples
    --------
    >>> import polars as pl
    >>> shop = pl.DataFrame({"stock": [3, 0, 9], "brand": ["Acme", "Acme", "El Sol"]})
    >>> shop.filter(condition("stock > 0 and not brand in (Acme, Brix)", shop.schema)).rows()
    [(9, 'El Sol')]
    """
    return _Reader(text, types).whole()


class _Reader:
    """Reads a condition from the first token to the last."""

    def __init__(self, text: str, types: Mapping[str, pl.DataType]) -> None:
        self._text, self._types = text, types
        self._tokens, self._next = self._split(), 0
        self._depth, self._length = 0, 0

    def whole(self) -> pl.Expr:
        expression = self._either()
        if self._next < len(self._tokens):
            raise self._error("'and', 'or' or the end")
        return expression

    def _split(self) -> list[tuple[str, str]]:
        """Kinds and texts: a sign, a word, or something in quotes."""
        tokens, at, text = [], 0, self._text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ArgumentError(
                    "where", f"{self._text!r} cannot be read from {text[at:].strip()!r} on"
                )
            kind = str(match.lastgroup)
            tokens.append((kind if kind in ("sign", "word") else "quoted", match[kind]))
            at = match.end()
        return tokens

    def _either(self) -> pl.Expr:
        expression = self._both()
        while self._take("word", "or"):
            expression = expression | self._both()
        return expression

    def _both(self) -> pl.Expr:
        expression = self._one()
        while self._take("word", "and"):
            expression = expression & self._one()
        return expression

    def _one(self) -> pl.Expr:
        self._check_size()
        if self._take("word", "not"):
            expression = ~self._one()
        elif not self._take("sign", "("):
            expression = self._comparison()
        else:
            expression = self._either()
            self._expect(")")
        self._depth -= 1
        return expression

    def _check_size(self) -> None:
        """Raise an error where a condition is larger than polars should be given."""
        self._depth, self._length = self._depth + 1, self._length + 1
        if self._depth > _DEEPEST or self._length > _LONGEST:
            raise ArgumentError(
                "where",
                f"must have at most {_LONGEST} comparisons, {_DEEPEST} parentheses deep; got "
                f"{self._text!r:.80}",
            )

    def _comparison(self) -> pl.Expr:
        import polars as pl

        name = self._name("a column")
        if name not in self._types:
            raise ArgumentError(
                "where",
                f"{self._text!r}: there is no column {name!r} in the table of items; it has "
                f"{[*self._types]}",
            )
        if self._take("word", "in"):
            return pl.col(name).is_in(self._values(name))
        sign = self._peek()[1]
        if self._peek()[0] != "sign" or sign not in _COMPARE:
            raise self._error("one of = != < <= > >= in")
        self._next += 1
        return getattr(pl.col(name), _COMPARE[sign])(self._value(name))

    def _values(self, name: str) -> list[Any]:
        self._expect("(")
        values = [self._value(name)]
        while self._take("sign", ","):
            values.append(self._value(name))
        self._expect(")")
        return values

    def _value(self, name: str) -> Any:
        """A value of the type of a column."""
        import polars as pl

        kind: Any = self._types[name]
        text = self._name("a value")
        if kind == pl.Boolean and text.lower() in ("true", "false"):
            return text.lower() == "true"
        typed = pl.Series([text])
        try:
            if kind.is_temporal():
                return typed.str.strptime(kind)[0]
            return typed.cast(pl.Float64 if kind.is_numeric() else kind)[0]
        except pl.exceptions.PolarsError:
            raise ArgumentError(
                "where",
                f"{self._text!r}: {text!r} is no value of column {name!r}, which holds {kind}",
            ) from None

    def _name(self, what: str) -> str:
        kind, text = self._peek()
        if kind not in ("word", "quoted"):
            raise self._error(what)
        self._next += 1
        return text

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._next] if self._next < len(self._tokens) else ("end", "")

    def _take(self, kind: str, text: str) -> bool:
        found = self._peek()
        is_it = found == (kind, text) or (kind == "word" and found == (kind, text.upper()))
        self._next += is_it
        return is_it

    def _expect(self, sign: str) -> None:
        if not self._take("sign", sign):
            raise self._error(repr(sign))

    def _error(self, expected: str) -> ArgumentError:
        kind, text = self._peek()
        found = "at the end" if kind == "end" else f"in place of {text!r}"
        return ArgumentError("where", f"{self._text!r}: {expected} must stand {found}")
