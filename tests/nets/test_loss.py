"""The loss for PyTorch: the same as the native one, and its derivative."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from robirank import listwise_loss, make_ranking

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

from robirank.torch import robirank_loss  # noqa: E402

RHOS = ("log", "identity", "type2")


@pytest.fixture(scope="module")
def data():
    return make_ranking(n_queries=20, n_docs=(1, 12), n_features=3, empty=0.2, random_state=0)


def scores_of(data, dtype=torch.float64):
    values = np.random.default_rng(0).standard_normal(len(data)) * 3
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def padded(data, scores):
    """The same lists as rows of a matrix, the padding full of traps."""
    longest = int(data.queries.sizes.max())
    shape = (data.n_queries + 1, longest)  # one list has nothing but padding
    mask = torch.zeros(shape, dtype=torch.bool)
    for number, size in enumerate(data.queries.sizes):
        mask[number, -int(size) :] = True
    labels = torch.full(shape, 4.0)
    labels[mask] = torch.tensor(data.y)
    wide = torch.full(shape, 50.0, dtype=scores.dtype)
    wide[mask] = scores.detach()
    return wide.requires_grad_(), labels, mask


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("metric", ["ndcg", "dcg"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_loss_and_gradient_are_the_native_ones(data, rho, metric, dtype):
    scores = scores_of(data, dtype)
    loss = robirank_loss(scores, torch.tensor(data.y), data.qid, rho=rho, metric=metric)
    loss.backward()
    given = scores.detach().double().numpy()
    expected = listwise_loss(given, data.y, data.qid, rho=rho, metric=metric)
    close = {"rtol": 2e-3, "atol": 1e-3} if dtype == torch.float16 else {"rtol": 1e-4, "atol": 1e-5}
    assert scores.grad.dtype == dtype
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert_allclose(loss.item(), expected.loss, **close)
    assert_allclose(scores.grad.double().numpy(), expected.gradient, **close)


@pytest.mark.parametrize("rho", RHOS)
def test_gradcheck(data, rho):
    data = data.take(data.qid <= 6)
    labels = torch.tensor(data.y)
    assert torch.autograd.gradcheck(
        lambda s: robirank_loss(s, labels, data.qid, rho=rho), (scores_of(data),)
    )
    wide, wide_labels, mask = padded(data, scores_of(data))
    assert torch.autograd.gradcheck(
        lambda s: robirank_loss(s, wide_labels, mask=mask, rho=rho), (wide,)
    )


def test_padded_lists_are_the_ragged_ones(data):
    scores = scores_of(data)
    ragged = robirank_loss(scores, torch.tensor(data.y), data.qid)
    ragged.backward()
    wide, labels, mask = padded(data, scores)
    loss = robirank_loss(wide, labels, mask=mask)
    (3 * loss).backward()
    assert loss.item() == pytest.approx(ragged.item(), rel=1e-12)
    assert_allclose(wide.grad[mask].numpy(), 3 * scores.grad.numpy(), rtol=1e-9, atol=1e-15)
    assert not wide.grad[~mask].any()


def test_without_mask_nothing_is_padding():
    scores, labels = torch.randn(3, 4), torch.tensor([[1.0, 0, 0, 2]] * 3)
    rows = robirank_loss(scores.reshape(-1), labels.reshape(-1), np.repeat([0, 1, 2], 4))
    assert robirank_loss(scores, labels).item() == pytest.approx(rows.item())


def test_nothing_relevant_is_no_loss():
    scores = torch.randn(5, requires_grad=True)
    loss = robirank_loss(scores, torch.zeros(5))
    loss.backward()
    assert loss.item() == 0
    assert not scores.grad.any()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_an_empty_batch_is_no_loss(shape):
    scores = torch.zeros(shape, requires_grad=True)
    loss = robirank_loss(scores, torch.zeros(shape))
    loss.backward()
    assert (loss.item(), loss.dtype, scores.grad.shape) == (0.0, torch.float32, shape)


def test_a_batch_of_padding_is_no_loss():
    scores = torch.full((2, 3), torch.nan, dtype=torch.float16, requires_grad=True)
    nowhere = torch.zeros((2, 3), dtype=torch.bool)
    loss = robirank_loss(scores, torch.ones(2, 3), mask=nowhere)
    loss.backward()
    assert loss.item() == 0
    assert not scores.grad.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_has_a_loss_beyond_its_range(dtype):
    """One pair of equal scores loses its gain, 2^17 − 1; float16 ends at 65,504."""
    scores = torch.zeros(2, dtype=dtype, requires_grad=True)
    loss = robirank_loss(scores, torch.tensor([17.0, 0.0]), metric="dcg")
    assert (loss.item(), loss.dtype) == (pytest.approx(2**17 - 1), torch.float32)
    (loss / 2**17).backward()
    assert scores.grad.tolist() == pytest.approx([-0.3607, 0.3607], rel=5e-3)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_scores_that_no_gradient_flows_to(dtype):
    with pytest.raises(TypeError, match=f"scores must be of a floating-point type.*{dtype}"):
        robirank_loss(torch.zeros(2, dtype=dtype), torch.ones(2))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_scores_that_are_not_finite(bad):
    with pytest.raises(ValueError, match="scores must be finite"):
        robirank_loss(torch.tensor([0.0, bad]), torch.tensor([1.0, 0.0]))


@pytest.mark.parametrize(
    ("shapes", "extra", "message"),
    [
        (((3,), (4,)), {}, "labels must have the shape of scores"),
        (((3,), (3,)), {"mask": torch.ones(3, dtype=torch.bool)}, "mask is for padded lists"),
        (((2, 3), (2, 3)), {"qid": [0, 1]}, "qid is for scores of shape"),
        (((2, 3), (2, 3)), {"mask": torch.ones(2, 3)}, "mask must be a bool tensor"),
        (((1, 2, 3), (1, 2, 3)), {}, r"\(n_rows,\) or \(n_lists, length\)"),
        (((3,), (3,)), {"rho": "square"}, "rho must be one of"),
    ],
)
def test_errors_name_the_argument(shapes, extra, message):
    with pytest.raises(ValueError, match=message):
        robirank_loss(torch.zeros(shapes[0]), torch.ones(shapes[1]), **extra)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_card_gives_the_same(data):
    scores = scores_of(data)
    moved = scores.detach().cuda().requires_grad_()
    labels = torch.tensor(data.y)
    here = robirank_loss(scores, labels, data.qid)
    there = robirank_loss(moved, labels.cuda(), data.qid)
    here.backward()
    there.backward()
    assert there.item() == pytest.approx(here.item(), rel=1e-6)
    assert_allclose(moved.grad.cpu().numpy(), scores.grad.numpy(), rtol=1e-5, atol=1e-9)
