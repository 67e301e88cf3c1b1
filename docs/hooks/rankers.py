"""Lists the registered rankers where a page asks for them, so that a new one needs no edit here.

A line ``<!-- rankers, without A, B -->`` becomes one entry of mkdocstrings for each ranker of the
package but those that are named.
"""

from __future__ import annotations

import re
from typing import Any

from robirank.registry import rankers

_MARK = re.compile(r"^<!-- rankers(?:, without (.*?))? -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the rankers in the place of the mark."""

    def entries(match: re.Match[str]) -> str:
        left_out = re.split(r",\s*", match[1] or "")
        shown = [cls for name, cls in rankers().items() if name not in left_out]
        return "\n\n".join(f"::: robirank.{cls.__name__}" for cls in shown)

    return _MARK.sub(entries, markdown)
