"""A small shop: interactions, a model, a table of items, names, and a server of them."""

from functools import cache

import numpy as np

import robirank as rr
from robirank.serve import Client, app

N_USERS, N_ITEMS = 80, 60
ITEMS = [f"p{n:02d}" for n in range(N_ITEMS)]
USERS = [f"u{n:02d}" for n in range(N_USERS)]
BRANDS = ["Acme", "Bolt", "Cord"]


@cache
def plays():
    data = rr.make_interactions(N_USERS, N_ITEMS, 900, random_state=0)
    return rr.Interactions.from_matrix(data.matrix, users=USERS, items=ITEMS)


@cache
def fitted(seed=0):
    """A model; those of two seeds differ in λ, too, as the seed alone changes no list."""
    regularization = 0.3 + 0.7 * seed
    model = rr.LatentRoBiRank(6, iterations=8, random_state=seed, regularization=regularization)
    return model.fit(plays(), show_progress=False)


def table():
    return {
        "id": np.array(ITEMS),
        "stock": np.arange(N_ITEMS) % 4,
        "brand": np.array([BRANDS[n % 3] for n in range(N_ITEMS)]),
    }


NAMES = {item: f"Product {number}" for number, item in enumerate(ITEMS)}


def shop(**options):
    """A client of a server that knows all of it."""
    options = {"train": plays(), "items": table(), "names": NAMES, "reload_seconds": 0} | options
    return Client(app(fitted(), log_requests=False, **options))


def ids(answer):
    return [item["item"] for item in answer["items"]]
