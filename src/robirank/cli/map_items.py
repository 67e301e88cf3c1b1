"""``robirank latent map``: a point of the plane for each item, for the page of the server."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from robirank.cli.console import check_output, print_facts, step
from robirank.cli.interactions import load_factors
from robirank.cli.options import JSON, QUIET, option
from robirank.cli.recommend import MODEL


def map_items(
    model_path: Path = MODEL,
    output: Path = option(
        ..., "Where to save the map, for `serve --map`.", "--output", "-o", metavar="OUT"
    ),
    kind: Literal["neighbours", "directions"] = option(
        "neighbours", "t-SNE, or the two directions in which the items differ most."
    ),
    most: int = option(
        20_000, "Place so many items by t-SNE; each other one lies among those like it.", min=4
    ),
    as_json: bool = JSON,
    _quiet: bool = QUIET,
) -> None:
    """Make a map of the items, on which those that are alike lie together."""
    from dataclasses import replace

    from robirank.latent.factors.item_map import map_of_directions, map_of_neighbours
    from robirank.storage.tensor_file import written_checksum

    check_output(output, model_path)
    model = load_factors(model_path)
    with step(f"made a map of {len(model.item_factors):,} items"):
        if kind == "directions":
            found = map_of_directions(model.item_factors)
        else:
            found = map_of_neighbours(model.item_factors, model.item_counts_, most=most)
    checksum = written_checksum(model_path) if model_path.is_file() else None
    with step(f"wrote {output}"):
        replace(found, model=checksum).save(output)
    facts = {"items": len(found.points), "kind": kind}
    print_facts(str(output), facts, as_json=as_json)
