"""What the page of a report shows, as one JSON object."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from robirank_lab.report.latent import latent_parts
from robirank_lab.report.ltr import ltr_parts
from robirank_lab.report.noise import noise_parts
from robirank_lab.report.scaling import scaling_parts
from robirank_lab.run_dir import RunDirectory

_PARTS: Mapping[str, Any] = {
    "ltr": ltr_parts,
    "latent": latent_parts,
    "scaling": scaling_parts,
    "noise": noise_parts,
}
_DIGITS = 6  # of numbers on their way to the page


def report_data(run: RunDirectory) -> dict[str, Any]:
    """Compute what the page shows; every kind of run has sections of its own."""
    settings = run.settings
    made = {name: getattr(settings, name) for name in ("versions", "cores", "command", "created")}
    kind = str(run.experiment.__struct_config__.tag)
    page: dict[str, Any] = _as_json(
        {
            "kind": kind,
            "title": settings.title,
            "run": made | {"seed": run.experiment.seed},
            "caseNoun": run.experiment.case_noun,
            **_PARTS[kind](run),
        }
    )
    return page


def _as_json(value: Any) -> Any:
    """Round numbers, wherever they are; what is not finite becomes None."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    elif isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, Mapping):
        return {key: _as_json(v) for key, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_as_json(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value
