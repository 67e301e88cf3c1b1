"""``robirank serve``: a model behind HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import typer

from robirank.cli.console import print_text, tell
from robirank.cli.features import FeatureFile
from robirank.cli.interactions import COUNT, HEADER, ITEM, SEP, USER, Columns
from robirank.cli.options import QUIET, THREADS, argument, file, option
from robirank.cli.recommend import NAME_COLUMNS, NAMES
from robirank.cli.rules import (
    AT_LEAST,
    AT_MOST,
    ITEM_ID,
    ITEMS_TABLE,
    PIN,
    TIES,
    WHERE,
    limits_of,
    pins_of,
)

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def _limit(default: Any, help: str, name: str, **more: Any) -> Any:
    return option(default, help, name, rich_help_panel="Limits", **more)


def serve(
    model_path: Path | None = argument("MODEL", "A model file of any kind.", None),
    host: str = option("127.0.0.1", "The address to listen on; by default this machine alone."),
    port: int = option(8080, "0 for one that is free.", min=0, max=65535),
    workers: int = option(
        1, "Processes that answer; they share the memory of the model.", min=1, max=256
    ),
    train: Path | None = file("What users have: hidden, folded in, and told as reasons."),
    items_table: Path | None = ITEMS_TABLE,
    item_id: str | None = ITEM_ID,
    where: str | None = WHERE,
    at_most: list[str] | None = AT_MOST,
    at_least: list[str] | None = AT_LEAST,
    pin: list[str] | None = PIN,
    ties: str | None = TIES,
    names_file: Path | None = NAMES,
    name_columns: str | None = NAME_COLUMNS,
    map_file: Path | None = file("The map that the page shows, from `latent map`.", "--map"),
    compare: Path | None = file("A second model, which the page shows beside the first."),
    feedback: Path | None = option(
        None, "Keep a log of feedback here, for `latent update`.", metavar="FOLDER"
    ),
    fsync: Literal["always", "second", "never"] = option(
        "second", "When a line of the log is forced to disk."
    ),
    keys: Path | None = file("Hashes of the API keys that clients need, one a line."),
    new_key: bool = option(False, "Print a new key and its hash, and exit.", "--new-key"),
    origins: list[str] | None = option(
        None, "Pages from here may ask (CORS); may be repeated.", "--origin", metavar="URL"
    ),
    reload_seconds: float = option(
        2.0, "Between two looks for newer files; 0 for never. SIGHUP reloads too.", min=0
    ),
    body: int = _limit(1 << 20, "Bytes of a body.", "--most-bytes", min=1),
    waiting: int = _limit(512, "Requests that may wait; one more is 429.", "--most-waiting", min=1),
    length: int = _limit(1000, "Items of an answer.", "--most-items", min=1, max=1000),
    seconds: float = _limit(10.0, "That a request may take.", "--most-seconds", min=0.001),
    user: str | None = USER,
    item: str | None = ITEM,
    count: str | None = COUNT,
    sep: str | None = SEP,
    header: bool | None = HEADER,
    threads: int | None = THREADS,
    quiet: bool = QUIET,
) -> None:
    """Answer questions to a model over HTTP, with a page to look into it.

    Logs are JSON lines on standard error.
    """
    if new_key:
        _print_key()
        return
    if model_path is None:
        raise typer.BadParameter("give MODEL, a model file")
    _check_extra()
    from robirank.serve.application import app
    from robirank.serve.keys import Keys
    from robirank.serve.messages import RuleSet
    from robirank.serve.process import serve_here
    from robirank.serve.settings import Limits

    if item_id is not None and items_table is None:
        raise typer.BadParameter("--item-id needs --items-table")
    if host not in _LOOPBACK and keys is None:
        tell(
            f"robirank: warning: everyone who reaches {host} may ask; --keys says who may, and "
            "a proxy in front of it should speak TLS"
        )
    rules = RuleSet(
        where=where,
        at_most=limits_of("--at-most", at_most) or None,
        at_least=limits_of("--at-least", at_least) or None,
        pin={str(place): id for place, id in pins_of(pin).items()} or None,
        ties=ties,
    )
    options: dict[str, Any] = {
        "train": train,
        "train_columns": Columns(user, item, count, None, sep, header).options(),
        "items": items_table,
        "names": names_file,
        "name_columns": name_columns,
        "rules": None if rules == RuleSet() else rules,
        "map": map_file,
        "compare": compare,
        "feedback": feedback,
        "fsync": fsync,
        "keys": Keys() if keys is None else Keys.read(keys),
        "origins": origins or (),
        "limits": Limits(body=body, waiting=waiting, n=length, seconds=seconds),
        "reload_seconds": reload_seconds,
        "num_threads": threads,
        "log_requests": not quiet,
    }
    if items_table is not None:
        options["item_id"] = FeatureFile.open("item", items_table, item_id, "--items-table").id
    if workers > 1:
        from robirank.serve.workers import serve_with_workers

        options = {name: value for name, value in options.items() if value is not None}
        serve_with_workers(model_path, options, host, port, workers)
        return
    serve_here(lambda: app(model_path, **options), host, port)


def _print_key() -> None:
    from robirank.serve.keys import hash_of, new_key

    key = new_key()
    print_text(f"key   {key}\nhash  {hash_of(key)}\n")


def _check_extra() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ImportError(
            "robirank serve needs Starlette and uvicorn: pip install 'robirank[serve]'"
        ) from None
