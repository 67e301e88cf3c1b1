"""The plain handlers that `benchmarks/serve.py` compares with: Flask behind waitress.

    python benchmarks/_serve_plain.py PORT FOLDER robirank|implicit

What most people write: the model is read once, and each request is one call of it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import waitress
from flask import Flask, jsonify, request
from scipy.sparse import csr_matrix, load_npz

import robirank as rr


def robirank_handler(folder: Path) -> Any:
    model, history = rr.load_model(folder / "model.safetensors"), load_npz(folder / "history.npz")
    rules = rr.Rules(pl.read_csv(folder / "items.csv"), allow=pl.col("stock") > 0)

    def answer(question: dict[str, Any]) -> tuple[Any, Any]:
        n = question["n"]
        if "user" in question:
            user = question["user"]
            return model.recommend(user, history[user], N=n, rules=rules)
        return model.recommend_for(question["items"], N=n, rules=rules)

    return answer


def implicit_handler(folder: Path) -> Any:
    from implicit.cpu.als import AlternatingLeastSquares

    ours, history = rr.load_model(folder / "model.safetensors"), load_npz(folder / "history.npz")
    model = AlternatingLeastSquares(factors=ours.user_factors.shape[1], regularization=0.01)
    model.user_factors, model.item_factors = ours.user_factors, ours.item_factors
    stock = pl.read_csv(folder / "items.csv")["stock"].to_numpy()
    gone, n_items = np.flatnonzero(stock == 0).astype(np.int32), len(stock)

    def answer(question: dict[str, Any]) -> tuple[Any, Any]:
        n = question["n"]
        if "user" in question:
            user = question["user"]
            return model.recommend(user, history[user], N=n, filter_items=gone)
        items = np.array(sorted(question["items"]))
        ones = np.ones(len(items), np.float32)
        row = csr_matrix((ones, items, [0, len(items)]), shape=(1, n_items))
        return model.recommend(0, row, N=n, filter_items=gone, recalculate_user=True)

    return answer


def main() -> None:
    port, folder, which = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    answer = (robirank_handler if which == "robirank" else implicit_handler)(folder)
    handlers = Flask("plain")

    @handlers.post("/v1/recommend")
    def recommend() -> Any:
        ids, scores = answer(request.get_json())
        pairs = zip(ids.tolist(), scores.tolist(), strict=True)
        return jsonify(items=[{"item": item, "score": score} for item, score in pairs])

    @handlers.get("/readyz")
    def ready() -> str:
        return "ok"

    waitress.serve(handlers, host="127.0.0.1", port=port, threads=8)


if __name__ == "__main__":
    main()
