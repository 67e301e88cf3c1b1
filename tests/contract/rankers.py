"""The rankers that must keep the contract: one entry an estimator, cheap settings."""

from robirank import (
    MART,
    AdaRank,
    CoordinateAscent,
    InfNormPush,
    IRPush,
    LambdaMART,
    ListNet,
    LSRank,
    RandomForests,
    RankBoost,
    RankNet,
    RankSVM,
    RoBiRank,
    RoBiRankCV,
)

RANKERS = [
    RoBiRank(),
    RoBiRank(rho="identity"),
    RoBiRank(rho="type2", init="random", random_state=0),
    RoBiRankCV(alphas=[1.0, 0.01], cv=2, random_state=0),
    RankSVM(C=0.01),
    RankBoost(50),
    AdaRank(),
    AdaRank(metric="map"),
    CoordinateAscent(n_restarts=2, max_iter=3, random_state=0),
    MART(100, num_threads=1),
    LambdaMART(50, num_threads=1),
    RandomForests(20, random_state=0, num_threads=1),
    ListNet(),
    RankNet(learning_rate=1e-2, max_iter=10, random_state=0),
    LSRank(),
    LSRank(k=5, decay=0.25, alpha=0.1),
    IRPush(),
    IRPush(loss="logistic"),
    InfNormPush(),
    InfNormPush(p=4.0),
]

# A parameter of each class that a grid search can vary cheaply.
GRIDS = {
    "RoBiRank": {"tol": [1e-2, 1e-3]},
    "RoBiRankCV": {"tol": [1e-2, 1e-3]},
    "RankSVM": {"C": [1e-2, 1e-3]},
    "RankBoost": {"n_thresholds": [5, 10]},
    "AdaRank": {"max_consecutive": [1, 5]},
    "CoordinateAscent": {"n_steps": [10, 20]},
    "MART": {"max_leaf_nodes": [5, 10]},
    "LambdaMART": {"max_leaf_nodes": [5, 10]},
    "RandomForests": {"max_leaf_nodes": [50, 100]},
    "ListNet": {"alpha": [1e-2, 1e-3]},
    "RankNet": {"alpha": [1e-2, 1e-3]},
    "LSRank": {"alpha": [1.0, 0.1]},
    "IRPush": {"alpha": [1.0, 0.1]},
    "InfNormPush": {"alpha": [1.0, 0.1]},
}

# Checks of scikit-learn that cannot hold for a ranker, and why.
_TWICE = "a document that stands in a list twice also competes twice, which no weight can express"
NOT_FOR_RANKERS = {
    "check_sample_weight_equivalence_on_dense_data": _TWICE,
    "check_sample_weight_equivalence_on_sparse_data": _TWICE,
}


def expected_failures(ranker):
    """For `parametrize_with_checks`."""
    return NOT_FOR_RANKERS
