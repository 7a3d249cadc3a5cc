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
data = rw.make_web_search(60, n_features=20, mean_length=30, seed=1)
ranker = rw.Ranker(n_estimators=20, num_leaves=255, min_child_samples=1, n_jobs=1, verbose=0)
ranker.fit(data)
clocks = time.perf_counter, time.process_time, time.thread_time
start = [clock() for clock in clocks]
ranker.fit(data)
print(json.dumps([clock() - began for clock, began in zip(clocks, start)]))
"""


def test_one_job_uses_one_core():
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wall, processor, own_thread = json.loads(done.stdout)
    assert processor <= 1.05 * wall
    assert processor - own_thread <= 0.05 * processor
