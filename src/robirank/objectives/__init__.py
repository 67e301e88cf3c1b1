"""Losses as functions of scores, and objectives of linear models that are built on them."""
