"""SASRec of RecTools in an environment of its own, which ``sequences.py`` calls.

    PYTHON benchmarks/_sasrec.py records.csv lists.npy EPOCHS SEED

``records.csv`` has the columns user, item, time of the records to train on; ``lists.npy`` gets ten
items for each user, in the order of the users. PYTHON is one that has ``rectools[torch]``, whose
numpy is older than that of robirank. Settings are those of RecTools but for the number of epochs:
256 factors, two blocks of four heads, the last 100 items, softmax over all items.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import torch
from pytorch_lightning import seed_everything
from rectools.dataset import Dataset
from rectools.models import SASRecModel


def main(records: str, lists: str, epochs: int, seed: int) -> None:
    """Fit, and write ten items for each user."""
    frame = pd.read_csv(records)
    frame = frame.rename(columns={"user": "user_id", "item": "item_id", "time": "datetime"})
    frame["datetime"] = pd.Timestamp("2000-01-01") + pd.to_timedelta(frame["datetime"], unit="s")
    data = Dataset.construct(frame.assign(weight=1.0))
    seed_everything(seed)
    torch.set_num_threads(2)
    model = SASRecModel(epochs=epochs, loss="softmax", deterministic=True, verbose=1)
    model.fit(data)
    users = np.unique(frame["user_id"])
    answers = model.recommend(users, data, k=10, filter_viewed=True)
    ranked = np.full((len(users), 10), -1)
    ranked[np.searchsorted(users, answers["user_id"]), answers["rank"] - 1] = answers["item_id"]
    np.save(lists, ranked)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
