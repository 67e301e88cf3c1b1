"""Give a gradient booster RoBiRank's loss: gradient and Hessian of the scores are all it needs.

Needs LightGBM: pip install 'robirank[trees]'
"""

import lightgbm as lgb

import robirank as rr

data = rr.make_ranking(n_queries=600, n_features=10, nonlinear=True, random_state=0)
numbers = data.queries.unsort(data.queries.codes())
train, test = data.take(numbers < 400), data.take(numbers >= 400)


def objective(scores, dataset):
    loss = rr.listwise_loss(
        scores, dataset.get_label(), train.qid, metric="dcg", hessian="majorant"
    )
    return loss.gradient * train.n_queries, loss.hessian * train.n_queries + 1e-6


booster = lgb.train(
    {"objective": objective, "num_leaves": 8, "learning_rate": 0.1, "verbose": -1, "seed": 0},
    lgb.Dataset(train.X, train.y),
    num_boost_round=60,
)
linear = rr.RoBiRank().fit(train.X, train.y, qid=train.qid)
for name, scores in (("trees", booster.predict(test.X)), ("linear", linear.predict(test.X))):
    print(f"{name:6s} NDCG@10 {rr.metrics.ndcg(test.y, scores, test.qid, k=10):.3f}")
