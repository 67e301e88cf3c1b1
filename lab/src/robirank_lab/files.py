"""Files that appear under their names only once they are complete."""

from __future__ import annotations

from pathlib import Path


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file whole or not at all: what stands at the path stays until all is written."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}")
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
