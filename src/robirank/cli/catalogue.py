"""Commands that change a catalogue without a fit: ``robirank latent add-items | remove-items``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from robirank.cli.console import check_output, print_facts, step
from robirank.cli.features import ITEM_ID, read_for_model
from robirank.cli.interactions import load_factors, read_items
from robirank.cli.options import JSON, QUIET, argument, option
from robirank.cli.recommend import MODEL

_OUT = option(..., "Where to save the model; may be MODEL.", "--output", "-o", metavar="OUT")


def add_items(
    model_path: Path = MODEL,
    features_file: Path = argument(
        "FILE", "A row for each item, with the columns of the fit: CSV, TSV (.gz) or Parquet."
    ),
    output: Path = _OUT,
    item_id: str | None = ITEM_ID,
    as_json: bool = JSON,
    _quiet: bool = QUIET,
) -> None:
    """Add items by their features alone; items that the model has get these features."""
    from robirank.data.feature_rows import UnknownValueWarning

    check_output(output, features_file)
    model = load_factors(model_path)
    features, _, n_unknown = read_for_model(model, "item", features_file, item_id)
    if features.ids.kind == "str" and model.item_ids_ is not None:
        model.item_ids_ = model.item_ids_.as_text()
    n_before = len(model.item_factors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownValueWarning)  # they were counted above
        model.add_items(features)
    n_new = len(model.item_factors) - n_before
    facts = {"new_items": n_new, "known_items": len(features) - n_new, "unknown_values": n_unknown}
    _save(model, model_path, output, facts, as_json)


def remove_items(
    model_path: Path = MODEL,
    items: Path = option(..., "Ids, one a line.", metavar="FILE"),
    output: Path = _OUT,
    as_json: bool = JSON,
    _quiet: bool = QUIET,
) -> None:
    """Take items out of a model; `recommend --exclude` leaves them out of one answer alone."""
    import numpy as np

    check_output(output, items)
    model = load_factors(model_path)
    positions, n_unknown = read_items(items, model.by_id._names().items.ids)
    positions = np.unique(positions)
    model.remove_items(positions)
    facts = {"removed_items": len(positions), "unknown_items": n_unknown}
    _save(model, model_path, output, facts, as_json)


def _save(model: Any, model_path: Path, output: Path, facts: dict[str, int], as_json: bool) -> None:
    """Save a model that was changed, and report how."""
    from robirank.storage.estimators import load_extra

    extra = {} if model_path.is_dir() else load_extra(model_path)
    with step(f"wrote {output}"):
        model.save(output, extra=extra or None)
    report = facts | {"items": len(model.item_factors), "model": str(output)}
    print_facts("Catalogue", report, as_json=as_json)
