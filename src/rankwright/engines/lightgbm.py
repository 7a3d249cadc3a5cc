"""LightGBM as the engine: trees from gradients, leaf by leaf, and forests that predict.

Only LightGBM's public interface is used. Facts it rests on, each held by a test: the trained scores equal the sum of
the trees' outputs bit by bit; a booster that starts from such scores goes on as if it had never stopped; with
gradients whose sums are exact the number of threads changes nothing; which rows and columns a tree is grown from
depends on the number of trees before it, but not on their gradients.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.engines.turns import Turns
from rankwright.kernels.arithmetic import round_to

Floats = NDArray[np.float64]

NAME = "lightgbm"
VERSION = lgb.__version__

_TURNS = Turns()

# What the estimator's parameters are called here.
_PARAMETERS = {
    "learning_rate": "learning_rate",
    "num_leaves": "num_leaves",
    "max_depth": "max_depth",
    "min_child_samples": "min_data_in_leaf",
    "reg_lambda": "lambda_l2",
    "subsample": "bagging_fraction",
    "colsample": "feature_fraction",
}
_SEEDS = ("bagging_seed", "feature_fraction_seed", "extra_seed", "data_random_seed")
_OURS = {
    "objective": "objective=",
    "metric": "metric=",
    "num_iterations": "n_estimators=",
    "num_threads": "n_jobs=",
    "verbosity": "verbose=",
    "seed": "random_state=",
    **dict.fromkeys(_SEEDS, "random_state="),
    "bagging_by_query": "subsample_queries=",
    "bagging_freq": "subsample=",
    "early_stopping_round": "early_stopping_rounds=",
    "categorical_feature": "RankingData(..., categorical=...)",
}
# What engine_params may hold: what shapes bins and trees. Other parameters would change nothing (those of LightGBM's
# own objectives, metrics and files) or break what is promised (other boosting, linear trees, threads, penalties that
# look back at earlier trees).
_ALLOWED = frozenset(
    {
        "bin_construct_sample_cnt",
        "cat_l2",
        "cat_smooth",
        "cegb_penalty_split",
        "cegb_tradeoff",
        "enable_bundle",
        "extra_trees",
        "feature_contri",
        "feature_fraction_bynode",
        "feature_pre_filter",
        "forcedbins_filename",
        "forcedsplits_filename",
        "histogram_pool_size",
        "interaction_constraints",
        "is_enable_sparse",
        "lambda_l1",
        "max_bin",
        "max_bin_by_feature",
        "max_cat_threshold",
        "max_cat_to_onehot",
        "max_delta_step",
        "min_data_in_bin",
        "min_data_per_group",
        "min_gain_to_split",
        "min_sum_hessian_in_leaf",
        "monotone_constraints",
        "monotone_constraints_method",
        "monotone_penalty",
        "path_smooth",
        "use_missing",
        "zero_as_missing",
    }
)
_NEED_SCALE = ("lambda_l1", "min_gain_to_split", "max_delta_step", "cegb_penalty_split")
_IN_LEAF_VALUES = ("lambda_l1", "max_delta_step", "path_smooth", "monotone_constraints")


def check_params(params: Mapping[str, Any], *, shrinks: bool, own_leaves: bool) -> dict[str, Any]:
    """Refuse ``engine_params`` that LightGBM would ignore, that the estimator sets itself, or that break it."""
    for name in params:
        if name in _OURS:
            raise ValueError(f"engine_params has {name!r}; use {_OURS[name]} instead.")
        if name in _PARAMETERS.values():
            ours = next(ours for ours, theirs in _PARAMETERS.items() if theirs == name)
            raise ValueError(f"engine_params has {name!r}; use the parameter {ours}= of the estimator instead.")
        if name not in _ALLOWED:
            near = difflib.get_close_matches(str(name), _ALLOWED, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(
                f"engine_params has {name!r}, which is not a parameter of LightGBM that can be used here; {hint}"
                f"By their main names, these can: {', '.join(sorted(_ALLOWED))}."
            )
        if shrinks and name in _NEED_SCALE and params[name]:
            raise ValueError(
                f"engine_params has {name!r}, which depends on the scale of the gradient and breaks shrinking "
                "(langevin=True with shrink_rate > 0); leave it out or set shrink_rate=0."
            )
        if own_leaves and name in _IN_LEAF_VALUES and params[name]:
            raise ValueError(
                f"engine_params has {name!r}, which acts on LightGBM's own leaf values, and leaf_values='full' and "
                "leaf_noise='independent' replace them; leave it out, or use diagonal leaf values with shared noise."
            )
    return dict(params)


class Grower:
    """Grows trees on one training set, and keeps scores for it and for validation sets.

    Parameters
    ----------
    train, valid
        Data; part 0 is the training set, part i the i-th validation set.
    options
        The estimator's tree parameters by their own names.
    params
        Further LightGBM parameters, checked.
    seed
        Seed of row and column sampling.
    threads
        Number of threads.
    """

    def __init__(
        self,
        train: RankingData,
        valid: Sequence[RankingData],
        options: Mapping[str, Any],
        params: Mapping[str, Any],
        seed: int,
        threads: int,
    ) -> None:
        self._seed = seed
        self._threads = threads
        self._params: dict[str, Any] = {
            "objective": "none",
            "metric": "None",
            "verbosity": -1,
            "num_threads": threads,
            # Without a ridge a leaf needs curvature to divide by, or noise alone would make it huge. With one, the sums
            # must stand out from rounding errors, which LightGBM would otherwise take for rows, and fail.
            "min_sum_hessian_in_leaf": 1e-6 if options["reg_lambda"] > 0 else 1e-3,
            **{theirs: options[ours] for ours, theirs in _PARAMETERS.items()},
            **params,
        }
        self.samples_by_node = params.get("feature_fraction_bynode", 1) < 1 or bool(params.get("extra_trees"))
        self.samples = options["subsample"] < 1 or options["colsample"] < 1 or self.samples_by_node
        if options["subsample"] < 1:
            self._params["bagging_freq"] = 1
        if not {"max_bin", "max_bin_by_feature"} & params.keys():
            self._params["max_bin"] = options["max_bin"]
        with _refusals(), _TURNS.of(threads):
            self._sets = [self._dataset(train, None)]
            self._sets += [self._dataset(data, self._sets[0]) for data in valid]
        self._names = _plain_names(train.feature_names)
        # LightGBM refuses data in which no column can be split: all are constant, or leaves must be too large.
        self.can_split = any(self._sets[0].feature_num_bin(column) > 1 for column in range(len(self._names)))
        self._booster: lgb.Booster | None = None
        self._skipped = 0  # trees of the booster that are none of the block's
        self._now: dict[int, Floats] = {}
        self._values: Floats | None = None

    def _dataset(self, data: RankingData, reference: lgb.Dataset | None) -> lgb.Dataset:
        kept = {k: v for k, v in self._params.items() if k not in ("objective", "metric")}
        return lgb.Dataset(
            data.X,
            np.zeros(data.n_rows, dtype=np.float32),
            reference=reference,
            feature_name=_plain_names(data.feature_names),
            categorical_feature=[data.feature_names.index(name) for name in data.categories],
            params=kept | {"data_random_seed": self._seed % 2**31},
            free_raw_data=False,
        ).construct()

    def start(self, block: int, scores: Sequence[Floats] | None, skip: int = 0) -> None:
        """Begin a block of trees from given scores of each part; sampling depends on (seed, block).

        ``skip`` is the number of the block's trees that the scores include already: the sampling of rows and columns
        goes on after them. (Sampling at the nodes of a tree cannot: it depends on which nodes there were.)
        """
        for number, dataset in enumerate(self._sets):
            dataset.set_init_score(None if scores is None else scores[number])
        if not self.can_split:
            self._now = {
                part: np.zeros(dataset.num_data()) if scores is None else scores[part]
                for part, dataset in enumerate(self._sets)
            }
            return
        seeds = np.random.SeedSequence([self._seed % 2**63, block]).generate_state(len(_SEEDS), np.uint32)
        drawn = {name: int(value >> 2) for name, value in zip(_SEEDS, seeds, strict=True)}
        del drawn["data_random_seed"]  # bins are made once
        with _refusals(), _TURNS.of(self._threads):
            self._booster = lgb.Booster(self._params | drawn, self._sets[0])
            for number, dataset in enumerate(self._sets[1:], start=1):
                self._booster.add_valid(dataset, f"part {number}")
            nothing = np.zeros(self._sets[0].num_data(), dtype=np.float32)
            for _ in range(skip if self.samples else 0):
                self._booster.update(fobj=lambda *_: (nothing, nothing))  # draws a sample, and finds no split
        self._skipped = int(self._booster.num_trees())  # one without splits, if any were skipped
        self._now = {}

    def grow(self, grad: Floats, hess: Floats) -> bool:
        """Grow one tree; False where no split was worth it."""
        if not self.can_split:
            return False
        assert self._booster is not None
        given = (_on_grid(grad), _on_grid(hess))
        with _TURNS.of(self._threads):
            finished = self._booster.update(fobj=lambda *_: given)
        self._now = {}
        self._values = None
        return not finished

    def scores(self, part: int) -> Floats:
        """Scores of a part by the engine's own leaf values; valid until the next tree."""
        if part not in self._now:
            assert self._booster is not None
            seen: list[Floats] = []

            def keep(scores: Floats, _: lgb.Dataset) -> tuple[str, float, bool]:
                seen.append(scores.copy())
                return "kept", 0.0, True

            if part == 0:
                self._booster.eval_train(feval=keep)
                self._now[0] = seen[0]
            else:
                self._booster.eval_valid(feval=keep)
                self._now.update(enumerate(seen, start=1))
        return self._now[part]

    def leaves(self, part: int, before: Floats) -> NDArray[np.int64]:
        """Leaf of each row in the newest tree, given the part's scores before it.

        The scores differ by the leaf's value, so a look-up among the sorted values finds the leaf. Where two values
        are too close to tell apart, the tree is asked instead.
        """
        values = self.leaf_values()
        order = np.argsort(values)
        ranked = values[order]
        after = self.scores(part)
        gap = np.min(np.diff(ranked)) if len(values) > 1 else np.inf
        if gap > 1e-12 * max(1.0, float(np.abs(after).max()), float(np.abs(before).max())):
            middle = (ranked[1:] + ranked[:-1]) / 2
            found: NDArray[np.int64] = order[np.searchsorted(middle, after - before)]
            return found
        assert self._booster is not None
        newest = self._booster.current_iteration() - 1
        rows = self._sets[part].get_data()
        with _TURNS.of(self._threads):
            asked = self._booster.predict(
                rows, pred_leaf=True, start_iteration=newest, num_iteration=1, num_threads=self._threads
            )
        return np.asarray(asked).reshape(-1).astype(np.int64)

    def leaf_values(self) -> Floats:
        """Leaf values of the newest tree."""
        if self._values is None:
            assert self._booster is not None
            newest = self._booster.current_iteration() - 1
            text = self._booster.model_to_string(start_iteration=newest, num_iteration=1)
            self._values = np.array(re.search(r"^leaf_value=(.*)$", text, re.M).group(1).split(), dtype=np.float64)  # type: ignore[union-attr]
        return self._values

    def rewrite(self, values: Floats) -> None:
        """Give the newest tree other leaf values; the engine's scores keep the old ones."""
        assert self._booster is not None
        newest = self._booster.current_iteration() - 1
        for leaf, value in enumerate(values.tolist()):
            self._booster.set_leaf_output(newest, leaf, value)
        self._values = None

    @property
    def n_trees(self) -> int:
        """Number of trees since the start."""
        return 0 if self._booster is None else int(self._booster.num_trees()) - self._skipped

    def text(self, n_trees: int) -> str:
        """Model text of the first trees since the start."""
        if n_trees == 0:
            return _text_without_trees(self._names)
        assert self._booster is not None
        return str(self._booster.model_to_string(start_iteration=self._skipped, num_iteration=n_trees))


def _text_without_trees(names: list[str]) -> str:
    rows = np.array([[0.0], [1.0]]).repeat(len(names), axis=1)
    params = {"objective": "none", "verbosity": -1, "min_data_in_leaf": 1, "min_data_in_bin": 1, "num_threads": 1}
    with _TURNS.of(1):
        booster = lgb.Booster(params, lgb.Dataset(rows, np.zeros(2), feature_name=names, params=params))
    return str(booster.model_to_string())


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except lgb.basic.LightGBMError as error:
        raise ValueError(f"LightGBM refuses the data or engine_params: {error}") from None


def _on_grid(values: Floats) -> NDArray[np.float32]:
    """Round to whole multiples of a small unit, so that LightGBM's sums in double precision are exact.

    Exact sums do not depend on their order: trees are the same for any number of threads, and whichever way the
    engine builds its histograms. The unit is 2^-28 of the largest value, or as fine as the number of rows allows.
    """
    largest = float(np.abs(values).max())
    out = np.empty(len(values), dtype=np.float32)
    bits = min(28, 51 - int(np.ceil(np.log2(len(values)))))
    unit = 2.0 ** (np.floor(np.log2(largest)) + 1 - bits) if largest > 0 else 1.0
    round_to(values, unit, out)
    return out


class Forest:
    """A finished model: trees as LightGBM's model text.

    Parameters
    ----------
    text
        Model text.
    """

    def __init__(self, text: str) -> None:
        try:
            self._booster = lgb.Booster(model_str=text)
        except lgb.basic.LightGBMError as error:
            raise ValueError(f"the model text cannot be read by LightGBM {VERSION}: {error}") from None
        self.text = text

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return int(self._booster.num_trees())

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self._booster.num_feature())

    def predict(self, X: Any, *, threads: int, trees: int | None = None) -> Floats:
        """Scores by the first ``trees`` trees."""
        n = self.n_trees if trees is None else trees
        if n == 0:
            return np.zeros(X.shape[0])
        return self.predict_block(X, 0, n, threads=threads)

    def predict_block(self, X: Any, start: int, stop: int, *, threads: int) -> Floats:
        """Sum of the trees start ... stop - 1."""
        with _TURNS.of(threads):
            scores = self._booster.predict(
                X, raw_score=True, start_iteration=start, num_iteration=stop - start, num_threads=threads
            )
        return np.asarray(scores, dtype=np.float64)

    def contributions(self, X: Any, *, threads: int) -> Floats:
        """Exact SHAP values [rows, columns + 1], the last column the expected value."""
        with _TURNS.of(threads):
            values = self._booster.predict(X, pred_contrib=True, num_threads=threads)
        return np.asarray(values.toarray() if hasattr(values, "toarray") else values, dtype=np.float64)

    def importances(self, kind: str) -> Floats:
        """Total gain (``"gain"``) or number of splits (``"split"``) of each column."""
        return np.asarray(self._booster.feature_importance(kind), dtype=np.float64)

    def scaled(self, factor: float) -> Forest:
        """Multiply all leaf values."""
        if factor == 1.0 or self.n_trees == 0:
            return self

        def multiply(match: re.Match[str]) -> str:
            return match.group(1) + " ".join(repr(factor * float(v)) for v in match.group(2).split())

        return Forest(join_texts([re.sub(r"^(leaf_value=)(.*)$", multiply, self.text, flags=re.M)]))

    def first(self, trees: int) -> Forest:
        """Keep the first trees only."""
        if trees >= self.n_trees:
            return self
        return Forest(join_texts([self._booster.model_to_string(num_iteration=trees)]))


def join_texts(texts: Sequence[str]) -> str:
    """Put the trees of several model texts one after the other, with an objective that converters know.

    A model trained by custom gradients has no ``objective``, which breaks ONNX converters and Vespa;
    ``lambdarank`` predicts the plain sum of trees, as wanted.
    """
    trees: list[str] = []
    for text in texts:
        body = text[text.index("\nTree=") + 1 : text.index("end of trees")] if "\nTree=" in text else ""
        trees += [part for part in re.split(r"(?m)^Tree=\d+\n", body) if part.strip()]
    blocks = [f"Tree={number}\n{tree.rstrip(chr(10))}\n\n\n" for number, tree in enumerate(trees)]
    head = texts[0][: texts[0].index("tree_sizes=")]
    if not re.search(r"^objective=", head, re.M):
        head = head.replace("feature_names=", "objective=lambdarank\nfeature_names=", 1)
    tail = texts[-1][texts[-1].index("end of trees") :]
    tail = re.sub(r"\[num_threads: \d+\]", "[num_threads: 0]", tail)  # it has no part in the model
    tail = re.sub(r"\nfeature_importances:\n.*?\n\n", _importances(head, blocks), tail, count=1, flags=re.S)
    sizes = " ".join(str(len(block.encode())) for block in blocks)
    return f"{head}tree_sizes={sizes}\n\n{''.join(blocks)}{tail}"


def _importances(head: str, blocks: Sequence[str]) -> str:
    """Count the splits of each column anew, as LightGBM lists them."""
    names = re.search(r"^feature_names=(.*)$", head, re.M).group(1).split(" ")  # type: ignore[union-attr]
    counts = np.zeros(len(names), dtype=int)
    for block in blocks:
        if match := re.search(r"^split_feature=(.+)$", block, re.M):
            np.add.at(counts, np.array(match.group(1).split(), dtype=int), 1)
    used = sorted(np.flatnonzero(counts), key=lambda column: -counts[column])
    return "\nfeature_importances:\n" + "".join(f"{names[c]}={counts[c]}\n" for c in used) + "\n"


def _plain_names(names: Sequence[str]) -> list[str]:
    """Names without the signs that LightGBM's text format cannot hold; ours are kept in the manifest."""
    plain = [re.sub(r"[^\w.+-]", "_", name) or "_" for name in names]
    taken: set[str] = set()
    for number, name in enumerate(plain):
        while plain[number] in taken:
            plain[number] = f"{name}_{number}"
            name = plain[number]
        taken.add(plain[number])
    return plain
