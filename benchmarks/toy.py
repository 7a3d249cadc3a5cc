"""Table 1 of the StochasticRank paper: a problem of five documents with a local optimum at NDCG@3 = 0.903.

    python benchmarks/toy.py [--seeds 3]

The global optimum is 0.917. The paper's figures are 0.917 for StochasticRank with Langevin boosting and 0.903 for
the others.
"""

from __future__ import annotations

import argparse

import numpy as np

from rankwright import Ranker

FEATURES = np.eye(3)[[0, 1, 2, 2, 0]]
LABELS, QUERIES = [3, 2, 1, 3, 2], [1, 1, 1, 2, 2]
TREES = {"n_estimators": 1000, "learning_rate": 0.1, "num_leaves": 8, "max_depth": 3, "min_child_samples": 1}
TREES |= {"reg_lambda": 0.0, "subsample": 1.0, "colsample": 1.0, "engine_params": {"min_data_in_bin": 1}, "n_jobs": 1}
SGLB = {"langevin": True, "diffusion_temperature": 1e3, "shrink_rate": 1e-3}
METHODS: list[tuple[str, dict, str]] = [
    ("stochasticrank", SGLB, "0.917"),
    ("stochasticrank(mu=0.1)", SGLB, "0.917"),
    ("lambdamart", {}, "0.903"),
    ("lambdaloss", {}, "0.903"),
    ("lambdamart(noise=gumbel)", {}, "0.903"),
    ("lambdaloss(noise=gumbel)", {}, "0.903"),
    ("softrank", {}, "0.903"),
    ("xendcg", {}, "-"),
    ("listnet", {}, "-"),
    ("yetirank", {}, "-"),
    ("yetiloss", {}, "-"),
    ("queryrmse", {}, "-"),
    ("ranknet", {}, "-"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    for objective, options, paper in METHODS:
        reached = []
        for seed in range(args.seeds):
            ranker = Ranker(objective, "ndcg@3", random_state=seed, verbose=0, **TREES, **options)
            reached.append(ranker.fit(FEATURES, LABELS, qid=QUERIES).score(FEATURES, LABELS, QUERIES))
        shown = " ".join(f"{value:.3f}" for value in reached)
        print(f"{objective:28s} {'with SGLB' if options else '':10s} paper {paper:6s} here {shown}", flush=True)


if __name__ == "__main__":
    main()
