"""Balance relevance and margin, and see what more of one goal costs of the other."""

import numpy as np

import rankwright as rw

data = rw.make_web_search(120, kind="short", n_features=20, random_state=1)
margin = np.clip(np.round(2 - data.X[:, 0]), 0, 4)
both = rw.RankingData(data.X, {"relevance": data.y, "margin": margin}, qid=data.qid)
train, test = both.split(0.4, random_state=1)

# Five trainings with different weights, evaluated on held-out folds.
metrics = ["ndcg@10", "ndcg@10[margin]"]
goals = ["yetiloss", "yetiloss(label=margin)"]
sweep = rw.sweep_goals(train, goals, metrics, steps=4, folds=2, parameters={"n_estimators": 30})
print(sweep)

# The balance that you choose is an objective like any other.
balance = "yetiloss + 0.3 yetiloss(label=margin)"
ranker = rw.Ranker(balance, metric=metrics, n_estimators=60, verbose=0).fit(train)
print(rw.evaluate(ranker.predict(test), test.labels, qid=test.qid, metrics=metrics))
