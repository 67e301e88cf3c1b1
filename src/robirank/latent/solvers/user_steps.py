r"""The steps of users in the exact solver: Newton's, under a curvature that all users share.

With the rows of items fixed, the loss of user x has, but for the concavity of ρ, the Hessian

.. math::
    \ln 2 \sum_y w_y ρ'(t_y) \sum_{y'} h_{yy'} (1 - h_{yy'})
    (V_y - V_{y'}) (V_y - V_{y'})^T, \qquad h_{yy'} = 1 / (1 + 2^{s_y - s_{y'}})

where y runs over the user's items. The pairs that weigh most are of items that many users take, and
at first every item counts, also those that nobody takes. So pairs of items stand for them of which
three quarters are drawn by their numbers of interactions and one quarter evenly: twice their
covariance C.
The weights of all pairs add up to at most

.. math:: κ_x = \sum_y w_y ρ'(t_y) \sum_{y'} h_{yy'} \approx \ln 2 \sum_y w_y t_y ρ'(t_y),

because a small :math:`σ_0` is :math:`h / \ln 2`. So the step is

.. math:: U_x \leftarrow U_x - (θ \, 2 \ln 2 \, κ_x C + λ a_x I)^{-1} \; \partial / \partial U_x

with θ = 2 or more, because items move at the same time, along the same directions.

The items can be stepped with the users' new rows or with the old ones. With the new ones weak
tastes grow faster. But where there are more directions than strong tastes, users follow the noise
of the items at once, the items follow them, and the noise stays. So the more factors, the larger is
θ, and the older are the rows that the items see; with very many there are more steps, so that these
rows are less old: `StepSettings`.

Every fourth step renews C; its eigenvectors, which cost more, change little after the first epochs,
and are then renewed seldom: the variances along them stand for its eigenvalues. Along directions in
which items hardly differ a step of plain gradients is far too short; this one is not, and a fit
takes a third of the epochs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from robirank._types import Floats32, Floats64, Ints64
from robirank.data.user_items import UserItems
from robirank.losses import LN2, RhoName

#: Steps of an epoch with up to 128 factors, about.
USUAL_STEPS = 60
_RENEWED, _TURNED = 4, 20  # steps of which one renews C; steps of which one turns its directions
_FIRST_STEPS = 120  # in which every renewal turns them
_SAMPLE = 4096  # interactions whose items C is taken from, about
_NEVER_ONE = 1.0 - 1e-9  # a bound of losses under "type2"


class StepSettings(NamedTuple):
    """How far users go in a step, how much of it items see, and how many steps an epoch has.

    Attributes
    ----------
    damping : float
        θ.
    seen : float
        The share of the users' step in the rows that items are stepped with.
    steps : int
        Of an epoch, about.
    """

    damping: float
    seen: float
    steps: int

    @classmethod
    def of(cls, factors: int) -> StepSettings:
        """Of so many factors; docs/method/latent.md has what was measured.

        Examples
        --------
        >>> StepSettings.of(64)
        StepSettings(damping=2.0, seen=1.0, steps=60)
        >>> StepSettings.of(96)
        StepSettings(damping=3.0, seen=0.5, steps=60)
        >>> StepSettings.of(256)
        StepSettings(damping=4.0, seen=0.0, steps=120)
        """
        share = min(max(factors / 64 - 1.0, 0.0), 1.0)
        steps = USUAL_STEPS * min(max(factors / 128, 1.0), 2.0)
        return cls(2.0 + 2.0 * share, 1.0 - share, int(steps))


def sampled_items(interactions: UserItems, step: int) -> Any:
    """Items that C is taken from: some by their interactions, and a third as many evenly.

    Examples
    --------
    >>> table = UserItems(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), None, n_items=2)
    >>> sampled_items(table, step=0).tolist()
    [0, 1, 1, 0]
    """
    stride = max(1, interactions.n_interactions // _SAMPLE)
    taken = interactions.items[step % stride :: stride]
    evenly = np.linspace(0, interactions.n_items, -(-len(taken) // 3), endpoint=False) + step
    return np.concatenate([taken, evenly.astype(np.int64) % interactions.n_items])


def spectrum(covariance: Floats64) -> tuple[Floats32, Floats32]:
    """Eigenvalues and eigenvectors of covariances.

    Of what is not finite the values are infinite, so that users stay where they are; the loop
    reports the divergence.

    Examples
    --------
    >>> values, vectors = spectrum(np.diag([1.0, 3.0]))
    >>> values.tolist()
    [1.0, 3.0]
    """
    is_finite = np.asarray(np.isfinite(covariance).all(axis=(-2, -1)))[..., None]
    values, vectors = np.linalg.eigh(np.where(is_finite[..., None], covariance, 0.0))
    values = np.where(is_finite, np.maximum(values, 0.0), np.inf)
    return values.astype(np.float32), vectors.astype(np.float32)


def pair_weights(losses: Any, weights: Any, rho: RhoName) -> Any:
    r"""κ of users with these losses and weights of interactions, from a user's mean loss.

    .. math:: \ln 2 \; t ρ'(t) = 1 - 2^{-ρ}, \quad \ln 2 \; ρ, \quad
        (1 - 2^{1 - 1 / (1 - ρ)}) (1 - ρ)^2 \qquad \text{for log, identity, type2.}

    Arrays are those of NumPy or PyTorch.

    Examples
    --------
    Of an item with one other above it, t = 1: ln 2 · 1 / (2 ln 2).

    >>> float(pair_weights(np.array([1.0]), np.array([1.0]), "log")[0])
    0.5
    """
    mean = losses / weights
    if rho == "log":
        return weights * (1.0 - 2.0**-mean)
    if rho == "identity":
        return weights * (LN2 * mean)
    rest = 1.0 - _NEVER_ONE * mean
    return weights * (1.0 - 2.0 ** (1.0 - 1.0 / rest)) * rest**2


def newton_steps(
    gradient: Any, kappa: Any, penalty: Any, curvature: tuple[Any, Any], damping: float = 2.0
) -> Any:
    """The steps of users, one a row, from gradients with the penalty's share.

    Parameters
    ----------
    gradient : array of shape (…, users, factors)
    kappa, penalty : arrays of shape (…, users)
        κ_x and λ a_x.
    curvature : pair of arrays
        What `spectrum` gives for C.
    damping : float
        θ.

    Examples
    --------
    >>> C = spectrum(np.array([[1.0, 0.0], [0.0, 0.0]]))
    >>> newton_steps(np.ones((1, 2)), np.ones(1), np.ones(1), C).round(3).tolist()
    [[0.265, 1.0]]
    """
    values, vectors = curvature
    along = gradient @ vectors
    along /= (damping * 2.0 * LN2) * kappa[..., None] * values[..., None, :] + penalty[..., None]
    return along @ vectors.swapaxes(-1, -2)


def renewal(in_epoch: int, steps_done: int) -> tuple[bool, bool]:
    """Whether a step renews C, and whether its directions are turned.

    ``in_epoch`` counts the steps of the epoch, whose first one does both: a fit that goes on from a
    checkpoint has the same bits.

    Examples
    --------
    >>> renewal(0, 300), renewal(3, 303), renewal(4, 304), renewal(4, 64)
    ((True, True), (False, False), (True, False), (True, True))
    """
    renews = in_epoch % _RENEWED == 0
    return renews, renews and (steps_done < _FIRST_STEPS or in_epoch % _TURNED == 0)


class UserSteps:
    """Newton's steps of the users of a table, for factors in memory.

    Parameters
    ----------
    interactions : UserItems
    rho : str
    factors : int
    """

    def __init__(self, interactions: UserItems, rho: RhoName, factors: int) -> None:
        self._interactions, self._rho = interactions, rho
        self.settings = StepSettings.of(factors)
        self._weights = weight_sums(interactions)
        self._curvature: tuple[Floats32, Floats32]

    def renew(self, V: Floats32, in_epoch: int, steps_done: int) -> None:
        """Take C from items of the table, if it is time."""
        renews, turns = renewal(in_epoch, steps_done)
        if not renews:
            return
        rows = V[sampled_items(self._interactions, steps_done)]
        rows = rows - rows.mean(axis=0)
        with np.errstate(over="ignore", invalid="ignore"):  # the loop reports divergence
            if turns:
                self._curvature = spectrum((rows.T @ rows / len(rows)).astype(np.float64))
            else:
                directions = self._curvature[1]
                self._curvature = ((rows @ directions) ** 2).mean(axis=0), directions

    def of(
        self, users: Ints64, gradient: Floats32, losses: Floats64, penalty: Floats32
    ) -> Floats32:
        """The steps of some users, from their gradients and losses, and their λ a_x."""
        kappa = pair_weights(losses, self._weights[users], self._rho).astype(np.float32)
        damping = self.settings.damping
        steps: Floats32 = newton_steps(gradient, kappa, penalty, self._curvature, damping)
        return steps


def weight_sums(interactions: UserItems) -> Floats64:
    """The sum of the weights of each user's interactions; one for users without."""
    counts = interactions.user_counts()
    if interactions.weight is None:
        return np.maximum(counts, 1).astype(np.float64)
    rows = np.repeat(np.arange(len(counts)), counts)
    sums = np.bincount(rows, interactions.weight, len(counts))
    return np.where(sums > 0, sums, 1.0)
