# The flat public API: the one table of its names. It is read by type checkers, and at run time by
# lazy_loader.

from . import losses as losses
from . import metrics as metrics
from .classifier import RobustClassifier as RobustClassifier
from .data.folds import load_dataset as load_dataset
from .data.generators import make_ranking as make_ranking
from .data.interaction_files import load_interactions as load_interactions
from .data.interactions import Interactions as Interactions
from .data.letor import LetorFormatError as LetorFormatError
from .data.letor import load_letor as load_letor
from .data.letor_writer import save_letor as save_letor
from .data.make_interactions import make_interactions as make_interactions
from .data.partitions import Partitions as Partitions
from .data.partitions import open_partitions as open_partitions
from .data.partitions import partition as partition
from .data.ranking import RankingData as RankingData
from .data.ranking import normalize_queries as normalize_queries
from .data.splits import split_leave_one_out as split_leave_one_out
from .data.splits import split_new_users as split_new_users
from .data.splits import split_ratio as split_ratio
from .data.splits import split_time as split_time
from .engine.config import RayConfig as RayConfig
from .latent.loop import DivergenceError as DivergenceError
from .latent.model import LatentRoBiRank as LatentRoBiRank
from .latent.options import EpochReport as EpochReport
from .latent.retrieve.evaluate import evaluate as evaluate
from .latent.retrieve.export import export_index as export_index
from .latent.retrieve.sharded import ShardedModel as ShardedModel
from .latent.warp import WARP as WARP
from .ltr.adarank import AdaRank as AdaRank
from .ltr.booster_objectives import lightgbm_objective as lightgbm_objective
from .ltr.booster_objectives import xgboost_objective as xgboost_objective
from .ltr.coordinate_ascent import CoordinateAscent as CoordinateAscent
from .ltr.export import export_linear as export_linear
from .ltr.export import fold_scaling as fold_scaling
from .ltr.infnormpush import InfNormPush as InfNormPush
from .ltr.irpush import IRPush as IRPush
from .ltr.lambdamart import LambdaMART as LambdaMART
from .ltr.listnet import ListNet as ListNet
from .ltr.lsrank import LSRank as LSRank
from .ltr.mart import MART as MART
from .ltr.random_forests import RandomForests as RandomForests
from .ltr.rankboost import RankBoost as RankBoost
from .ltr.ranknet import RankNet as RankNet
from .ltr.ranksvm import RankSVM as RankSVM
from .ltr.robirank import RoBiRank as RoBiRank
from .ltr.robirank_booster import RoBiRankBooster as RoBiRankBooster
from .ltr.robirank_cv import RoBiRankCV as RoBiRankCV
from .objectives.listwise import listwise_loss as listwise_loss
from .storage.estimators import load_extra as load_extra
from .storage.estimators import load_model as load_model
from .storage.estimators import save_model as save_model
from .storage.tensor_file import ModelFileError as ModelFileError

__version__: str
