"""Compile the kernels that a service uses, into Numba's cache: run when an image is built.

Run: python tools/warm_kernels.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import rankwright as rw
from rankwright.serve.model_holder import ModelHolder


def main() -> None:
    data = rw.make_web_search(20, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        rw.Ranker(n_estimators=3, n_jobs=1, verbose=0).fit(data).save(path)
        holder = ModelHolder(path)
        holder.warm_up()
    print(f"compiled: {holder.current.seconds_per_row * 1e6:.2f} microseconds per row", file=sys.stderr)


if __name__ == "__main__":
    main()
