"""Rankers over feature vectors: one method in each file, on one small base."""
