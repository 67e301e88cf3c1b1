"""From a table of who played what to recommendations, for known users and for new ones."""

import robirank as rr

plays = rr.make_interactions(1000, 400, 30_000, noise=0.1, random_state=0)
train, test = rr.split_ratio(plays, 0.2, random_state=0)

model = rr.LatentRoBiRank(factors=16, random_state=0).fit(train, show_progress=False)
print(f"solver {model.solver_}, {model.n_iter_} epochs, loss {model.history_[-1]['loss']:.3f}")
print(rr.evaluate(model, train=train, test=test, k=(1, 10)))

user = 7
ids, scores = model.recommend(user, train.matrix[user], N=5)
hidden = set(test.matrix[user].indices)
print(f"user {user}:", ", ".join(f"{i}{' (hidden)' if i in hidden else ''}" for i in ids))

like, cosines = model.similar_items(ids[0], N=4)
print(f"like item {like[0]}: {', '.join(map(str, like[1:]))}, cosines {cosines[1:].round(2)}")

new = train.matrix[user]  # as if the model had never seen them
ids, scores = model.recommend(0, new, N=5, recalculate_user=True)
print("the same user, folded in:", ", ".join(map(str, ids)))

model.save("model.safetensors")
assert (rr.LatentRoBiRank.load("model.safetensors").recommend(0, new, N=5)[0] >= 0).all()
