"""A small table whose users and items have features that say what they like and what they are."""

import numpy as np

import robirank as rr

TASTES = 4


def shop(n_users=120, n_items=60, n_interactions=2400, seed=0):
    """Interactions, features of users and features of items.

    Users u0, u1, … and items i0, i1, … have one of four tastes. Features know the user new0 of
    taste 0, new1 of taste 1 and so on as well, and such items.
    """
    data, users, items = rr.make_interactions(
        n_users,
        n_items,
        n_interactions,
        factors=TASTES,
        noise=0.05,
        random_state=seed,
        return_factors=True,
    )
    names = [f"u{x}" for x in range(n_users)], [f"i{y}" for y in range(n_items)]
    table = rr.Interactions.from_matrix(data.matrix, *names)
    features = [
        rr.Features.from_frame(
            {
                "id": [*ids, *(f"new{taste}" for taste in range(TASTES))],
                "taste": [f"t{taste}" for taste in (*rows.argmax(axis=1), *range(TASTES))],
            }
        )
        for ids, rows in zip(names, (users, items), strict=True)
    ]
    return table, *features


def taste_of(features):
    """The taste of each id, as a number."""
    return dict(zip(features.ids, (int(t[1]) for t in features.columns["taste"]), strict=True))


def model(solver="exact", **changes):
    """An estimator that is fitted in a moment."""
    if solver == "warp":
        settings = {"factors": 8, "iterations": 10, "regularization": 0.1, "random_state": 0}
        return rr.WARP(**(settings | changes))
    settings = {"factors": 8, "iterations": 8, "regularization": 0.2, "random_state": 0}
    return rr.LatentRoBiRank(**(settings | {"solver": solver} | changes))


def same_bits(first, second):
    """Fail unless two models answer with the same bits, whatever they are asked."""
    for name in ("user_factors", "item_factors", "item_counts_"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    for name in ("user_ids_", "item_ids_"):
        assert getattr(first, name) == getattr(second, name)
    for name in ("user_centres_", "item_centres_", "user_content_"):
        one, other = getattr(first, name), getattr(second, name)
        assert (one is None) == (other is None)
        if one is not None:
            arrays, others = one.to_tensors(name), other.to_tensors(name)
            assert arrays.keys() == others.keys()
            for part in arrays:
                np.testing.assert_array_equal(arrays[part], others[part])
