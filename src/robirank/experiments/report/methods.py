"""How the methods of a run came out, and their fits as the page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from robirank.experiments.run_dir import RunDirectory
from robirank.experiments.text import abbreviate, natural_key


def cases_of(run: RunDirectory[Any]) -> list[str]:
    """The folds or starting points that any method has seen, in their order."""
    return sorted({fit.case for fit in run.fits()}, key=natural_key)


def method_states(run: RunDirectory[Any]) -> list[dict[str, str]]:
    """Whether each method can be shown whole, and if not, why."""
    fits, cases = run.fits(), cases_of(run)
    return [_state(m, [fit for fit in fits if fit.method == m], cases) for m in run.methods]


def _state(name: str, fits: Sequence[Any], cases: Sequence[str]) -> dict[str, str]:
    failed = [fit.case for fit in fits if fit.error is not None]
    if failed:
        where = f" on {abbreviate(failed)}" if len(failed) < len(cases) else ""
        return {"name": name, "state": "failed", "note": f"failed{where}"}
    seen = {fit.case for fit in fits}
    missing = [case for case in cases if case not in seen]
    if missing or not seen:
        where = f" on {abbreviate(missing)}" if missing else ""
        return {"name": name, "state": "missing", "note": f"not yet run{where}"}
    return {"name": name, "state": "ok"}


def n_missing(run: RunDirectory[Any]) -> int:
    """Count the fits that are still to be done."""
    return len(run.methods) * run.settings.n_cases - len(run.fits())


def shown_fits(run: RunDirectory[Any]) -> list[dict[str, Any]]:
    """All fits; method and case are places in the lists of the page."""
    cases = cases_of(run)
    return [
        {
            **msgspec.structs.asdict(fit),
            "method": run.methods.index(fit.method),
            "case": cases.index(fit.case),
        }
        for fit in run.fits()
    ]
