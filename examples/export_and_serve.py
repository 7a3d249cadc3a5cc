"""Export a model to a search engine, check the file, and rank documents over HTTP."""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy as np

import rankwright as rw

data = rw.make_web_search(100, kind="short", n_features=20, random_state=1)
train, test = data.split(0.25, random_state=1)
rw.Ranker(metric="ndcg@10", n_estimators=30, verbose=0).fit(train).save("model")

# Write a file for OpenSearch's plugin, and check by the plugin's rules that it scores as the model does.
rw.export("model", "opensearch", "model.json")
rw.write_letor(test, "test.txt")
rankwright = [sys.executable, "-m", "rankwright"]
check = [
    "verify-export",
    "model.json",
    "--to",
    "opensearch",
    "--model",
    "model",
    "--data",
    "test.txt",
]
print("exact:", subprocess.run([*rankwright, *check], capture_output=True).returncode == 0)

# Start the service on a free port of this machine, and wait until it is ready.
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
service = subprocess.Popen(
    [*rankwright, "serve", "model", "--port", str(port), "--log", "off"], stderr=subprocess.DEVNULL
)
address = f"http://127.0.0.1:{port}"
for _ in range(600):
    try:
        urllib.request.urlopen(f"{address}/ready")
        break
    except (urllib.error.URLError, ConnectionError):
        time.sleep(0.1)

# Rank three documents of a query. JSON has no NaN, so a missing value is null.
rows = [[None if np.isnan(value) else value for value in row] for row in test.X[:3].tolist()]
request = urllib.request.Request(
    f"{address}/rank",
    data=json.dumps({"rows": rows, "ids": ["a", "b", "c"], "allow_missing": True}).encode(),
    headers={"Content-Type": "application/json"},
)
answer = json.load(urllib.request.urlopen(request))
service.terminate()
service.wait()
print("ranking:", [result["id"] for result in answer["results"]])
print(
    "scores as in Python:",
    answer["results"][0]["score"] == max(rw.load("model").predict(test.X[:3])),
)
