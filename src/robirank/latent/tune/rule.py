r"""λ by a rule from the numbers of interactions of users and items alone.

The scale of λ is that of the noise in a table: the singular values that it would have if users drew
their items independently of each other.
"""

from __future__ import annotations

import numpy as np

from robirank.data.records import Records
from robirank.latent.solvers.penalty import EXPONENTS, RowLengths
from robirank.losses import RhoName

_MULTIPLE = 1.3  # of the noise, for users with one record
_TASTE = 0.55  # about 1 / (2 ln 2) is what the clearest taste of all reaches
_SMALL = 500  # records
_SAMPLED = 0.73  # with more users the best λ falls less than the noise: as this power of it
_WARP = 11.0  # the gradients of WARP, compared with those of ρ = log


def noise_level(
    users: RowLengths, items: RowLengths, exponents: tuple[float, float] = EXPONENTS
) -> float:
    r"""How large the singular values of a table without taste are, in units of λ.

    Around U = V = 0 the loss is linear in the scores, and a direction of the weighted table
    :math:`A^{-1/2} R B^{-1/2}` grows where its singular value exceeds λ. If users drew their items
    independently of each other, an entry would have the variance :math:`s_x t_y` with

    .. math:: s_x = n_x / (a_x \sqrt N), \qquad t_y = n_y / (b_y \sqrt N),

    and the noise would reach up to about

    .. math::
        \frac{1}{2 \ln 2} \Bigl(\sqrt{\bar s \textstyle\sum t_y}
        + \sqrt{\bar t \textstyle\sum s_x}\Bigr), \qquad
        \bar s = \frac{\sum s_x^2}{\sum s_x}, \quad \bar t = \frac{\sum t_y^2}{\sum t_y},

    which for rows of one length and columns of one length is the edge of Marchenko and Pastur. Only
    the numbers of records of rows and columns are needed.

    References
    ----------
    Marchenko, Pastur: Distribution of eigenvalues for some sets of random matrices. 1967.

    Examples
    --------
    A hundred users and a hundred items with 25 records each: (√100 + √100) / 2 ln 2 / √2500.

    >>> rows = RowLengths([25], [100])
    >>> round(noise_level(rows, rows), 4)
    0.2885
    """
    records = users.sum(1)
    if not records:
        return 0.0
    (s, s_bar), (t, t_bar) = (
        _variances(side, exponent, records)
        for side, exponent in zip((users, items), exponents, strict=True)
    )
    return float((np.sqrt(s_bar * t) + np.sqrt(t_bar * s)) / (2 * np.log(2)))


def _variances(rows: RowLengths, exponent: float, records: float) -> tuple[float, float]:
    """The sum of s = n / (a √N) over rows, and their mean weighted by s itself, Σ s² / Σ s."""
    scale = rows.sum(exponent) / records / np.sqrt(records)
    total, squares = scale * rows.sum(1 - exponent), scale**2 * rows.sum(2 - 2 * exponent)
    return total, squares / total


def default_regularization(
    users: RowLengths,
    items: RowLengths,
    *,
    rho: RhoName | None = "log",
    factors: int = 64,
    n_items: int | None = None,
    exponents: tuple[float, float] = EXPONENTS,
) -> float:
    r"""λ from the shape of a table alone.

    .. math:: λ = 1.3 \; σ \; \bar n^{-1/5} \, (d / 64)^{0.06}

    with the `noise_level` σ, the mean number \bar n of a user's records and d factors: the more a
    user's records say, the less it takes. A table of less than 500 records gets at most the λ of
    `clearest_taste`: so few say little about noise, and such tables are mostly examples. The
    constants come from fits to 19 tables of different shapes and sources (docs/method/penalty.md);
    for three of four of them, this λ has more than .95 of the recall of the best one. The gradients
    of other losses than ρ = log have another scale, and so has their λ.

    Examples
    --------
    >>> rows = RowLengths([25], [100])
    >>> round(default_regularization(rows, rows), 4)
    0.197
    """
    level = noise_level(users, items, exponents)
    items_there = n_items or int(items.sum(0))
    multiple = _MULTIPLE * max(users.mean(), 1.0) ** -0.2 * (factors / 64) ** 0.06
    reg = _gradient_scale(rho, items_there) * (multiple * level)
    return min(reg, clearest_taste(rho, items_there)) if users.sum(1) < _SMALL else reg


def clearest_taste(rho: RhoName | None, n_items: int) -> float:
    """The λ under which the clearest taste that a table can show is still learned.

    A search need not begin far above it. The noise of a table with one or two records a user is
    higher: under its λ, popularity alone is learned, which is all that can be.
    """
    return _gradient_scale(rho, n_items) * _TASTE


def _gradient_scale(rho: RhoName | None, n_items: int) -> float:
    """The size of a loss's gradients where factors are good, relative to those of ρ = log.

    None stands for WARP. At the start the gradients of the identity loss are larger by n_items, and
    they fall while it learns; those of "type2" are smaller by log²n_items, and rise.
    """
    if rho == "identity":
        return 1.5 * n_items**0.75
    if rho == "type2":
        return 2.0 / float(np.log2(n_items + 1.0)) ** 2
    return 1.0 if rho == "log" else _WARP


def scale_of_table(
    exponents: tuple[float, float], train: Records, sample: Records, records: Records
) -> float:
    """The factor that rescales a λ found on a part of a table to the whole table.

    ``train`` is what was left of a ``sample`` of the users of ``records`` after some of its records
    were held out. With more records of each user there is less noise in each row, and λ keeps its
    ratio to the noise; with more users it falls as a power of the noise.
    """
    part, users, table = (_noise_of(one, exponents) for one in (train, sample, records))
    return users / part * (table / users) ** _SAMPLED


def _noise_of(records: Records, exponents: tuple[float, float]) -> float:
    users = RowLengths.of_counts(records.user_counts())
    return noise_level(users, RowLengths.of_counts(records.item_counts()), exponents)
