"""The laboratory of robirank: the paper's experiments, their report, a demonstration."""

from robirank_lab.ltr.methods import add_method as add_method
from robirank_lab.ltr.methods import log_grid as log_grid
