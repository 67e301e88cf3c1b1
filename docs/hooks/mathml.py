"""Formulas as MathML, made when the site is built: no script, no network, readable aloud.

pymdownx.arithmatex marks formulas in pages and docstrings; this hook replaces them. Docstrings are
written for people who read them in a terminal, with the roles of reStructuredText; the Griffe
extension below turns those into Markdown first.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import griffe
from latex2mathml.converter import convert

_MARKED = re.compile(r'<(span|div) class="arithmatex">\\[\[(](.*?)\\[\])]</\1>', re.DOTALL)
_BLOCK = re.compile(r"^\.\. math::[ \t]*(.*(?:\n+[ \t]+.*)*)", re.MULTILINE)
_ROLE = re.compile(r":math:`([^`]+)`")
_CODE_ROLE = re.compile(r":(?:class|func|meth|attr):`([^`]+)`")


def on_page_content(html: str, **_: Any) -> str:
    """Replace every marked formula by MathML."""

    def mathml(match: re.Match[str]) -> str:
        block = match.group(1) == "div"
        formula = convert(unescape(match.group(2)).strip(), display="block" if block else "inline")
        # A formula that is wider than the page scrolls by itself.
        return f'<div class="formula" tabindex="0">{formula}</div>' if block else formula

    return _MARKED.sub(mathml, html)


def to_markdown(text: str) -> str:
    """Turn the math of a docstring into what arithmatex understands."""

    def block(match: re.Match[str]) -> str:
        lines = (line.strip() for line in match.group(1).splitlines())
        return "\n\n$$\n" + "\n".join(line for line in lines if line) + "\n$$\n"

    text = _BLOCK.sub(block, text)
    text = _ROLE.sub(lambda m: f"${m.group(1)}$", text)
    return _CODE_ROLE.sub(r"`\1`", text)


class MathDocstrings(griffe.Extension):
    """Rewrites the docstrings of everything that is documented."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)
