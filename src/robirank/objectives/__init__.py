"""Losses as functions of scores, and what is built on them.

``score_loss`` is the protocol, ``listwise`` has RoBiRank's loss, and ``linear`` turns any loss into
an objective over the weights of a linear model.
"""
