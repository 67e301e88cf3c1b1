"""Text that all experiments write: lists of names, numbers, tables in Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any


def abbreviate(names: Sequence[str], most: int = 6) -> str:
    """List names, the first few of them where there are many.

    Examples
    --------
    >>> abbreviate(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def setting_text(params: Mapping[str, Any], equals: str = "=") -> str:
    """A setting as people write it.

    Examples
    --------
    >>> setting_text({"alpha": 1e-4, "rho": "log"})
    'alpha=0.0001, rho=log'
    """
    return ", ".join(
        f"{name}{equals}{value:g}" if isinstance(value, float) else f"{name}{equals}{value}"
        for name, value in params.items()
    )


def markdown_text(text: str) -> str:
    r"""A text from outside, such as a path, for one line of Markdown that shows just that text.

    Examples
    --------
    >>> markdown_text("<b>max_iter</b> | *5*")
    '&lt;b>max_iter&lt;/b> \\| \\*5\\*'
    """
    line = " ".join(text.split())
    line = line.replace("&", "&amp;").replace("<", "&lt;")
    # An underscore within a word emphasises nothing.
    return re.sub(r"[\\`*\[\]|~#]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", line)


def markdown_table(heads: Sequence[Any], rows: Sequence[Sequence[Any]]) -> list[str]:
    """A table as the lines of a Markdown file; cells are Markdown.

    Examples
    --------
    >>> markdown_table(["method", "MAP"], [["RoBiRank", 0.5]])
    ['| method | MAP |', '|---|---|', '| RoBiRank | 0.5 |']
    """
    return [
        f"| {' | '.join(map(str, heads))} |",
        "|" + "---|" * len(heads),
        *(f"| {' | '.join(map(str, row))} |" for row in rows),
    ]
