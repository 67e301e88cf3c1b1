"""Train RoBiRank on judged documents, choose its penalty, and look at what it learned."""

import robirank as rr

data = rr.make_ranking(n_queries=300, n_features=10, outliers=0.05, random_state=0)
numbers = data.queries.unsort(data.queries.codes())
train, vali, test = (data.take(numbers % 3 == part) for part in range(3))

model = rr.RoBiRankCV().fit(train.X, train.y, qid=train.qid, validation=vali)
scores = model.predict(test.X)

print(f"penalty {model.alpha_:g}, chosen by NDCG@10 {model.best_score_:.3f} on validation queries")
for measure, value in rr.metrics.evaluate_ranking(test.y, scores, test.qid).items():
    print(f"{measure:8s} {value:.3f}")
strongest = sorted(zip(abs(model.coef_), data.feature_names, strict=True), reverse=True)[:3]
print("strongest features:", ", ".join(name for _, name in strongest))
