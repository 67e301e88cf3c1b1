"""Rankers over feature vectors: one method a file, one small base."""
