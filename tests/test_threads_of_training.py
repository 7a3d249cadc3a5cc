"""With one thread a training uses one core throughout."""

from __future__ import annotations

import json
import subprocess
import sys

# In a process of its own, where a BLAS library has all the threads it likes. In the second training all kernels are
# compiled. Threads that wait for each other look idle on a busy machine, so what others than this thread used is
# counted as well.
_SCRIPT = """
import json, time
import rankwright as rw
data, valid = rw.make_web_search(460, n_features=20, mean_length=30, random_state=1).split(400 / 460)
ranker = rw.Ranker(n_estimators=20, num_leaves=255, min_child_samples=1, n_jobs=1, verbose=0)
ranker.fit(data, eval_set=valid)
clocks = time.perf_counter, time.process_time, time.thread_time
start = [clock() for clock in clocks]
ranker.fit(data, eval_set=valid)
print(json.dumps([clock() - began for clock, began in zip(clocks, start)]))
"""


def test_one_job_uses_one_core():
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wall, processor, own_thread = json.loads(done.stdout)
    assert processor <= 1.05 * wall
    assert processor - own_thread <= 0.05 * processor


# What other threads than this one used, of trained models: each use is repeated until it has taken a while.
_USES = """
import json, time
import rankwright as rw
data = rw.make_web_search(800, n_features=60, mean_length=60, random_state=1)
ranker = rw.Ranker(n_estimators=5, within_query="rank", n_jobs=1, verbose=0).fit(data.subset(range(100)))
rest = data.subset(range(100, 800))
uses = {
    "predict": lambda: ranker.predict(rest.X, qid=rest.qid),
    "calibrate": lambda: ranker.calibrate(rest),
    "explain": lambda: ranker.explain(rest, 0, 1),
    "score": lambda: ranker.score(rest),
}
others = {}
for name, use in uses.items():
    use()
    process, thread = time.process_time(), time.thread_time()
    while time.process_time() - process < 0.2:
        use()
    used = time.process_time() - process
    others[name] = (used - (time.thread_time() - thread)) / used
print(json.dumps(others))
"""


def test_one_job_scores_in_one_core():
    done = subprocess.run([sys.executable, "-c", _USES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    others = json.loads(done.stdout)
    assert max(others.values()) <= 0.05, others
