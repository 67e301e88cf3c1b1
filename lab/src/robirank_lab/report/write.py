"""The report of a run: one HTML page that needs nothing but a browser."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from importlib import resources
from pathlib import Path
from typing import Any

from robirank_lab.files import write_whole
from robirank_lab.report.data import report_data
from robirank_lab.run_dir import RunDirectory

# The scripts of the page in the order in which they stand in it; sections register themselves.
_SCRIPTS = (
    *("data.js", "dom.js", "format.js", "charts.js", "lines.js"),
    *("curves.js", "table.js", "queries.js", "settings.js", "times.js"),
    *("learning.js", "reached.js", "scaling.js", "noise.js", "page.js"),
)


def write_report(
    run_dir: str | os.PathLike[str], output: str | os.PathLike[str] | None = None
) -> Path:
    """Write the report of a run: one HTML file that opens from disk and loads nothing else.

    Parameters
    ----------
    run_dir : str or path-like
        The folder of the run, finished or not; see :mod:`robirank_lab.run_dir`.
    output : str or path-like, optional
        Where the page goes, whole or not at all; ``report.html`` in the folder of the run by
        default.
    """
    run = RunDirectory.open(run_dir)
    page = render(report_data(run))
    target = run.path / "report.html" if output is None else Path(output)
    write_whole(target, page)
    return target


def render(data: dict[str, Any]) -> str:
    """Fill the page with the data of a run."""
    css = _resource("page.css")
    # One strict function around all scripts, so that nothing of theirs is global.
    script = f'"use strict";\n(() => {{\n{"".join(map(_resource, _SCRIPTS))}}})();\n'
    parts = {
        "policy": _policy(css, script),
        "title": html.escape(f"{data['title']} – ranking report"),
        "css": css,
        "data": _json_for_html(data),
        "script": script,
    }
    # In one pass, so that what is filled in is never read as a place to fill.
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _resource("page.html"))
    return page.encode("utf-8", "replace").decode()


def _json_for_html(value: Any) -> str:
    """Write JSON that may stand inside a script element: no character of it can end that."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(css: str, script: str) -> str:
    """Forbid the page everything but its own style and script, the network above all."""
    return (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(css)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _resource(name: str) -> str:
    folder = resources.files("robirank_lab.report") / "page"
    text = (folder / name).read_text("utf-8")
    return "".join(line + "\n" for line in text.splitlines())
