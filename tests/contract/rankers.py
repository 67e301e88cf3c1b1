"""The rankers that must keep the contract: all that are registered, under cheap settings."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from robirank.registry import rankers

# Rankers from outside the package: files of this folder.
for path in sorted(Path(__file__).parent.glob("*_ranker.py")):
    import_module(f"contract.{path.stem}")

# Cheap parameters, several where they lead to other code; the defaults for rankers not named here.
_NET = {"units": 16, "learning_rate": 1e-2, "max_iter": 12, "random_state": 0}
_TREES = {"num_threads": 1}
_BOOSTER = _TREES | {"n_estimators": 30, "learning_rate": 0.2, "min_samples_leaf": 1}
SETTINGS = {
    "AdaRank": [{"n_estimators": 20}, {"n_estimators": 20, "metric": "map"}],
    "CoordinateAscent": [{"n_restarts": 2, "max_iter": 3, "random_state": 0}],
    "IRPush": [{"tol": 1e-2}, {"loss": "logistic"}],
    "InfNormPush": [{}, {"p": 4.0}],
    "LSRank": [{}, {"k": 5, "decay": 0.25, "alpha": 0.1}],
    "LambdaMART": [_TREES | {"n_estimators": 25}],
    "MART": [_TREES | {"n_estimators": 40}],
    "RandomForests": [_TREES | {"n_estimators": 10, "random_state": 0}],
    "RankBoost": [{"n_estimators": 40}],
    "RankNet": [{"learning_rate": 1e-2, "max_iter": 10, "random_state": 0}],
    "RankSVM": [{"C": 0.01}],
    "RoBiRank": [{}, {"rho": "identity"}, {"rho": "type2", "init": "random", "random_state": 0}],
    "RoBiRankBooster": [_BOOSTER, _BOOSTER | {"rho": "identity", "metric": "dcg"}],
    "RoBiRankCV": [{"alphas": [1.0, 0.01], "cv": 2, "random_state": 0}],
    "RoBiRankNet": [_NET, _NET | {"rho": "identity"}],
}
MISSING = [cls for cls in rankers().values() if cls.needs and find_spec(cls.needs) is None]
_FITTABLE = {name: cls for name, cls in rankers().items() if cls not in MISSING}
RANKERS = [cls(**s) for name, cls in _FITTABLE.items() for s in SETTINGS.get(name, [{}])]
ONE_OF_EACH_CLASS = [cls(**SETTINGS.get(name, [{}])[0]) for name, cls in _FITTABLE.items()]


def grid_of(ranker):
    """Two settings that a grid search can choose from."""
    params = ranker.get_params()
    name = next(n for n in ("alpha", "C", "n_estimators", "max_iter") if n in params)
    return {name: [params[name], type(params[name])((params[name] + 1) / 2)]}


# Checks of scikit-learn that cannot hold for a ranker, and why.
_TWICE = "a document that stands in a list twice also competes twice, which no weight can express"
NOT_FOR_RANKERS = {
    "check_sample_weight_equivalence_on_dense_data": _TWICE,
    "check_sample_weight_equivalence_on_sparse_data": _TWICE,
}


def expected_failures(ranker):
    """For `parametrize_with_checks`."""
    return NOT_FOR_RANKERS
