"""Boosted trees with RoBiRank's loss, ready to use and in LightGBM's own training.

Needs LightGBM: pip install 'robirank[trees]'
"""

import lightgbm as lgb

import robirank as rr

data = rr.make_ranking(n_queries=600, n_features=10, nonlinear=True, random_state=0)
numbers = data.queries.unsort(data.queries.codes())
train, test = data.take(numbers < 400), data.take(numbers >= 400)

settings = {"learning_rate": 0.1, "subsample": 0.5, "random_state": 0}
trees = rr.RoBiRankBooster(60, **settings).fit(train.to_frame(), train.y, qid=train.qid)

booster = lgb.train(
    {"objective": rr.lightgbm_objective(), "num_leaves": 8, "verbose": -1, "seed": 0},
    lgb.Dataset(train.X, train.y, group=train.queries.sizes),
    num_boost_round=60,
)
linear = rr.RoBiRank().fit(train.X, train.y, qid=train.qid)
for name, scores in (
    ("trees", trees.predict(test.to_frame())),
    ("LightGBM's own training", booster.predict(test.X)),
    ("linear", linear.predict(test.X)),
):
    print(f"{name:24s} NDCG@10 {rr.metrics.ndcg(test.y, scores, test.qid, k=10):.3f}")
print(trees.explain(test.to_frame()[:1], test.to_frame()[1:2]))
