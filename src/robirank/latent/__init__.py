"""Rankers over ids: one model class, its solvers, WARP, retrieval, fold-in."""
