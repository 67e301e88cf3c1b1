"""What is fuzzed: each target makes one case from random numbers and opens a door with it.

A case must end well or in an error that the door promises. Anything else, a crash above all, is a
finding.
"""

import contextlib
import copy
import gzip
import io
import json
import struct
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import scipy.sparse as sp

import robirank as rr
from fuzz.mutate import mutate, number
from robirank._sparse import check_sparse
from robirank.data.feature_columns import KINDS
from robirank.data.feature_encoder import FeatureEncoder
from robirank.data.names import Names
from robirank.data.user_parts import user_parts
from robirank.engine.strata import DATA_ORDER, Plan
from robirank.errors import ArgumentError
from robirank.latent.factors.shards import ShardedManifest
from robirank.storage.folder import Folder
from robirank.storage.manifest import MANIFEST, _checksum, write_manifest
from robirank.storage.tensor_file import _BEFORE_CRC, _CRC_PLACE

Target = Callable[[np.random.Generator, Path], None]


@contextlib.contextmanager
def allowed(*errors: type[BaseException], naming: Path | str | None = None) -> Iterator[None]:
    """Pass over the errors that a door promises; they must name the file, or what is wrong."""
    try:
        yield
    except errors as error:
        if naming is not None and str(naming) not in str(error):
            raise AssertionError(f"the error does not name the file: {error!r}") from error


def chance(rng, share: float) -> bool:
    return bool(rng.random() < share)


# ----------------------------------------------------------------------------------------- LETOR


def letor(rng, folder: Path) -> None:
    """LETOR files: dense and sparse reading agree, and what is read is sound."""
    text = mutate(rng, _letor_text(rng))
    path = folder / "x.txt"
    path.write_bytes(text)
    options = {
        "on_error": "skip" if chance(rng, 0.5) else "raise",
        "zero_based": chance(rng, 0.2),
        "num_threads": int(rng.integers(1, 3)),
    }
    with allowed(ValueError, naming=path):
        data = rr.load_letor(path, sparse=True, **options)
        check_sparse("X", data.X)
        assert np.isfinite(data.X.data).all()
        assert np.isfinite(data.y).all()
        assert len(data.y) == len(data.qid) == data.X.shape[0]
        if data.X.shape[1] < 10_000:
            dense = rr.load_letor(path, **options)
            assert (sp.csr_matrix(dense.X) != data.X).nnz == 0


def _letor_text(rng) -> bytes:
    lines = []
    for _ in range(int(rng.integers(1, 9))):
        columns = np.unique(rng.integers(1, 9, int(rng.integers(0, 5))))
        cells = " ".join(f"{c}:{rng.normal():.3g}" for c in columns)
        comment = " #docid = D1" if chance(rng, 0.3) else ""
        lines.append(f"{rng.integers(3)} qid:{rng.integers(3)} {cells}{comment}")
    return "\n".join(lines).encode() + b"\n"


# ---------------------------------------------------------------------------------- interactions


def interactions(rng, folder: Path) -> None:
    """Tables of interactions, text and Parquet, and files of names."""
    suffix = (".tsv", ".csv", ".txt", ".parquet")[rng.integers(4)]
    path = folder / f"x{suffix}"
    content = _parquet() if suffix == ".parquet" else _table(rng, "," if suffix == ".csv" else "\t")
    path.write_bytes(mutate(rng, content))
    options = {}
    if suffix != ".parquet":
        options = {"header": (None, True, False)[rng.integers(3)]}
    options |= {"count": 2} if chance(rng, 0.3) else {}
    options |= {"on_missing": "drop"} if chance(rng, 0.5) else {}
    with allowed(ValueError, naming=path):
        data = rr.load_interactions(path, **options)
        check_sparse("matrix", data.matrix)
        counts = data.matrix.data
        assert len(counts) == data.n_interactions
        assert (counts > 0).all()
        assert np.isfinite(counts).all()
    if suffix == ".parquet":
        with allowed(ValueError, naming=path):
            check_sparse("matrix", rr.Interactions.load(path).matrix)
    if suffix in (".tsv", ".csv"):
        with allowed(ValueError, naming=path):
            Names.read(path)


def _table(rng, sep: str) -> bytes:
    rows = ["user" + sep + "item" + sep + "count"] if chance(rng, 0.4) else []
    for _ in range(int(rng.integers(1, 12))):
        who = f"u{rng.integers(5)}" if chance(rng, 0.5) else str(rng.integers(5))
        rows.append(sep.join([who, f"i{rng.integers(6)}", str(rng.integers(1, 4))]))
    return ("\r\n" if chance(rng, 0.3) else "\n").join(rows).encode() + b"\n"


@cache
def _parquet() -> bytes:
    users, items = np.arange(40) % 9, np.arange(40) % 7
    data = rr.Interactions.from_arrays([f"u{u}" for u in users], items, counts=users + 1)
    file = io.BytesIO()
    columns = {"user": data.users[data.user_codes()], "item": data.items[data.indices]}
    codes = {"user_code": data.user_codes(), "item_code": data.indices}
    pl.DataFrame(columns | codes | {"count": data.counts}).write_parquet(file)
    return file.getvalue()


# ---------------------------------------------------------------------------------------- models


def models(rng, folder: Path) -> None:
    """Model files: what loads can be used."""
    model = _changed_model(rng, folder, _models())
    if model is not None:
        with allowed(ArgumentError, naming="num_threads"):  # which is checked when it is used
            _use(model)


def _changed_model(rng, folder: Path, contents: dict[str, bytes]):
    """What loads of one of some model files with wrong bytes in it; None if nothing does."""
    content = contents[[*contents][rng.integers(len(contents))]]
    path = folder / "x.safetensors"
    if chance(rng, 0.6):
        content = _change_header(rng, content)
    if chance(rng, 0.7):
        content = mutate(rng, content)
    if chance(rng, 0.9):
        content = _with_checksum(content)
    path.write_bytes(content)
    with allowed(rr.ModelFileError):
        model = rr.load_model(path)
        rr.load_extra(path)
        return model
    return None


def _use(model) -> None:
    if hasattr(model, "item_factors"):
        n_users = len(model.user_factors)
        if n_users and len(model.item_factors):
            model.recommend(0, None, filter_already_liked_items=False)
    else:
        with np.errstate(all="ignore"):
            scores = model.predict(np.ones((3, model.n_features_in_)))
        assert len(scores) == 3


@cache
def _models() -> dict[str, bytes]:
    data = rr.make_ranking(n_queries=8, n_docs=8, n_features=3, random_state=0)
    plays = rr.make_interactions(12, 9, 50, random_state=0)
    named = rr.Interactions.from_matrix(plays.matrix, users=[f"u{n}" for n in range(12)])
    X, y, qid = data.X, data.y, data.qid
    made = {
        "RoBiRank": rr.RoBiRank().fit(X, y, qid=qid),
        "RankBoost": rr.RankBoost(4).fit(X, y, qid=qid),
        "RankNet": rr.RankNet(max_iter=2, random_state=0).fit(X, y, qid=qid),
        "MART": rr.MART(2).fit(X, y, qid=qid),
        "RandomForests": rr.RandomForests(2, random_state=0).fit(X, y, qid=qid),
        "RobustClassifier": rr.RobustClassifier().fit(X, y > 0),
        "LatentRoBiRank": rr.LatentRoBiRank(2, iterations=1).fit(named, show_progress=False),
        "WARP": rr.WARP(2, iterations=1).fit(plays, show_progress=False),
    }
    return _saved(made)


def _saved(models) -> dict[str, bytes]:
    """The files of some models."""
    contents = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m")
        for name, model in models.items():
            model.save(path)
            contents[name] = path.read_bytes()
    return contents


def _change_header(rng, content: bytes) -> bytes:
    """Change a value of the JSON header, and make the file whole again."""
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    own = header["__metadata__"]
    key = [*own][rng.integers(len(own))]
    with contextlib.suppress(ValueError):
        own[key] = json.dumps(_changed(rng, json.loads(own[key])))
    if chance(rng, 0.3):
        header = _changed(rng, header)
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + size :]


def _with_checksum(content: bytes) -> bytes:
    """What somebody makes of a file who can compute a checksum."""
    begin, end = _CRC_PLACE.start, _CRC_PLACE.stop
    if content[8:begin] != _BEFORE_CRC:
        return content
    crc = zlib.crc32(content[:begin] + b"00000000" + content[end:])
    return content[:begin] + b"%08x" % crc + content[end:]


def _changed(rng, value):
    """The same JSON with something else in one place."""
    if isinstance(value, dict) and value and chance(rng, 0.9):
        key = [*value][rng.integers(len(value))]
        if chance(rng, 0.1):
            return {k: v for k, v in value.items() if k != key}
        return value | {key: _changed(rng, value[key])}
    if isinstance(value, list) and value and chance(rng, 0.8):
        place = int(rng.integers(len(value)))
        return [*value[:place], _changed(rng, value[place]), *value[place + 1 :]]
    choices = [None, True, "x", "../x", [], {}, 0.5, number(rng), [number(rng)], {"a": [[[]]]}]
    return choices[rng.integers(len(choices))]


# -------------------------------------------------------------------------------- shard folders


def shards(rng, folder: Path) -> None:
    """Folders of sharded models, with manifests that fit what was changed or do not."""
    files, manifest = _sharded()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    fields = msgspec.to_builtins(manifest)
    for _ in range(int(rng.integers(0, 3))):
        key = [*fields][rng.integers(len(fields))]
        fields = fields | {key: _changed(rng, fields[key])}
    if chance(rng, 0.6):  # as somebody would who can compute a checksum
        with contextlib.suppress(msgspec.MsgspecError):
            fields["crc32"] = _checksum(msgspec.convert(fields, ShardedManifest))
    (folder / MANIFEST).write_bytes(json.dumps(fields).encode())
    if chance(rng, 0.5):
        name = [*files][rng.integers(len(files))]
        (folder / name).write_bytes(mutate(rng, (folder / name).read_bytes()))
    with allowed(rr.ModelFileError):
        _use(rr.load_model(folder))
    with allowed(rr.ModelFileError):
        served = rr.ShardedModel(folder)
        served.recommend([0], None, filter_already_liked_items=False)


@cache
def _sharded() -> tuple[dict[str, bytes], ShardedManifest]:
    rng, parts = np.random.default_rng(0), 2
    U, V = (rng.standard_normal((n, 2)).astype(np.float32) for n in (8, 6))
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(path)
        users = [
            folder.write_arrays(
                f"users-{n}.safetensors", {"user_factors": U[own], "users": own.astype(np.int32)}
            )
            for n, own in enumerate(user_parts(5, len(U), parts))
        ]
        bounds = Plan(0, DATA_ORDER, len(V), parts).bounds
        items = [
            folder.write_arrays(f"items-{n}.safetensors", {"item_factors": V[low:high]})
            for n, (low, high) in enumerate(pairwise(bounds))
        ]
        manifest = ShardedManifest(
            model="WARP",
            params={"factors": 2},
            numbers={"n_iter_": 1, "best_iter_": 1, "solver_": "warp", "user_scale_": 1.0},
            shape=(len(U), len(V)),
            factors=2,
            parts=parts,
            part_seed=5,
            users=users,
            items=items,
            user_ids=False,
            item_ids=None,
        )
        manifest = write_manifest(folder, MANIFEST, manifest)
        return {file.name: file.read_bytes() for file in Path(path).iterdir()}, manifest


# --------------------------------------------------------------------------------- CSR matrices


def csr(rng, folder: Path) -> None:
    """Sparse matrices with wrong numbers in them, at every door."""
    matrix = sp.random(8, 6, density=0.4, format="csr", rng=rng)
    matrix.data = np.round(5 * matrix.data)
    if chance(rng, 0.5):
        matrix.indices = matrix.indices.astype(np.int64)
        matrix.indptr = matrix.indptr.astype(np.int64)
    for _ in range(int(rng.integers(0, 3))):
        array = (matrix.indices, matrix.indptr, matrix.data)[rng.integers(3)]
        if len(array):
            with contextlib.suppress(OverflowError):
                array[rng.integers(len(array))] = number(rng)
    if chance(rng, 0.1):
        matrix.indices = matrix.indices[: int(rng.integers(0, 6))]
    form = ("csr", "csc", "coo")[rng.integers(3)] if _is_sound(matrix) else "csr"
    with allowed(ValueError):
        _DOORS[rng.integers(len(_DOORS))](matrix.asformat(form))


def _is_sound(matrix) -> bool:
    try:
        check_sparse("matrix", matrix)
    except ValueError:
        return False
    return True


def _warp() -> rr.WARP:
    return rr.WARP(2, iterations=1, num_threads=1, random_state=0)


@cache
def _fitted() -> rr.WARP:
    return _warp().fit(_plain(), show_progress=False)


def _plain():
    return sp.csr_matrix(np.arange(48).reshape(8, 6) % 3)


def _sgd() -> rr.LatentRoBiRank:
    return rr.LatentRoBiRank(2, solver="sgd", iterations=1, num_threads=1, random_state=0)


_GRADES, _EVERYONE = np.arange(8) % 2, np.arange(8)
_DOORS = [
    lambda m: _warp().fit(m, show_progress=False),
    lambda m: _sgd().fit(m, show_progress=False),
    lambda m: rr.LatentRoBiRank(2, solver="exact", iterations=1).fit(m, show_progress=False),
    lambda m: _fitted().fold_in(m),
    lambda m: _warp().fit(_plain(), False).partial_fit(m, 1),
    lambda m: _fitted().recommend(_EVERYONE, m),
    lambda m: rr.evaluate(_fitted(), train=m, test=_plain()),
    lambda m: rr.evaluate(_fitted(), train=_plain(), test=m),
    rr.Interactions.from_matrix,
    lambda m: rr.RoBiRank(max_iter=2).fit(m, _GRADES).predict(m),
    lambda m: rr.RankingData(m, _GRADES, _EVERYONE),
]

# ------------------------------------------------------------------------------------- features


def feature_files(rng, folder: Path) -> None:
    """Files of features: what is read becomes sound numbers, or the error says what is wrong."""
    suffix = (".csv", ".tsv", ".csv.gz", ".parquet")[rng.integers(4)]
    path = folder / f"x{suffix}"
    content = mutate(rng, _feature_file(suffix.removesuffix(".gz")))
    if suffix == ".csv.gz":
        content = gzip.compress(content, 1, mtime=0)
        content = mutate(rng, content) if chance(rng, 0.2) else content
    path.write_bytes(content)
    options = _feature_options(rng)
    with allowed(ValueError):
        _check_features(rr.Features.from_file(path, **options))


def _feature_options(rng):
    """Options of `Features.from_frame`, some of which cannot be used."""
    options = {}
    for argument, values in (("kinds", KINDS), ("weights", (0, 0.5, 3, -1, float("nan")))):
        if chance(rng, 0.3):
            name = [*_feature_frame().columns, "none"][rng.integers(8)]
            options[argument] = {name: values[rng.integers(len(values))]}
    if chance(rng, 0.1):
        options["separator"] = ("", ";", "a", "||")[rng.integers(4)]
    return options


def _check_features(features) -> None:
    """What a fit does with features: rows of finite numbers, about as long as one."""
    encoder = FeatureEncoder.learn(features)
    matrix, unknown = encoder.encode(features)
    assert not unknown
    check_sparse("features", matrix)
    assert matrix.shape == (len(features), encoder.width) == (len(features), len(encoder.names))
    assert np.isfinite(matrix.data).all()
    arrays = encoder.to_tensors("e")
    again, _ = FeatureEncoder.from_tensors(arrays, "e").encode(features)
    assert (again != matrix).nnz == 0


@cache
def _feature_frame() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "id": [f"i{k}" for k in range(9)],
            "brand": ["Acme", "Bolt", None] * 3,
            "rooms": ["bath|kitchen", "bath", "garden"] * 3,
            "price": [None, *(1.5 * k for k in range(8))],
            "title": [f"a tool for the bath {k}" for k in range(9)],
            "since": [f"2024-05-{k:02d}" for k in range(1, 10)],
            "code": range(9),
        }
    )


@cache
def _feature_file(suffix: str) -> bytes:
    file = io.BytesIO()
    if suffix == ".parquet":
        vectors = pl.Series("vector", [[float(k), 1.0] for k in range(9)])
        rooms = pl.col("rooms").str.split("|")
        _feature_frame().with_columns(rooms, pl.col("since").str.to_date(), vectors).write_parquet(
            file
        )
        return file.getvalue()
    _feature_frame().write_csv(file, separator="\t" if suffix == ".tsv" else ",")
    return file.getvalue()


_ODD = [None, "", "x", "a|b", 0, -1, 2**63, 1e308, -1e-320, float("nan"), float("inf"), True]
_ODD += [[], ["a", None], [1.0, 2.0], [1.0, float("nan")], (1,), {"a"}, {"a": 1}, b"x", 1j, object]
_ODD += [np.float32(3), np.datetime64("2024-05-17"), np.zeros((2, 2)), np.array([1.0, 2.0])]


def feature_tables(rng, folder: Path) -> None:
    """Frames, arrays and sparse matrices of features with odd values, at every door."""
    made = None
    with allowed(ValueError, TypeError):
        made = _odd_features(rng)
        _check_features(made)
    if made is None:
        return
    with allowed(ValueError, TypeError):
        _FEATURE_DOORS[rng.integers(len(_FEATURE_DOORS))](made)
    with allowed(ValueError, TypeError):
        row = {_SIDE_COLUMNS[rng.integers(4)]: _odd(rng) for _ in range(int(rng.integers(1, 4)))}
        liked = [int(rng.integers(6))] if chance(rng, 0.5) else []
        _check_answer(_described().recommend_for(liked, features=row))


def _odd(rng):
    return _ODD[rng.integers(len(_ODD))]


def _odd_features(rng):
    n = int(rng.integers(0, 9))
    ids = np.arange(n) if chance(rng, 0.7) else [_odd(rng) for _ in range(n)]
    kind = int(rng.integers(3))
    if kind == 0:
        plain = {"number": [1.5 * k for k in range(n)], "word": [f"w{k % 3}" for k in range(n)]}
        columns = {name: values for name, values in plain.items() if chance(rng, 0.7)}
        for name in ("number", "word", "more"):
            if chance(rng, 0.4):
                few = [_odd(rng) for _ in range(int(rng.integers(1, 3)))]
                columns[name] = [few[rng.integers(len(few))] for _ in range(n)]
        options = {}
        if chance(rng, 0.4):
            options["kinds"] = {[*columns, "no"][0]: KINDS[rng.integers(len(KINDS))]}
        return rr.Features.from_frame({"id": ids} | columns, **options)
    array = rng.normal(size=(n, 2))
    if kind == 1:
        if n and chance(rng, 0.5):
            array[rng.integers(n), 0] = (np.nan, np.inf, 1e300, 1e-300)[rng.integers(4)]
        return rr.Features.from_array(array, ids, name=_SIDE_COLUMNS[rng.integers(4)])
    counts = sp.csr_matrix(np.abs(np.round(3 * array)))
    for _ in range(int(rng.integers(0, 2))):
        part = (counts.indices, counts.indptr, counts.data)[rng.integers(3)]
        if len(part):
            with contextlib.suppress(OverflowError):
                part[rng.integers(len(part))] = number(rng)
    return rr.Features.from_matrix(counts, ids, name=_SIDE_COLUMNS[rng.integers(4)])


_SIDE_COLUMNS = ("number", "word", "vector", "counts")


def _of_features(n: int) -> rr.Features:
    frame = {"id": np.arange(n), "number": [1.5 * k for k in range(n)]}
    frame |= {"word": [f"w{k % 3}" for k in range(n)]}
    return rr.Features.from_frame(frame)


@cache
def _described() -> rr.WARP:
    features = {"item_features": _of_features(7), "user_features": _of_features(8)}
    return _warp().fit(_plain(), show_progress=False, **features)


def _check_answer(answer) -> None:
    assert np.isfinite(answer[1]).all()


def _described_fit(model, features, side: str) -> None:
    model.fit(_plain(), show_progress=False, **{f"{side}_features": features})
    assert np.isfinite(model.user_factors).all()
    assert np.isfinite(model.item_factors).all()


_FEATURE_DOORS = [
    lambda f: _described_fit(_warp(), f, "item"),
    lambda f: _described_fit(_sgd(), f, "user"),
    lambda f: _described_fit(rr.LatentRoBiRank(2, solver="exact", iterations=1), f, "item"),
    lambda f: copy.copy(_described()).add_items(f),
    lambda f: _check_answer(_described().recommend_for(features=f)),
    lambda f: _described().fold_in(_plain(), f),
    lambda f: _warp().fit(_plain(), False).partial_fit(_plain(), 1, item_features=f),
]


def feature_models(rng, folder: Path) -> None:
    """Files of models with features: what loads can be used, and so can its features."""
    model = _changed_model(rng, folder, _described_models())
    if model is None:
        return
    with allowed(ArgumentError, naming="num_threads"):
        _use(model)
    with np.errstate(all="ignore"), allowed(ValueError):
        model.recommend_for(features={"word": "w1", "number": 3})
    with np.errstate(all="ignore"), allowed(ValueError):
        n = len(model.item_factors)
        new = rr.Features.from_frame({"id": [n, n + 1], "number": [1, None], "word": ["w1", "w9"]})
        _use(model.add_items(new))


@cache
def _described_models() -> dict[str, bytes]:
    vectors = rr.Features.from_array(np.eye(8))
    made = {
        "WARP": _described(),
        "LatentRoBiRank": rr.LatentRoBiRank(2, solver="exact", iterations=1).fit(
            rr.make_interactions(8, 6, 20, random_state=0),
            show_progress=False,
            item_features=_of_features(7),
            user_features=vectors,
        ),
    }
    return _saved(made)


TARGETS: dict[str, Target] = {
    "letor": letor,
    "interactions": interactions,
    "models": models,
    "shards": shards,
    "csr": csr,
    "feature_files": feature_files,
    "feature_tables": feature_tables,
    "feature_models": feature_models,
}


def run_case(name: str, seed: int, case: int, folder: Path) -> None:
    """Run one case of a target; the three numbers decide everything."""
    rng = np.random.default_rng([seed, [*TARGETS].index(name), case])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        TARGETS[name](rng, folder)
