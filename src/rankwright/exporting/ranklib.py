"""RankLib's model text (LambdaMART), which the learning-to-rank plugins read as ``model/ranklib``.

    ## LambdaMART
    <ensemble><tree id="1" weight="1"><split><feature>2</feature><threshold>0.5</threshold>
    <split pos="left"><output>-1.0</output></split><split pos="right"><output>1.0</output></split>
    </split></tree></ensemble>

The engine's rules, from ``Ensemble``, ``RegressionTree`` and ``Split`` (``ciir.umass.edu.learning.tree``) of RankLib
2.2 and 2.10.1, and ``RanklibModelParser`` of the plug-ins:

    parser              takes children by their position, so there is no space between tags
    features            are numbered from 1 in the order of the feature set, and are floats
    a present feature   goes left if feature <= threshold
    a missing feature   is 0, in all versions
    sum                 leaves times weights are added as floats
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import numpy as np

from rankwright.exporting.contract import Exported, ExportOptions, Floats, Support, Target, Trees
from rankwright.exporting.nodes import Form, PlainTree, plain_trees, refuse_categories, zero_note
from rankwright.exporting.walk import Decision, Rows, single, walk

_LARGEST = float(np.finfo(np.float32).max)


class RankLib(Target):
    """RankLib's LambdaMART."""

    name = "ranklib"
    file_name = "ranklib.txt"
    in_32_bits = True
    support = (
        Support(
            "RankLib 2, alone and in both plug-ins",
            "read as 0",
            "exact, but for missing values that were not 0 in training",
            "categories",
        ),
    )

    def write(self, trees: Trees, options: ExportOptions) -> Exported:
        """Write the trees."""
        refuse_categories(trees, options.features, "RankLib")
        number = {name: position for position, name in enumerate(_order(options), start=1)}
        numbers = [number[name] for name in options.features]
        # The parser would take spaces between tags for children, so the text has none.
        plain = plain_trees(trees, options.features, Form(single=True, nested=True))
        body = "".join(
            f'<tree id="{position}" weight="1"><split>{_inside(tree, tree.root, numbers)}</split></tree>'
            for position, tree in enumerate(plain, start=1)
        )
        # No newline at the end: RankLib looks for the closing tag in the last line.
        text = f"## LambdaMART\n## No. of trees = {len(plain)}\n<ensemble>{body}</ensemble>"
        return Exported(text.encode(), tuple(zero_note(trees, "RankLib")))

    def score(self, content: bytes, X: Any, options: ExportOptions) -> Floats:
        """Score rows as RankLib does."""
        text = content.decode()
        if not text.startswith("## LambdaMART\n"):
            raise ValueError("the file does not begin with the line '## LambdaMART'.")
        try:
            ensemble = ElementTree.fromstring(
                "".join(line for line in text.splitlines() if not line.startswith("#"))
            )
        except ElementTree.ParseError as error:
            raise ValueError(f"the ensemble is not valid XML: {error}.") from None
        names = list(options.features)
        column = [names.index(name) for name in _order(options)]
        # A feature that the log does not have is 0 in RankLib's vectors.
        values = single(X)
        values = np.where(np.isnan(values), np.float32(0), values)

        def decide(node: Any, rows: Rows) -> Decision:
            if node[0].tag == "output":
                return float(np.float32(node[0].text))
            feature, threshold, left, right = node
            number = int(feature.text)
            if not 1 <= number <= len(column):
                raise ValueError(
                    f"feature {number} is not one of the {len(column)} features of the set."
                )
            return values[rows, column[number - 1]] <= np.float32(threshold.text), left, right

        # Every sum is rounded to 32 bits, as in Java.
        total = np.zeros(len(values), dtype=np.float32)
        for tree in ensemble.iter("tree"):
            weight = np.float32(tree.attrib["weight"])
            leaves = walk(tree[0], len(values), decide)
            total = (total + leaves * float(weight)).astype(np.float32)
        return total.astype(np.float64)


def _order(options: ExportOptions) -> Sequence[str]:
    # Without a feature set, the order of the model's columns has to be the order of the set.
    return options.features if options.feature_set is None else options.feature_set.names


def _inside(tree: PlainTree, node: int, numbers: Sequence[int]) -> str:
    """Return the text between the tags of a split."""
    if node < 0:
        return f"<output>{float(np.float32(tree.value[~node]))!r}</output>"
    threshold = min(tree.bound[node], _LARGEST)
    return (
        f"<feature>{numbers[tree.feature[node]]}</feature><threshold>{threshold!r}</threshold>"
        f'<split pos="left">{_inside(tree, tree.left[node], numbers)}</split>'
        f'<split pos="right">{_inside(tree, tree.right[node], numbers)}</split>'
    )


TARGET = RankLib()
