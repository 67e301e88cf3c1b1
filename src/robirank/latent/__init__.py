"""Rankers over ids: users and items as points whose inner product is the score."""
