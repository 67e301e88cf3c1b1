"""Every script in ``benchmarks/`` runs on a little data, and its last line is one JSON object."""

import gzip
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse

import robirank as rr

FOLDER = Path(__file__).parents[2] / "benchmarks"


class Script(NamedTuple):
    """How a script is made small (results go to {out}, data are in {data}), and what it prints."""

    arguments: str
    figure: str
    needs: tuple[str, ...] = ()


SCRIPTS = {
    "boards.py": Script(
        "--boards gowalla --methods default64 cv64 popular ease grid64 --folder {out}",
        "gowalla_default_recall20",
    ),
    "boosters.py": Script("--quick --output {out}", "web_booster_ndcg10", ("lightgbm",)),
    "cold.py": Script(
        "--quick --boards lastfm_users citeulike10 citeulike1 s3_lastfm s3_lastfm_cold explain_all "
        "--folder {out}",
        "s3_lastfm_cold_cv_new_recall20",
    ),
    "cost.py": Script("--quick --turns 1 --factors 4", "2000x2000_exact_seconds_told_over_real"),
    "exact.py": Script("--users 40 --items 60 --factors 4 --epochs 1", "over_floor"),
    "factors.py": Script("--boards gowalla --factors 4 8", "gowalla_8_cut_to_4_recall20"),
    "features.py": Script("--shrink 100 --epochs 1", "wide_epoch_ratio"),
    "field.py": Script("--quick --run {out}/run", "RoBiRank_ndcg10"),
    "findings.py": Script("", "mq2008_irpush_zero_folds"),
    "gowalla.py": Script("--only exact64", "exact64_recall20"),
    "gpu.py": Script("--parts check", "worst_error", ("torch",)),
    "letor.py": Script("", "mq2008_mean_ndcg", ("lightgbm",)),
    "linear.py": Script("--quick", "log_query_robirank"),
    "listwise.py": Script("--rows 2400 --items 3000", "grid_speedup"),
    "page_map.py": Script("--items 500 --frames 20", "items", ("playwright",)),
    "parser.py": Script("--megabytes 0.1 --rounds 1", "speedup_vs_sklearn"),
    "ratings.py": Script("{data}/u.data --seeds 1", "dislikes_recall20_difference"),
    "reasons.py": Script(
        "--boards gowalla --pairs 4 --factors 4 --epochs 4", "gowalla_over_crossed", ("implicit",)
    ),
    "recommend.py": Script(
        "--users 20 --items 300 --factors 8 --best 10 --turns 1", "vs_implicit", ("implicit",)
    ),
    "robust.py": Script(
        "--quick --output {out} --pictures {out}", "quick-lists_winners", ("lightgbm",)
    ),
    "rules.py": Script("--users 20 --items 400 --factors 8 --turns 1", "deny_one_user"),
    "scaling.py": Script("--quick --factors 4 --rounds 1", "recovery_seconds", ("ray",)),
    "sequences.py": Script("--boards lastfm --factors 4", "lastfm_order_hr10"),
    "serve.py": Script(
        "--items 300 --users 50 --factors 8 --requests 40",
        "300_users_vs_implicit",
        ("flask", "waitress", "implicit"),
    ),
    "serve_memory.py": Script("--items 300 --users 50 --factors 8 --workers 1", "300_1_own_mb"),
    "sgd.py": Script("--share 0.001", "vs_lightfm_warp", ("implicit", "lightfm")),
    "time_to_quality.py": Script(
        "--boards gowalla --methods RoBiRank --folder {out}", "gowalla_exact_recall20"
    ),
    "truncation.py": Script("", "ohsumed_30", ("lightgbm",)),
    "variety.py": Script("--factors 4 --users 20 --turns 1", "variety_0_recall20"),
    "xi.py": Script("--users 4 --items 2000", "step_speedup"),
}


def test_every_script_is_here():
    assert {path.name for path in FOLDER.glob("[a-z]*.py")} == set(SCRIPTS)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder like that of the real data sets: one fold, some queries, 60 users."""
    root = tmp_path_factory.mktemp("data")
    for name in ("OHSUMED", "MQ2008"):
        save_ranking(root / "letor" / name / "Fold1", ("train", "vali", "test"), 1)
    save_ranking(root / "letor" / "Yandex", ("train", "vali", "test"), 3)
    save_ranking(root / "letor" / "MSLR-sample", ("train", "test"), 4, n_features=136)
    save_interactions(root / "implicit" / "gowalla")
    save_features(root / "features")
    save_ratings(root / "u.data")
    return root


def save_ratings(path):
    rng = np.random.default_rng(0)
    table = rr.make_interactions(60, 40, 900, random_state=0)
    rows = table.user_codes(), table.indices, rng.integers(1, 6, 900), rng.integers(0, 9999, 900)
    np.savetxt(path, np.column_stack(rows), "%d", delimiter="\t")


def save_ranking(folder, parts, seed, n_features=4):
    folder.mkdir(parents=True)
    whole = rr.make_ranking(8 * len(parts), 6, n_features, n_grades=3, random_state=seed)
    number = whole.queries.codes() // 8
    for i, part in enumerate(parts):
        rr.save_letor(folder / f"{part}.txt.gz", whole.take(number == i))


def save_interactions(folder):
    folder.mkdir(parents=True)
    whole = rr.make_interactions(60, 40, 900, random_state=0)
    rest, test = rr.split_ratio(whole, 0.2, random_state=0)
    train, valid = rr.split_ratio(rest, 0.2, random_state=0)
    for name, part in (("train", train), ("valid", valid), ("test", test)):
        pairs = np.column_stack([part.user_codes(), part.indices])
        np.savetxt(folder / f"{name}.tsv.gz", pairs, "%d", delimiter="\t")


def save_features(root):
    """Articles with words, new users with friends, sequences of items with attributes."""
    rng = np.random.default_rng(0)
    whole = rr.make_interactions(60, 40, 900, random_state=0)
    lists = [row.indices.tolist() for row in whole.matrix]
    articles = root / "citeulike-t"
    counts = [" ".join(f"{w}:{1 + w % 3}" for w in rng.permutation(20)[:4]) for _ in range(40)]
    save_lines(articles / "mult.dat", [f"4 {line}" for line in counts])
    save_lines(articles / "users.dat", map(counted, lists))
    for p in (1, 10):
        save_lines(articles / f"cf-train-{p}-users.dat", [counted(one[:p]) for one in lists])
        save_lines(articles / f"cf-test-{p}-users.dat", [counted(one[p:]) for one in lists])
    pairs = np.column_stack([whole.user_codes(), whole.indices])
    for i, part in enumerate(("train", "vali", "test")):
        rows = [f"{user}.0,{item}.0" for user, item in pairs[pairs[:, 0] % 3 == i]]
        save_lines(root / "lastfm-cold-users" / f"{part}.csv", ["uid,iid", *rows])
    friends = sparse.random(60, 60, 0.1, "csr", rng=0)
    sparse.save_npz(root / "lastfm-cold-users" / "user_content.npz", friends)
    sequences = [f"{i + 1} {' '.join(str(y + 1) for y in one)}" for i, one in enumerate(lists)]
    save_lines(root / "s3rec" / "LastFM.txt", sequences)
    attributes = {str(y + 1): rng.permutation(12)[:3].tolist() for y in range(40)}
    save_lines(root / "s3rec" / "LastFM_item2attributes.json", [json.dumps(attributes)])


def counted(items):
    return " ".join(map(str, [len(items), *items]))


def save_lines(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(f"{path}.gz", "wt") as file:
        file.writelines(f"{line}\n" for line in lines)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.ray if "ray" in script.needs else ())
        for name, script in SCRIPTS.items()
    ],
)
def test_the_last_line_of_a_script_is_json(name, data, tmp_path):
    script = SCRIPTS[name]
    for package in script.needs:
        if find_spec(package) is None:
            pytest.skip(f"{name} needs the package {package}")
    if name == "gpu.py" and not has_card():
        pytest.skip("gpu.py needs a graphics card")
    done = subprocess.run(
        [sys.executable, FOLDER / name, *script.arguments.format(out=tmp_path, data=data).split()],
        cwd=tmp_path,
        env=os.environ | {"ROBIRANK_DATA": str(data), "OMP_THREAD_LIMIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert script.figure in json.loads(done.stdout.splitlines()[-1])


def has_card():
    import torch

    return torch.cuda.is_available()
