"""The application of a model, for a server of one's own, a larger application, or a test."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from robirank.errors import ArgumentError
from robirank.serve.feedback import Feedback
from robirank.serve.feedback_log import Fsync
from robirank.serve.keys import Keys
from robirank.serve.messages import RuleSet
from robirank.serve.server import Server
from robirank.serve.settings import Limits
from robirank.serve.sources import Sources


def app(
    model: Any,
    *,
    train: Any = None,
    train_columns: Mapping[str, Any] | None = None,
    items: Any = None,
    item_id: str = "id",
    names: Any = None,
    name_columns: str | None = None,
    rules: RuleSet | Mapping[str, Any] | None = None,
    feedback: str | os.PathLike[str] | None = None,
    fsync: Fsync = "second",
    keys: Keys | Iterable[str] = (),
    origins: Sequence[str] = (),
    limits: Limits | None = None,
    map: Any = None,
    compare: Any = None,
    reload_seconds: float = 2.0,
    num_threads: int | None = None,
    mapped: bool = False,
    log_requests: bool = True,
    log_personal: bool = False,
) -> Server:
    """An ASGI application that answers from a model, as ``robirank serve`` runs it.

    Parameters
    ----------
    model : path or estimator
        A file of `save_model`, or a fitted latent model or ranker. Files, here and below, are
        loaded anew when they change.
    train : path or Interactions, optional
        What users have: hidden from their lists, folded in with what they take, and told as
        reasons.
    train_columns : dict, optional
        Arguments of `load_interactions` for a file.
    items : path, DataFrame or dict of arrays, optional
        The table of items, for rules and attributes.
    item_id : str, default="id"
        Its column of ids.
    names : path or dict from id to str, optional
        Names of items, which searches find and answers give.
    name_columns : str, optional
        Columns of a file that make up a name, such as "1,2".
    rules : RuleSet or dict, optional
        Rules that hold for every request, such as ``{"where": "stock > 0"}``.
    feedback : path, optional
        A folder for the log of feedback; in memory alone by default.
    fsync : {"always", "second", "never"}, default="second"
        When a line of the log is forced to disk: before the answer, within a second, or by the
        system.
    keys : Keys or iterable of str
        API keys; without any, everyone may ask.
    origins : sequence of str
        Origins of pages that browsers let ask (CORS); none by default.
    limits : Limits, optional
    map : path, optional
        The map of the items that the page shows, as `robirank latent map` writes it; two
        directions of the factors by default.
    compare : path or estimator, optional
        A second model of the same users and items, which the page shows beside the first.
    reload_seconds : float, default=2.0
        Between two looks at the files; 0 for never.
    num_threads : int, optional
        Threads of a native call; every core by default.
    mapped : bool, default=False
        Map the file of the model, so that processes share its memory; see `load_model`. Nobody may
        write to it then.
    log_requests : bool, default=True
        Log a line for each request with the logger ``robirank.serve``.
    log_personal : bool, default=False
        Let the log say what a request asked for where the server fails.

    Returns
    -------
    Server
        An ASGI application.

    Examples
    --------
    >>> from robirank.serve import Client
    >>> from robirank import Interactions, LatentRoBiRank
    >>> plays = Interactions.from_arrays(["ann", "ann", "bob"], ["tea", "rum", "tea"])
    >>> model = LatentRoBiRank(factors=2, random_state=0).fit(plays, show_progress=False)
    >>> with Client(app(model, train=plays)) as client:
    ...     answer = client.post("/v1/recommend", {"user": "bob", "n": 1}).json()
    >>> [item["item"] for item in answer["items"]], answer["basis"]
    (['rum'], 'row')
    """
    if isinstance(rules, Mapping):
        try:
            rules = msgspec.convert(dict(rules), RuleSet)
        except msgspec.ValidationError as error:
            raise ArgumentError("rules", f"must be a RuleSet: {error}") from None
    sources = Sources(
        model,
        train,
        dict(train_columns or {}),
        items,
        item_id,
        names,
        name_columns,
        rules,
        num_threads,
        mapped,
        map=map,
        compare=compare,
    )
    limits = limits or Limits()
    folder = None if feedback is None else Path(feedback)
    return Server(
        sources,
        feedback=Feedback(folder, most=limits.feedback, fsync=fsync),
        keys=keys if isinstance(keys, Keys) else Keys.of(keys),
        limits=limits,
        origins=origins,
        reload_seconds=reload_seconds,
        log_requests=log_requests,
        log_personal=log_personal,
    )
