"""RoBiRank: ranking via robust binary classification.

The flat public API. Names are imported when they are first used, so that ``import robirank`` costs
next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "losses": "robirank.losses",
    "metrics": "robirank.metrics",
    "RankingData": "robirank.data.ranking",
    "normalize_queries": "robirank.data.ranking",
    "load_letor": "robirank.data.letor",
    "save_letor": "robirank.data.letor",
    "LetorFormatError": "robirank.data.letor",
    "load_dataset": "robirank.data.folds",
    "make_ranking": "robirank.data.generators",
    "Interactions": "robirank.data.interactions",
    "load_interactions": "robirank.data.interaction_files",
    "make_interactions": "robirank.data.make_interactions",
    "split_ratio": "robirank.data.splits",
    "split_leave_one_out": "robirank.data.splits",
    "split_time": "robirank.data.splits",
    "split_new_users": "robirank.data.splits",
    "Partitions": "robirank.data.partitions",
    "open_partitions": "robirank.data.partitions",
    "partition": "robirank.data.partitions",
    "RayConfig": "robirank.engine.config",
    "ShardedModel": "robirank.latent.retrieve.sharded",
    "listwise_loss": "robirank.objectives.listwise",
    "RobustClassifier": "robirank.classifier",
    "RoBiRank": "robirank.ltr.robirank",
    "RoBiRankCV": "robirank.ltr.robirank_cv",
    "ModelFileError": "robirank.storage.estimators",
    "load_extra": "robirank.storage.estimators",
    "load_model": "robirank.storage.estimators",
    "save_model": "robirank.storage.estimators",
    "export_linear": "robirank.ltr.export",
    "fold_scaling": "robirank.ltr.export",
    "RankSVM": "robirank.ltr.ranksvm",
    "RankBoost": "robirank.ltr.rankboost",
    "AdaRank": "robirank.ltr.adarank",
    "CoordinateAscent": "robirank.ltr.coordinate_ascent",
    "RankNet": "robirank.ltr.ranknet",
    "ListNet": "robirank.ltr.listnet",
    "RandomForests": "robirank.ltr.random_forests",
    "LambdaMART": "robirank.ltr.lambdamart",
    "MART": "robirank.ltr.mart",
    "InfNormPush": "robirank.ltr.infnormpush",
    "IRPush": "robirank.ltr.irpush",
    "LSRank": "robirank.ltr.lsrank",
    "LatentRoBiRank": "robirank.latent.model",
    "WARP": "robirank.latent.warp",
    "DivergenceError": "robirank.latent.loop",
    "EpochReport": "robirank.latent.options",
    "evaluate": "robirank.latent.retrieve.evaluate",
    "export_index": "robirank.latent.retrieve.export",
}

__all__ = [
    "MART",
    "WARP",
    "AdaRank",
    "CoordinateAscent",
    "DivergenceError",
    "EpochReport",
    "IRPush",
    "InfNormPush",
    "Interactions",
    "LSRank",
    "LambdaMART",
    "LatentRoBiRank",
    "LetorFormatError",
    "ListNet",
    "ModelFileError",
    "Partitions",
    "RandomForests",
    "RankBoost",
    "RankNet",
    "RankSVM",
    "RankingData",
    "RayConfig",
    "RoBiRank",
    "RoBiRankCV",
    "RobustClassifier",
    "ShardedModel",
    "__version__",
    "evaluate",
    "export_index",
    "export_linear",
    "fold_scaling",
    "listwise_loss",
    "load_dataset",
    "load_extra",
    "load_interactions",
    "load_letor",
    "load_model",
    "losses",
    "make_interactions",
    "make_ranking",
    "metrics",
    "normalize_queries",
    "open_partitions",
    "partition",
    "save_letor",
    "save_model",
    "split_leave_one_out",
    "split_new_users",
    "split_ratio",
    "split_time",
]

if TYPE_CHECKING:
    from robirank import losses, metrics
    from robirank.classifier import RobustClassifier
    from robirank.data.folds import load_dataset
    from robirank.data.generators import make_ranking
    from robirank.data.interaction_files import load_interactions
    from robirank.data.interactions import Interactions
    from robirank.data.letor import LetorFormatError, load_letor, save_letor
    from robirank.data.make_interactions import make_interactions
    from robirank.data.partitions import Partitions, open_partitions, partition
    from robirank.data.ranking import RankingData, normalize_queries
    from robirank.data.splits import (
        split_leave_one_out,
        split_new_users,
        split_ratio,
        split_time,
    )
    from robirank.engine.config import RayConfig
    from robirank.latent.loop import DivergenceError
    from robirank.latent.model import LatentRoBiRank
    from robirank.latent.options import EpochReport
    from robirank.latent.retrieve.evaluate import evaluate
    from robirank.latent.retrieve.export import export_index
    from robirank.latent.retrieve.sharded import ShardedModel
    from robirank.latent.warp import WARP
    from robirank.ltr.adarank import AdaRank
    from robirank.ltr.coordinate_ascent import CoordinateAscent
    from robirank.ltr.export import export_linear, fold_scaling
    from robirank.ltr.infnormpush import InfNormPush
    from robirank.ltr.irpush import IRPush
    from robirank.ltr.lambdamart import LambdaMART
    from robirank.ltr.listnet import ListNet
    from robirank.ltr.lsrank import LSRank
    from robirank.ltr.mart import MART
    from robirank.ltr.random_forests import RandomForests
    from robirank.ltr.rankboost import RankBoost
    from robirank.ltr.ranknet import RankNet
    from robirank.ltr.ranksvm import RankSVM
    from robirank.ltr.robirank import RoBiRank
    from robirank.ltr.robirank_cv import RoBiRankCV
    from robirank.objectives.listwise import listwise_loss
    from robirank.storage.estimators import ModelFileError, load_extra, load_model, save_model


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'robirank' has no attribute {name!r}")
    module = import_module(_HOMES[name])
    value = module if name in ("losses", "metrics") else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
