"""Losses as functions of scores, and what is built on them.

``score_loss`` says what a loss is, ``listwise`` is RoBiRank's, and ``linear`` turns any of them
into an objective over the weights of a linear model.
"""
