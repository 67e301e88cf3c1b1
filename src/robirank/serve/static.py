"""The files of the page, read once: no path of a request reaches the file system."""

from __future__ import annotations

from importlib.resources import files

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".webmanifest": "application/manifest+json",
}


def page_files() -> dict[str, tuple[str, bytes]]:
    """The type and the content of each file of the page, by its path; ``index.html`` is ``/``."""
    found: dict[str, tuple[str, bytes]] = {}
    for file in files("robirank.serve").joinpath("page").iterdir():
        kind = next((kind for end, kind in _KINDS.items() if file.name.endswith(end)), None)
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            found[path] = kind, file.read_bytes()
    return found
