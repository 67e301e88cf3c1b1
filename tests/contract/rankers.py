"""The rankers that must keep the contract: all that are registered, under cheap settings."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from robirank.registry import rankers

# Rankers from outside the package: files of this folder.
for path in sorted(Path(__file__).parent.glob("*_ranker.py")):
    import_module(f"contract.{path.stem}")

MISSING = [cls for cls in rankers().values() if cls.needs and find_spec(cls.needs) is None]
RANKERS = [
    cls(**settings)
    for cls in rankers().values()
    if cls not in MISSING
    for settings in cls.test_settings
]


def grid_of(ranker):
    """Two settings that a grid search can choose from."""
    settings = ({},) if ranker.comparison is None else ranker.comparison.grid[:2]
    return [{name: [value] for name, value in setting.items()} for setting in settings]


# Checks of scikit-learn that cannot hold for a ranker, and why.
_TWICE = "a document that stands in a list twice also competes twice, which no weight can express"
NOT_FOR_RANKERS = {
    "check_sample_weight_equivalence_on_dense_data": _TWICE,
    "check_sample_weight_equivalence_on_sparse_data": _TWICE,
}


def expected_failures(ranker):
    """For `parametrize_with_checks`."""
    return NOT_FOR_RANKERS
