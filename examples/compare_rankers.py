"""Compare two rankers with what ranks today, query by query, with significance."""

import numpy as np

import rankwright as rw

data = rw.make_web_search(300, kind="short", n_features=20, random_state=1)
train, test = data.split(0.4, random_state=1)

# Any scores can be evaluated: here a single column, as a search engine may sort by it today.
today = np.nan_to_num(test.X[:, 4])
lambdamart = rw.Ranker("lambdamart", metric="ndcg@10", verbose=0).fit(train)
default = rw.Ranker(metric="ndcg@10", verbose=0).fit(train)


def evaluation(scores: np.ndarray) -> rw.Evaluation:
    return rw.evaluate(scores, test.y, qid=test.qid, metrics="ndcg@10")


comparison = rw.compare(
    evaluation(today),
    evaluation(lambdamart.predict(test)),
    evaluation(default.predict(test)),
    names=["today", "lambdamart", "default"],
)
print(comparison)

# The same as a picture: each system's difference to the first, with its interval.
rw.plot_comparison(comparison).save("comparison.svg")
