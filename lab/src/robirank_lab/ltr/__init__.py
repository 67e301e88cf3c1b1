"""The comparison of rankers over feature vectors."""
