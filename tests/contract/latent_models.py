"""The latent models that must keep the contract: one entry an estimator, cheap settings."""

from robirank import WARP, LatentRoBiRank

LATENT = [
    LatentRoBiRank(8, iterations=30, random_state=0),
    LatentRoBiRank(8, rho="identity", regularization=14.0, iterations=30, random_state=0),
    LatentRoBiRank(8, weighting="log", iterations=30, random_state=0),
    LatentRoBiRank(8, solver="sgd", learning_rate=0.2, parts=4, iterations=30, random_state=0),
    WARP(8, regularization=2.0, learning_rate=0.2, parts=4, iterations=30, random_state=0),
]

#: Bad parameters of each class, and what the error says beside their name and value.
BAD = {
    "LatentRoBiRank": [
        ({"solver": "adam"}, "'auto', 'exact', 'sgd'"),
        ({"rho": "square"}, "'log', 'identity', 'type2'"),
        ({"regularization": -1.0}, "positive number"),
        ({"regularization": "strong"}, "positive number"),
        ({"learning_rate": 0.0}, "positive number"),
        ({"learning_rate": float("nan")}, "positive number"),
        ({"iterations": 0}, "positive integer"),
        ({"iterations": 2.5}, "positive integer"),
        ({"weighting": "square"}, "'binary', 'log', 'count'"),
        ({"negatives": 0}, "positive integer"),
        ({"parts": 0}, "positive integer"),
    ],
    "WARP": [
        ({"regularization": -1.0}, "positive number"),
        ({"learning_rate": None}, "positive number"),
        ({"iterations": 0}, "positive integer"),
        ({"max_trials": 0}, "positive integer"),
        ({"parts": 2.5}, "positive integer"),
        ({"weighting": "square"}, "'binary', 'log', 'count'"),
    ],
}

#: Bad values of the parameters that all have.
BAD_FOR_ALL = [
    ({"factors": 0}, "positive integer"),
    ({"factors": 2.5}, "positive integer"),
    ({"factors": True}, "positive integer"),
    ({"num_threads": 10**6}, "at most 1024"),
    ({"num_threads": -1}, "0 (all cores) or more"),
    ({"num_threads": 1.5}, "0 (all cores) or more"),
    ({"num_threads": None}, "0 (all cores) or more"),
    ({"engine": "nonsense"}, '"local", "ray" or a RayConfig'),
    ({"random_state": 2**32}, "below 4294967296"),
    ({"random_state": 1.5}, "an integer ≥ 0"),
]
