"""Exports to search engines score as the model does, by evaluators written from their rules; files are strict."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from export_models import (
    QID,
    THRESHOLDS,
    TRAINING,
    X,
    categorical,
    model_of,
    random_tree,
    single_leaf,
    special_trees,
    stump,
    trained,
)
from rankwright.engines.scoring import score
from rankwright.exporting import export_options, load_target
from rankwright.exporting.contract import ExportOptions, FeatureSet
from rankwright.exporting.probes import probe_rows
from rankwright.exporting.solr import blur, without_slack
from rankwright.exporting.verify import Verification, verify_content
from rankwright.kernels.tree_arrays import (
    AMONG,
    AS_ZERO,
    BELOW,
    ZERO,
    ZERO_TO_DEFAULT,
    TreeArrays,
    pack,
)

# Target, version, and whether the engine knows missing values or reads them as 0.
ENGINES = [
    ("opensearch", None, True),
    ("opensearch", "3.8.0", True),
    ("opensearch", "3.5", True),
    ("opensearch", "2.19", False),
    ("opensearch", "3.2", True),
    ("elasticsearch-ltr", None, True),
    ("elasticsearch-ltr", "8.11.3", False),
    ("ranklib", None, False),
    ("solr", None, True),
    ("solr", "9.1", False),
    ("vespa", None, True),
    ("elastic", None, True),
]


@cache
def hand_made(name: str) -> rw.Model:
    draw = np.random.default_rng(7)
    trees = {
        "special thresholds": special_trees(),
        "single leaves": [single_leaf(0.75), stump(0.5), single_leaf(-0.1)],
        "no trees": [],
        "random trees": [random_tree(12, draw) for _ in range(25)],
    }[name]
    return model_of(trees, 3)


MODELS = {
    **{name: lambda name=name: trained(name) for name in TRAINING},
    **{
        name: lambda name=name: hand_made(name)
        for name in ("special thresholds", "single leaves", "no trees", "random trees")
    },
}


def exported(
    model: rw.Model, target: str, options: ExportOptions | None = None, version: str | None = None
) -> bytes:
    options = options or export_options(model, version)
    return load_target(target).write(list(model.forest.trees()), options).content


def rows_of(model: rw.Model) -> Any:
    return X[:, : len(model.feature_names)]


def verified(
    model: rw.Model, target: str, version: str | None = None, rows: Any = None
) -> Verification:
    options = export_options(model, version)
    content = exported(model, target, options)
    rows = rows_of(model) if rows is None else rows
    return verify_content(content, model, load_target(target), options, rows, QID)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("target", "version", "knows_missing"), ENGINES)
def test_exports_are_exact(
    target: str, version: str | None, knows_missing: bool, name: str
) -> None:
    result = verified(MODELS[name](), target, version)
    assert result.rows == len(X)
    assert result.probes > 0
    if knows_missing:
        assert result.exact, str(result)
    else:  # only rows with missing values may differ; the next test says by what
        assert result.different == result.different_with_missing, str(result)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("target", "version"), [(target, version) for target, version, knows in ENGINES if not knows]
)
def test_engines_without_missing_values_read_them_as_zero(
    target: str, version: str | None, name: str
) -> None:
    model = MODELS[name]()
    content, rows = exported(model, target, version=version), rows_of(model)
    scores = load_target(target).score(content, rows, export_options(model, version))
    assert np.array_equal(scores, single_sums(model, np.nan_to_num(rows)))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("target", "version", "knows_missing"), [one for one in ENGINES if one[0] != "solr"]
)
def test_scores_are_equal_to_the_last_bit(
    target: str, version: str | None, knows_missing: bool, name: str
) -> None:
    """Single precision: the leaves of the model, added in single precision. Double precision: its scores."""
    model, engine = MODELS[name](), load_target(target)
    options = export_options(model, version)
    content, trees = exported(model, target, options), list(model.forest.trees())
    precision = engine.precision(content, options)
    for block in probe_rows(trees, rows_of(model), single=precision.single_features):
        rows = block.rows if knows_missing else np.where(np.isnan(block.rows), 0.0, block.rows)
        sums = single_sums if precision.single_features else double_sums
        expected = sums(model, rows)
        scores = engine.score(content, rows, options)
        if target == "elastic":  # the score is a float, after a constant was added
            unit = np.spacing(np.float32(np.abs(expected).max() + precision.offset))
            np.testing.assert_allclose(scores, expected, rtol=0, atol=unit)
        else:
            assert np.array_equal(scores, expected)


def double_sums(model: rw.Model, rows: Any) -> Any:
    return model.forest.predict(rows)


def single_sums(model: rw.Model, rows: Any) -> Any:
    """Scores from the leaves that the model itself finds for rows in single precision."""
    rounded = np.ascontiguousarray(rows.astype(np.float32).astype(np.float64))
    total = np.zeros(len(rows), dtype=np.float32)
    for tree in model.forest.trees():
        total += tree.value[leaves_of_rows(tree, model.forest.n_features, rounded)].astype(
            np.float32
        )
    return total.astype(np.float64)


def leaves_of_rows(tree: TreeArrays, n_features: int, rows: Any) -> Any:
    """Leaf of each row: the score of the tree with the numbers of its leaves as values."""
    numbered = tree._replace(value=np.arange(len(tree.value), dtype=np.float64))
    return score(pack([numbered], n_features), rows, 0, 1, threads=1).astype(np.int64)


def test_probes_reach_every_leaf_and_every_side_of_a_threshold() -> None:
    for name in ("missing values", "special thresholds"):
        model = MODELS[name]()
        trees = list(model.forest.trees())
        reached = [set() for _ in trees]
        values: set[tuple[int, float]] = set()
        for block, _ in probe_rows(trees, rows_of(model), single=False):
            for number, seen in enumerate(reached):
                seen |= set(leaves_of_rows(trees[number], model.forest.n_features, block).tolist())
            values |= {
                (column, value) for column in range(3) for value in block[:, column].tolist()
            }
        assert [len(seen) for seen in reached] == [
            len(tree.value) for tree in trees
        ] or name != "missing values"
        for tree in trees:
            for feature, threshold in zip(
                tree.feature.tolist(), tree.threshold.tolist(), strict=True
            ):
                if feature < 3 and abs(threshold) < 1e300:
                    near = (
                        threshold,
                        np.nextafter(threshold, -np.inf),
                        np.nextafter(threshold, np.inf),
                    )
                    assert {(feature, value) for value in near} <= values


# Categories.


@pytest.mark.parametrize("texts", [True, False])
def test_vespa_compares_categories_as_text(texts: bool) -> None:
    model = categorical(texts)
    options = export_options(model)
    result = load_target("vespa").write(list(model.forest.trees()), options)
    check = verify_content(result.content, model, load_target("vespa"), options, X, QID)
    assert check.exact, str(check)
    assert ("must be string attributes" in " ".join(result.notes)) is not texts
    document = json.loads(result.content)
    assert document["pandas_categorical"] == [
        [f"colour {code}" for code in range(9)] if texts else [*map(str, range(9)), ""]
    ]


@pytest.mark.parametrize(
    "target", ["opensearch", "elasticsearch-ltr", "ranklib", "solr", "elastic"]
)
def test_targets_without_categories_name_the_feature(target: str) -> None:
    with pytest.raises(ValueError, match=r"no splits on categories.* 'colour'"):
        exported(categorical(True), target)


@pytest.mark.parametrize("default_left", [False, True])
def test_vespa_and_an_empty_set_of_categories(default_left: bool) -> None:
    model = model_of([stump(0.0, decision=AMONG, default_left=default_left)], 1)
    check = verify_content(
        exported(model, "vespa"),
        model,
        load_target("vespa"),
        export_options(model),
        np.zeros((1, 1)),
    )
    assert check.exact


# What changes with missing values is counted.


def notes_of(model: rw.Model, target: str, version: str | None = None) -> str:
    options = export_options(model, version)
    return " ".join(load_target(target).write(list(model.forest.trees()), options).notes)


def test_notes_count_splits_whose_meaning_changes() -> None:
    trees = [
        stump(1.0, default_left=False),  # 0 left, missing right
        stump(-0.75, default_left=True),  # 0 right, missing left
        stump(-0.75, default_left=False),
        stump(1.0, missing=AS_ZERO),
        stump(1.0, missing=ZERO_TO_DEFAULT),
    ]
    model = model_of(trees, 1)
    for target, version in (
        ("opensearch", "3.1"),
        ("elasticsearch-ltr", "8.11.3"),
        ("ranklib", None),
        ("solr", "9.1"),
    ):
        assert "as 0: 2 of 5 splits" in notes_of(model, target, version)
    # To the left go missing values of the second and the fourth; each takes one split more.
    assert re.search(
        r"right always: 2 of 5 splits .*\(9 in all\)", notes_of(model, "opensearch", "3.3")
    )
    for target in ("opensearch", "solr", "vespa", "elastic"):
        assert notes_of(model, target) == ""


def test_the_version_of_opensearch_decides() -> None:
    model = trained("missing values")
    old, between, new = (
        exported(model, "opensearch", version=version) for version in ("3.1.0", "3.7", "3.8")
    )
    assert old == new == exported(model, "opensearch")
    assert len(between) > len(new)
    # A file for the versions between is exact in newer ones too; one for newer ones is not exact between.
    target = load_target("opensearch")
    rows = rows_of(model)
    assert verify_content(between, model, target, export_options(model, "3.8"), rows, QID).exact
    check = verify_content(new, model, target, export_options(model, "3.5"), rows, QID)
    assert check.different == check.different_with_missing > 0


@pytest.mark.parametrize("target", ["ranklib", "vespa", "elastic", "json", "c"])
def test_a_version_is_refused_where_it_decides_nothing(target: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="all versions agree; leave it out"):
        rw.export(trained("stumps"), target, tmp_path / "file", target_version="8.1")
    assert not list(tmp_path.iterdir())


def test_an_invalid_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be a version such as 3\.2; got 'newest'"):
        exported(trained("stumps"), "opensearch", version="newest")


def test_opensearch_reads_missing_as_zero_on_request() -> None:
    model = model_of([stump(1.0, default_left=False)], 1)
    target, rows = load_target("opensearch"), np.array([[np.nan], [0.0]])
    trees = json.loads(exported(model, "opensearch"))
    content = json.dumps(
        {"objective": "rank:ndcg", "splits": trees, "missing_as_zero": True}
    ).encode()
    assert target.score(content, rows, ExportOptions(["f0"], target_version="3.9")).tolist() == [
        -1.5,
        -1.5,
    ]
    with pytest.raises(ValueError, match="does not know"):
        target.score(content, rows, ExportOptions(["f0"], target_version="3.8"))


# Small examples worked by hand. The number after 0.5 in single precision is 0.5 + 2^-24.


def small() -> rw.Model:
    """F0 <= 0.5 and missing to the left: 1; else f1 < 2: -0.25, else 4; a constant of 0.5 is added."""
    tree = stump(0.5, default_left=True)._replace(
        feature=np.array([0, 1], dtype=np.int32),
        threshold=np.array([0.5, 2.0]),
        decision=np.array([0, BELOW], dtype=np.uint8),
        missing=np.array([1, 1], dtype=np.uint8),
        default_left=np.array([True, False]),
        left=np.array([~0, ~1], dtype=np.int32),
        right=np.array([1, ~2], dtype=np.int32),
        categories=(np.empty(0, dtype=np.int64),) * 2,
        value=np.array([1.0, -0.25, 4.0]),
        gain=np.ones(2),
    )
    return model_of([tree, single_leaf(0.5)], 2)


def test_opensearch_by_hand() -> None:
    assert json.loads(exported(small(), "opensearch")) == [
        {
            **{
                "nodeid": 0,
                "depth": 0,
                "split": "f0",
                "split_condition": 0.5 + 2**-24,
                "yes": 1,
                "no": 2,
                "missing": 1,
            },
            "children": [
                {"nodeid": 1, "leaf": 1.0},
                {
                    **{
                        "nodeid": 2,
                        "depth": 1,
                        "split": "f1",
                        "split_condition": 2.0,
                        "yes": 3,
                        "no": 4,
                        "missing": 4,
                    },
                    "children": [{"nodeid": 3, "leaf": -0.25}, {"nodeid": 4, "leaf": 4.0}],
                },
            ],
        },
        {"nodeid": 0, "leaf": 0.5},
    ]
    assert exported(small(), "elasticsearch-ltr") == exported(small(), "opensearch")


def test_ranklib_by_hand() -> None:
    below_two = 2 - 2**-23
    assert exported(small(), "ranklib").decode() == (
        "## LambdaMART\n## No. of trees = 2\n<ensemble>"
        '<tree id="1" weight="1"><split><feature>1</feature><threshold>0.5</threshold>'
        '<split pos="left"><output>1.0</output></split>'
        f'<split pos="right"><feature>2</feature><threshold>{below_two!r}</threshold>'
        '<split pos="left"><output>-0.25</output></split><split pos="right"><output>4.0</output></split>'
        "</split></split></tree>"
        '<tree id="2" weight="1"><split><output>0.5</output></split></tree></ensemble>'
    )


def test_ranklib_numbers_features_by_the_feature_set() -> None:
    options = ExportOptions(["f0", "f1"], feature_set=FeatureSet(("f1", "f0")))
    content = exported(small(), "ranklib", options)
    assert re.findall(r"<feature>(\d)</feature>", content.decode()) == ["2", "1"]
    rows = np.array([[0.4, 9.0], [0.6, 1.0], [0.6, 2.0]])
    scores = load_target("ranklib").score(content, rows, options)
    assert scores.tolist() == [1 + 0.5, -0.25 + 0.5, 4 + 0.5]


def test_solr_by_hand() -> None:
    document = json.loads(
        exported(
            small(),
            "solr",
            ExportOptions(["f0", "f1"], "m", feature_set=FeatureSet(("f0", "f1"), "s")),
        )
    )
    trees = document["params"].pop("trees")
    assert document == {
        "class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel",
        "name": "m",
        "features": [{"name": "f0"}, {"name": "f1"}],
        "store": "s",
        "params": {"isNullSameAsZero": False},
    }
    root = trees[0]["root"]
    assert [tree["weight"] for tree in trees] == ["1", "1"]
    assert trees[1]["root"] == {"value": "0.5"}
    assert (root["feature"], root["missing"], root["left"]) == ("f0", "left", {"value": "1.0"})
    assert np.float32(root["threshold"]) + np.float32(1e-6) == np.float32(0.5)
    right = root["right"]
    assert np.float32(right["threshold"]) + np.float32(1e-6) == np.float32(2 - 2**-23)
    assert (right["missing"], right["left"], right["right"]) == (
        "right",
        {"value": "-0.25"},
        {"value": "4.0"},
    )


def test_vespa_by_hand() -> None:
    document = json.loads(exported(small(), "vespa"))
    first, second = (tree["tree_structure"] for tree in document["tree_info"])
    assert second == {"leaf_value": 0.5}
    right = first.pop("right_child")
    assert first == {
        "split_feature": 0,
        "threshold": 0.5 + 2**-53,
        "decision_type": "<=",
        "default_left": True,
        "left_child": {"leaf_value": 1.0},
    }
    # Doubles from 2 - 2^-24 on round to 2 in single precision: the middle is a tie, and 2 is even.
    assert right["threshold"] == 2 - 2**-24
    assert (right["default_left"], right["left_child"], right["right_child"]) == (
        False,
        {"leaf_value": -0.25},
        {"leaf_value": 4.0},
    )


def test_elastic_by_hand() -> None:
    ensemble = json.loads(exported(small(), "elastic"))["trained_model"]["ensemble"]
    split = {"decision_type": "lte"}
    assert ensemble["trained_models"][0]["tree"]["tree_structure"] == [
        {**split, "node_index": 0, "split_feature": 0, "threshold": 0.5, "default_left": True}
        | {"left_child": 1, "right_child": 2},
        {"node_index": 1, "leaf_value": [1.0]},
        {
            **split,
            "node_index": 2,
            "split_feature": 1,
            "threshold": 2 - 2**-24 - 2**-52,
            "default_left": False,
        }
        | {"left_child": 3, "right_child": 4},
        {"node_index": 3, "leaf_value": [-0.25]},
        {"node_index": 4, "leaf_value": [4.0]},
    ]


@pytest.mark.parametrize(
    "target", ["opensearch", "elasticsearch-ltr", "ranklib", "solr", "vespa", "elastic"]
)
def test_evaluators_by_hand(target: str) -> None:
    rows = np.array([[0.5, 9.0], [0.5 + 2**-24, 2 - 2**-23], [0.6, 2.0], [0.5, np.nan], [0.6, 7.0]])
    scores = load_target(target).score(exported(small(), target), rows, ExportOptions(["f0", "f1"]))
    assert scores.tolist() == [1 + 0.5, -0.25 + 0.5, 4 + 0.5, 1 + 0.5, 4 + 0.5]


# Grammars: no key too many, none missing, types as documented.

Check = Callable[[Any], None]
NUMBER = (int, float)


def object_of(required: dict[str, Any], optional: dict[str, Any] | None = None) -> Check:
    def check(value: Any) -> None:
        assert isinstance(value, dict)
        assert required.keys() <= value.keys() <= required.keys() | (optional or {}).keys()
        for key, inner in value.items():
            follow((required | (optional or {}))[key], inner)

    return check


def list_of(inner: Any) -> Check:
    def check(value: Any) -> None:
        assert isinstance(value, list)
        for item in value:
            follow(inner, item)

    return check


def follow(rule: Any, value: Any) -> None:
    if callable(rule) and not isinstance(rule, type):
        rule(value)
    else:
        assert isinstance(value, rule), (rule, value)
        assert rule is bool or not isinstance(value, bool)


def plugin_node(value: Any) -> None:
    if "leaf" in value:
        object_of({"nodeid": int, "leaf": NUMBER})(value)
        return
    split = {
        "nodeid": int,
        "depth": int,
        "split": str,
        "split_condition": NUMBER,
        "yes": int,
        "no": int,
    }
    object_of({**split, "missing": int, "children": list_of(plugin_node)})(value)
    assert [child["nodeid"] for child in value["children"]] == [value["yes"], value["no"]]
    assert value["missing"] in (value["yes"], value["no"])
    condition = value["split_condition"]  # 1e39 is infinity to a parser of floats
    assert condition == 1e39 or float(np.float32(condition)) == condition
    assert all(
        child.get("depth", value["depth"] + 1) == value["depth"] + 1 for child in value["children"]
    )


def solr_number(value: Any) -> None:
    assert isinstance(value, str)
    assert re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", value)
    assert abs(float(value)) <= np.finfo(np.float32).max


def solr_node(value: Any, missing: bool) -> None:
    if "value" in value:
        object_of({"value": solr_number})(value)
        return

    def child(inner: Any) -> None:
        solr_node(inner, missing)

    split = {"feature": str, "threshold": solr_number, "left": child, "right": child}
    object_of({**split, "missing": str} if missing else split)(value)
    assert not missing or value["missing"] in ("left", "right")


def solr_model(missing: bool) -> Check:
    tree = object_of({"weight": solr_number, "root": lambda value: solr_node(value, missing)})
    params: dict[str, Any] = {"trees": list_of(tree)} | (
        {"isNullSameAsZero": bool} if missing else {}
    )
    names = list_of(object_of({"name": str}))
    return object_of(
        {"class": str, "name": str, "features": names, "params": object_of(params)}, {"store": str}
    )


def vespa_node(value: Any) -> None:
    if "leaf_value" in value:
        object_of({"leaf_value": NUMBER})(value)
        return
    kind = str if value["decision_type"] == "==" else NUMBER
    split = {"split_feature": int, "threshold": kind, "decision_type": str, "default_left": bool}
    object_of({**split, "left_child": vespa_node, "right_child": vespa_node})(value)


VESPA = object_of(
    {
        **{
            "name": str,
            "version": str,
            "num_class": int,
            "num_tree_per_iteration": int,
            "max_feature_idx": int,
        },
        "objective": str,
        "feature_names": list_of(str),
        "feature_infos": dict,
        "tree_info": list_of(object_of({"tree_index": int, "tree_structure": vespa_node})),
        "pandas_categorical": list_of(list_of(str)),
    }
)


def elastic_tree(value: Any) -> None:
    leaf = object_of({"node_index": int, "leaf_value": list_of(NUMBER)})
    split = object_of(
        {
            **{"node_index": int, "split_feature": int, "decision_type": str, "threshold": NUMBER},
            **{"default_left": bool, "left_child": int, "right_child": int},
        }
    )

    def node(inner: Any) -> None:
        (leaf if "leaf_value" in inner else split)(inner)

    object_of({"feature_names": list_of(str), "target_type": str, "tree_structure": list_of(node)})(
        value
    )
    children = [
        node[side]
        for node in value["tree_structure"]
        for side in ("left_child", "right_child")
        if side in node
    ]
    assert sorted(children) == list(
        range(1, len(value["tree_structure"]))
    )  # each but the root has one parent


ELASTIC = object_of(
    {
        "trained_model": object_of(
            {
                "ensemble": object_of(
                    {
                        "feature_names": list_of(str),
                        "target_type": str,
                        "aggregate_output": object_of({"weighted_sum": object_of({})}),
                        "trained_models": list_of(object_of({"tree": elastic_tree})),
                    }
                )
            }
        )
    }
)
GRAMMARS: list[tuple[str, str | None, Check]] = [
    ("opensearch", None, list_of(plugin_node)),
    ("opensearch", "3.5", list_of(plugin_node)),
    ("elasticsearch-ltr", None, list_of(plugin_node)),
    ("solr", None, solr_model(missing=True)),
    ("solr", "8.11", solr_model(missing=False)),
    ("vespa", None, VESPA),
    ("elastic", None, ELASTIC),
]


def refuse_constant(text: str) -> Any:
    raise AssertionError(f"{text} is not JSON")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("target", "version", "grammar"), GRAMMARS)
def test_files_follow_the_grammar(
    target: str, version: str | None, grammar: Check, name: str
) -> None:
    document = json.loads(
        exported(MODELS[name](), target, version=version), parse_constant=refuse_constant
    )
    grammar(document)


def test_vespa_follows_the_grammar_with_categories() -> None:
    document = json.loads(exported(categorical(True), "vespa"))
    VESPA(document)
    assert document["objective"] == "lambdarank"


RANKLIB = re.compile(
    r"## LambdaMART\n## No\. of trees = \d+\n<ensemble>"
    r'(<tree id="\d+" weight="1">(</?split( pos="(left|right)")?>|<feature>\d+</feature>'
    r"|<(threshold|output)>-?\d+(\.\d+)?(e[+-]?\d+)?</(threshold|output)>)+</tree>)+</ensemble>"
)


@pytest.mark.parametrize("name", MODELS)
def test_ranklib_has_no_other_tags_and_no_space(name: str) -> None:
    assert RANKLIB.fullmatch(exported(MODELS[name](), "ranklib").decode())


# Solr's slack.


@pytest.mark.parametrize("threshold", [one for one in THRESHOLDS if abs(one) < 1e38])
def test_solr_thresholds_with_slack_never_pass_the_threshold(threshold: float) -> None:
    bound = float(np.float32(threshold))
    written, effective = without_slack(bound)
    assert np.float32(written) + np.float32(1e-6) == np.float32(effective)
    assert effective <= bound
    assert (effective >= 0) == (bound >= 0)  # zeros keep their side
    assert bound - effective <= max(2.0**-43, 2 * float(np.spacing(np.float32(abs(bound)))))
    if abs(bound) > 1e-3 and bound > 0:
        assert effective == bound
    limits = blur(bound)
    assert effective == bound if limits is None else limits == (effective, bound)


# The size of files is limited, and so is their depth.


def chain(n_nodes: int, missing: int = AS_ZERO, default_left: bool = False) -> TreeArrays:
    """A tree that always continues to the right, on another feature each time."""
    nodes = np.arange(n_nodes)
    return TreeArrays(
        feature=nodes.astype(np.int32),
        threshold=np.full(n_nodes, 1.0),
        decision=np.zeros(n_nodes, dtype=np.uint8),
        missing=np.full(n_nodes, missing, dtype=np.uint8),
        default_left=np.full(n_nodes, default_left),
        left=(~nodes).astype(np.int32),
        right=np.append(nodes[1:], ~n_nodes).astype(np.int32),
        categories=(np.empty(0, dtype=np.int64),) * n_nodes,
        value=np.arange(n_nodes + 1.0),
        gain=np.ones(n_nodes),
    )


@pytest.mark.parametrize("target", ["opensearch", "ranklib", "solr", "vespa", "elastic"])
def test_deep_trees(target: str) -> None:
    model = model_of([chain(199)], 199)
    rows = np.random.default_rng(0).normal(size=(50, 199))
    options = export_options(model)
    assert verify_content(exported(model, target), model, load_target(target), options, rows).exact
    with pytest.raises(ValueError, match="tree 0 has more than 200 levels"):
        exported(model_of([chain(201)], 201), target)


def test_files_that_would_be_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankwright.exporting.nodes.MOST_SPLITS", 3000)
    small_enough = model_of([chain(8, ZERO_TO_DEFAULT)], 8)  # each level repeats what follows it
    assert len(exported(small_enough, "elastic")) > 0
    with pytest.raises(ValueError, match="more than 3,000 splits"):
        exported(model_of([chain(30, ZERO_TO_DEFAULT)], 30), "elastic")


# The comparison finds what is wrong.


def damaged(content: bytes, pattern: str, change: Callable[[float], float]) -> bytes:
    """Change the first number that follows a pattern."""
    return re.sub(
        pattern.encode() + rb"(-?[\d.e+-]+)",
        lambda match: match[0].replace(match[1], repr(change(float(match[1]))).encode()),
        content,
        count=1,
    )


def next_single(value: float) -> float:
    return float(np.nextafter(np.float32(value), np.float32(np.inf)))


@pytest.mark.parametrize(
    ("target", "pattern", "change"),
    [
        ("opensearch", '"split_condition":', next_single),
        ("opensearch", '"leaf":', lambda value: value + 0.01),
        ("ranklib", "<threshold>", next_single),
        ("vespa", '"threshold":', lambda value: np.nextafter(value, np.inf)),
        ("elastic", '"threshold":', lambda value: np.nextafter(value, -np.inf)),
        ("solr", '"threshold":"', lambda value: value + 3e-6),
    ],
)
def test_verification_finds_one_wrong_number(
    target: str, pattern: str, change: Callable[[float], float]
) -> None:
    model = trained("use_missing off")
    options, content = export_options(model), exported(model, target)
    wrong = damaged(content, pattern, lambda value: float(change(value)))
    assert wrong != content
    result = verify_content(wrong, model, load_target(target), options, X, QID)
    assert not result.exact
    assert result.different > 0
    assert result.largest_difference > result.largest_rounding


def test_verification_counts_order_changes() -> None:
    model = model_of([stump(0.0, values=(0.0, 1.0))], 1)
    trees = json.loads(exported(model, "opensearch"))
    trees[0]["children"][0]["leaf"], trees[0]["children"][1]["leaf"] = 1.0, 0.0
    rows = np.array([[-1.0], [1.0], [2.0], [-2.0]])
    target, options = load_target("opensearch"), export_options(model)
    result = verify_content(json.dumps(trees).encode(), model, target, options, rows, [1, 1, 2, 2])
    assert result.largest_difference == 1.0
    assert (
        result.order_changes == 2 + 1
    )  # one in each query, and one where the probes change from 1 to 0


def test_verification_needs_rows() -> None:
    model = trained("stumps")
    with pytest.raises(ValueError, match="no rows"):
        verify_content(
            exported(model, "solr"), model, load_target("solr"), export_options(model), X[:0]
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tree: tree | {"gain": 1.0}, "a split has the keys"),
        (lambda tree: {key: tree[key] for key in tree if key != "depth"}, "a split has the keys"),
        (lambda tree: tree | {"yes": 99}, "do not name its children"),
        (lambda tree: tree | {"split": "f9"}, "not a feature of the model"),
        (lambda tree: {"nodeid": 0, "leaf": 1.0, "cover": 2}, "a leaf has the keys"),
    ],
)
def test_the_evaluator_refuses_what_the_plugin_refuses(
    change: Callable[[Any], Any], message: str
) -> None:
    trees = json.loads(exported(small(), "opensearch"))
    content = json.dumps([change(trees[0])]).encode()
    with pytest.raises(ValueError, match=message):
        load_target("opensearch").score(content, np.zeros((1, 2)), ExportOptions(["f0", "f1"]))


def test_tiny_numbers_are_zeros() -> None:
    """The model counts |x| <= ZERO as 0; so do the files, without knowing it."""
    rows = np.array([[ZERO], [-ZERO], [1e-36], [0.0], [2 * ZERO], [-2 * ZERO]])
    for threshold, expected in ((0.0, [0, 0, 0, 0, 1, 0]), (-ZERO, [1, 1, 1, 1, 1, 0])):
        model = model_of([stump(threshold, values=(0.0, 1.0))], 1)
        for target in ("opensearch", "ranklib", "vespa", "elastic"):
            scores = load_target(target).score(exported(model, target), rows, ExportOptions(["f0"]))
            assert scores.tolist() == expected == model.forest.predict(rows).tolist()
