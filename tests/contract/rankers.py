"""The rankers that must keep the contract: one entry an estimator, cheap settings."""

from robirank import RoBiRank, RoBiRankCV

RANKERS = [
    RoBiRank(),
    RoBiRank(rho="identity"),
    RoBiRank(rho="type2", init="random", random_state=0),
    RoBiRankCV(alphas=[1.0, 0.01], cv=2, random_state=0),
]

# Checks of scikit-learn that cannot hold for a ranker, and why.
NOT_FOR_RANKERS = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a document that stands in a list twice also competes twice, which no weight can express"
    ),
    "check_sample_weight_equivalence_on_sparse_data": (
        "a document that stands in a list twice also competes twice, which no weight can express"
    ),
}


def expected_failures(ranker):
    """For `parametrize_with_checks`."""
    return NOT_FOR_RANKERS
