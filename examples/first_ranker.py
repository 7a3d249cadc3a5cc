"""Train a first ranker from a Parquet file, and save it."""

import pandas as pd

import rankwright as rw

# Your own file has a row for each document of each query: its features, the query's id, and how relevant it is.
data = rw.make_web_search(200, kind="short", n_features=20, random_state=1)
frame = pd.DataFrame(data.X, columns=data.feature_names).assign(query_id=data.qid, grade=data.y)
frame.to_parquet("judgements.parquet")

# Hold back a quarter of the queries. `split` never cuts a query in two.
judgements = rw.read_data("judgements.parquet", label="grade", qid="query_id")
train, test = judgements.split(0.25, random_state=1)

ranker = rw.Ranker(metric="ndcg@10", n_estimators=100, verbose=0).fit(train)
scores = ranker.predict(test)
print(rw.evaluate(scores, test.y, qid=test.qid, metrics=["ndcg@10", "map"]))

# The columns that decide most, by the gain of their splits.
importance = pd.Series(ranker.feature_importances_, index=ranker.model_.feature_names)
print(importance.nlargest(3).round(2).to_string())

# A saved model predicts without scikit-learn and without LightGBM.
ranker.save("model")
model = rw.load("model")
print((model.predict(test) == scores).all())
