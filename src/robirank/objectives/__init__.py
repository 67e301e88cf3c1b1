"""Losses as functions of scores, and the linear objective on top of them."""
