"""What the tables of all experiments share: a row a method, the best value of a column in bold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.text import markdown_table, markdown_text


def method_table(
    run: RunDirectory[Any],
    measures: Mapping[str, Mapping[str, float]],
    more: Mapping[str, Mapping[str, str]],
) -> list[str]:
    """A row for each method of a run, in Markdown; one that failed says why.

    Parameters
    ----------
    measures : dict from heading to dict from method to value
        Of methods that did not fail.
    more : dict from heading to dict from method to text
        Further columns.
    """
    best = {head: max(by_method.values(), default=0.0) for head, by_method in measures.items()}
    rows, all_fits = [], run.fits()
    for method in run.methods:
        name = markdown_text(method)
        fits = [fit for fit in all_fits if fit.method == method]
        errors = [fit.error for fit in fits if fit.error is not None]
        if errors:
            reason = markdown_text(errors[0].splitlines()[0])
            of = f" on {len(errors)} of {len(fits)} {fits[0].unit_fields[-1]}s"
            rows.append([name, f"failed{of if len(fits) > 1 else ''}: {reason}"])
            continue
        values = {head: by_method[method] for head, by_method in measures.items()}
        # Values that are read as equal are equally bold.
        texts = {head: f"{value:.4f}" for head, value in values.items()}
        cells = [f"**{t}**" if t == f"{best[head]:.4f}" else t for head, t in texts.items()]
        rows.append([name, *cells, *(column[method] for column in more.values())])
    return markdown_table(["method", *measures, *more], rows)
