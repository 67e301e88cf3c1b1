"""The linear objective: any loss over scores, any kind of matrix, one call of L-BFGS."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.optimize import check_grad
from scipy.sparse.linalg import aslinearoperator

from robirank.objectives.linear import LinearObjective, minimize_lbfgs

RNG = np.random.default_rng(0)
X = RNG.standard_normal((20, 4))
TARGET = RNG.standard_normal(20)


class Squares:
    """Half the squared distance of the scores from a target."""

    def __call__(self, scores):
        return 0.5 * float((scores - TARGET) @ (scores - TARGET)), scores - TARGET


class SquaresInOnePass(Squares):
    passes = 0

    def of_linear(self, X, w):
        self.passes += 1
        loss, slope = self(X @ w)
        return loss, X.T @ slope


KINDS = {
    "dense": X,
    "csr": sp.csr_matrix(X),
    "array": sp.csr_array(X),
    "operator": aslinearoperator(X),
}


@pytest.mark.parametrize("matrix", KINDS.values(), ids=KINDS.keys())
@pytest.mark.parametrize("intercept", [False, True])
def test_value_and_gradient(matrix, intercept):
    objective = LinearObjective(matrix, Squares(), alpha=0.3, intercept=intercept)
    theta = RNG.standard_normal(4 + intercept)
    shift = theta[-1] if intercept else 0.0
    expected = Squares()(X @ theta[:4] + shift)[0] + 0.15 * float(theta[:4] @ theta[:4])
    assert objective(theta)[0] == pytest.approx(expected)
    assert check_grad(lambda t: objective(t)[0], lambda t: objective(t)[1], theta) < 1e-5


def test_one_native_pass_where_the_loss_and_the_matrix_allow_it():
    loss, w = SquaresInOnePass(), RNG.standard_normal(4)
    in_one = LinearObjective(X, loss, alpha=0.3)(w)
    assert loss.passes == 1
    for objective in (
        LinearObjective(sp.csr_matrix(X), loss, alpha=0.3),
        LinearObjective(X, Squares(), alpha=0.3),
    ):
        value, gradient = objective(w)
        assert value == pytest.approx(in_one[0])
        assert_allclose(gradient, in_one[1])
    assert loss.passes == 1


def test_minimum_is_ridge_regression():
    result = minimize_lbfgs(
        LinearObjective(X, Squares(), alpha=0.5), np.zeros(4), max_iter=100, gtol=1e-10
    )
    assert_allclose(result.x, np.linalg.solve(X.T @ X + 0.5 * np.eye(4), X.T @ TARGET), atol=1e-9)


def test_after_iteration_sees_the_point_and_can_end_it():
    objective, seen = LinearObjective(X, Squares()), []

    def stop(w, value, gradient):
        seen.append(value)
        assert value == objective(w)[0]
        assert_allclose(gradient, objective(w)[1])
        return len(seen) == 2

    result = minimize_lbfgs(objective, np.zeros(4), max_iter=100, gtol=0.0, after_iteration=stop)
    assert result.nit == len(seen) == 2
    assert seen[0] > seen[1] == result.fun
