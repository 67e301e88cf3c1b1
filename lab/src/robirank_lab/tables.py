"""What the tables of all experiments share: a row a method, the best value of a column in bold."""

from __future__ import annotations

from collections.abc import Mapping

from robirank_lab.run_dir import RunDirectory
from robirank_lab.text import markdown_table, markdown_text


def method_table(
    run: RunDirectory,
    metrics: Mapping[str, Mapping[str, float]],
    more: Mapping[str, Mapping[str, str]],
) -> list[str]:
    """A row for each method of a run, in Markdown; one that failed says why.

    Parameters
    ----------
    metrics : dict from heading to dict from method to value
        Of methods that did not fail.
    more : dict from heading to dict from method to text
        Further columns.
    """
    best = {head: max(by_method.values(), default=0.0) for head, by_method in metrics.items()}
    rows, all_fits = [], run.fits()
    for method in run.methods:
        name = markdown_text(method)
        fits = [fit for fit in all_fits if fit.method == method]
        errors = [fit.error for fit in fits if fit.error is not None]
        if errors:
            reason = markdown_text(errors[0].splitlines()[0])
            noun = run.settings.experiment.case_noun
            where = f" on {len(errors)} of {len(fits)} {noun}s" if len(fits) > 1 else ""
            rows.append([name, f"failed{where}: {reason}"])
            continue
        # Values that are read as equal are equally bold.
        texts = {head: f"{by_method[method]:.4f}" for head, by_method in metrics.items()}
        cells = [f"**{t}**" if t == f"{best[head]:.4f}" else t for head, t in texts.items()]
        rows.append([name, *cells, *(column[method] for column in more.values())])
    return markdown_table(["method", *metrics, *more], rows)
