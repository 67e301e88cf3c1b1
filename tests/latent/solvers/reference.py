"""The sampled updates in plain NumPy, in the order of the formulas, with the native draws."""

import numpy as np

from robirank import _core

TINY = 1e-10


def cells_of(n_items, cell_items):
    """Where the cells of a block begin and end."""
    n = max(1, min(-(-n_items // cell_items), n_items // 2))
    return [(n_items * c // n, n_items * (c + 1) // n) for c in range(n)]


def records_of(part, block, position, begin, end):
    """(user, place in the cell, interaction) of the interactions that lie in a cell."""
    for x in range(len(part.users)):
        for r in range(part.interactions.indptr[x], part.interactions.indptr[x + 1]):
            place = position[part.interactions.items[r]] - block.first - begin
            if 0 <= place < end - begin:
                yield x, place, r


def proposal(popularity, uniform, popular):
    """The table of the popular draws, and 1 / expected number of draws of each item."""
    n = len(popularity)
    total = np.cumsum(popularity if popularity.sum() > 0 else np.ones(n), dtype=float)
    targets = (np.arange(n) + 0.5) * total[-1] / n
    table = np.minimum(np.searchsorted(total, targets), n - 1)
    entries = np.bincount(table, minlength=n)
    return table, n / (uniform + popular * entries)


def descend(row, gradient, rate, factors, acc, i):
    acc[i] += gradient @ gradient / factors
    row -= rate * gradient / np.sqrt(acc[i] + TINY)


def robirank_task(part, block, position, steps, key, cell_items):
    """What `sgd_task` does, on float64 arrays of the part and the block."""
    n_items, loss, draws = len(position), 0.0, 0
    uniform = (steps.negatives + 1) // 2
    for c, (begin, end) in enumerate(cells_of(len(block), cell_items)):
        n = end - begin
        V, acc, penalty = (
            a[begin:end] for a in (block["V"], block["item_sums"], block["item_penalty"])
        )
        table, inverse = proposal(
            block["item_counts"][begin:end], uniform, steps.negatives - uniform
        )
        scale = (n_items - 1) / (n - 1)
        for i, (x, y, r) in enumerate(records_of(part, block, position, begin, end)):
            drawn = _core.sgd_draws(key=key, cell=c, interaction=i, n=steps.negatives, bound=n)
            drawn = drawn.astype(int)
            drawn[uniform:] = table[drawn[uniform:]]
            u = part["U"][x].copy()
            s, others = V[y] @ u, V[drawn] @ u
            h = 1 / (1 + np.exp2(s - others))
            pull = part["rho_weight"][r] * scale * np.where(drawn == y, 0, inverse[drawn]) * h
            if drawn[0] != y:
                loss += part["rho_weight"][r] * scale * n * np.logaddexp2(0, others[0] - s)
            gain = pull**2 * (u @ u) / steps.factors
            step = steps.rate_v * pull / np.sqrt(acc[drawn] + gain + TINY)
            gradient = part["user_penalty"][x] * u - pull.sum() * V[y]
            for k, j in enumerate(drawn):
                gradient += pull[k] * V[j]
                V[j] -= step[k] * u
            np.add.at(acc, drawn, gain)
            of_y = penalty[y] * V[y] - pull.sum() * u
            descend(V[y], of_y, steps.rate_v, steps.factors, acc, y)
            descend(part["U"][x], gradient, steps.rate_u, steps.factors, part["user_sums"], x)
            draws += steps.negatives
    return draws, loss


def triple_loss(rows):
    """σ0 of one interaction (x, y) held against one item y', of the rows U_x, V_y and V_y'."""
    u, v, other = rows
    return np.logaddexp2(0, u @ other - u @ v)


def triple_gradient(rows):
    """Its gradient by the three rows."""
    u, v, other = rows
    h = 1 / (1 + np.exp2(u @ v - u @ other))
    return np.stack([h * (other - v), -h * u, h * u])


def literal_gradient(rows):
    """What the paper's Algorithms 1 and 2 step along, read literally: V_y' stays as it is."""
    gradient = triple_gradient(rows)
    gradient[2] = 0
    return gradient


def warp_task(part, block, position, steps, key, cell_items):
    """What `warp_task` does, on float64 arrays of the part and the block."""
    loss, draws = 0.0, 0
    max_trials = len(steps.weight_after) - 1
    for c, (begin, end) in enumerate(cells_of(len(block), cell_items)):
        V, acc, penalty = (
            a[begin:end] for a in (block["V"], block["item_sums"], block["item_penalty"])
        )
        interactions = list(records_of(part, block, position, begin, end))
        for i, (x, y, r) in enumerate(interactions):
            own = {place for user, place, _ in interactions if user == x}
            u = part["U"][x].copy()
            trials = 0
            place = {"key": key, "cell": c, "interaction": i}
            for j in _core.sgd_draws(**place, n=max_trials, bound=end - begin):
                if j in own:
                    continue
                trials += 1
                draws += 1
                violation = steps.margin + V[j] @ u - V[y] @ u
                if violation <= 0:
                    continue
                weight = steps.weight_after[trials]
                weight *= 1.0 if part.interactions.weight is None else part.interactions.weight[r]
                loss += weight * violation
                gradient = part["user_penalty"][x] * u + weight * (V[j] - V[y])
                rate, d = steps.rate_v, steps.factors
                descend(V[j], weight * u, rate, d, acc, j)
                descend(V[y], penalty[y] * V[y] - weight * u, rate, d, acc, y)
                descend(part["U"][x], gradient, steps.rate_u, d, part["user_sums"], x)
                break
    return draws, loss
