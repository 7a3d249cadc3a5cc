"""Learn from clicks, correct for the position where documents were shown, and see what it gains."""

import numpy as np

import rankwright as rw

data = rw.make_web_search(300, kind="short", n_features=20, random_state=1)
test = rw.make_web_search(200, first_query=300, kind="short", n_features=20, random_state=1)

# Simulated users look at position k with probability 1 / k in the lists of two old rankers, each a single column.
# A real log comes from `rw.read_clicks`.
old = [np.nan_to_num(data.X[:, column]) for column in (4, 6)]
log = rw.simulate_clicks(data, old, impressions=40, random_state=1)
clicks = log.to_data(by="session", examined_only=False)

settings = {"objective": "lambdamart", "n_estimators": 60, "reg_lambda": 100, "verbose": 0}
naive = rw.Ranker(**settings).fit(clicks)
corrected = rw.Ranker(**settings).fit(clicks, position="position")
judged = rw.Ranker(**settings).fit(data)
for name, ranker in [("naive", naive), ("corrected", corrected), ("from judgements", judged)]:
    print(f"{name:<16}{ranker.score(test):.3f}")

# How likely each position is looked at, as found from the clicks. The truth is 1, 0.5, 0.33 and 0.25.
looks = corrected.examination_["position"]
print([round(looks[position], 2) for position in (1, 2, 3, 4)])
rw.plot_position_bias(corrected, examination=True).save("clicks.svg")
