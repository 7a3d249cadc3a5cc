"""RankLib's model text (LambdaMART), which the learning-to-rank plugins read as ``model/ranklib``.

    ## LambdaMART
    <ensemble><tree id="1" weight="1"><split><feature>2</feature><threshold>0.5</threshold>
    <split pos="left"><output>-1.0</output></split><split pos="right"><output>1.0</output></split>
    </split></tree></ensemble>

A document goes left if its feature, in 32 bits, is at most the threshold. Features are numbered from 1 in the order of
the feature set. A missing feature is 0. The parser takes children by their position, so there is no space between
tags. Outputs are added in 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import numpy as np

from rankwright.exporting.contract import Exported, ExportOptions, Floats
from rankwright.exporting.plain_trees import Leaf, Node, plain_trees, refuse_categories, zero_note
from rankwright.exporting.walking import Decision, Rows, leaf_values, single
from rankwright.kernels.tree_arrays import TreeArrays


class RankLib:
    """RankLib's LambdaMART; see `rankwright.exporting.contract.Target`."""

    name = "ranklib"
    file_name = "ranklib.txt"
    single_precision = True

    def write(
        self, trees: Sequence[TreeArrays], feature_names: Sequence[str], options: ExportOptions
    ) -> Exported:
        """Write the trees."""
        refuse_categories(trees, feature_names, "RankLib")
        number = {
            name: position for position, name in enumerate(_order(feature_names, options), start=1)
        }
        numbers = [number[name] for name in feature_names]
        roots = plain_trees(trees, feature_names, single=True)
        body = "".join(
            f'<tree id="{position}" weight="1"><split>{_inside(root, numbers)}</split></tree>'
            for position, root in enumerate(roots, start=1)
        )
        # No newline at the end: RankLib looks for the closing tag in the last line.
        text = f"## LambdaMART\n## No. of trees = {len(roots)}\n<ensemble>{body}</ensemble>"
        return Exported(text.encode(), tuple(zero_note(trees, "RankLib")))

    def score(
        self, content: bytes, X: Any, feature_names: Sequence[str], options: ExportOptions
    ) -> Floats:
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
        names = list(feature_names)
        column = [names.index(name) for name in _order(feature_names, options)]
        values = single(X)
        values = np.where(np.isnan(values), np.float32(0), values)

        def leaf(node: Any) -> float | None:
            return float(np.float32(node[0].text)) if node[0].tag == "output" else None

        def decide(node: Any, rows: Rows) -> Decision:
            feature, threshold, left, right = node
            number = int(feature.text)
            if not 1 <= number <= len(column):
                raise ValueError(
                    f"feature {number} is not one of the {len(column)} features of the set."
                )
            return values[rows, column[number - 1]] <= np.float32(threshold.text), left, right

        total = np.zeros(len(values), dtype=np.float32)
        for tree in ensemble.iter("tree"):
            weight = np.float32(tree.attrib["weight"])
            total = (
                total + leaf_values(tree[0], len(values), leaf, decide) * float(weight)
            ).astype(np.float32)
        return total.astype(np.float64)


def _order(feature_names: Sequence[str], options: ExportOptions) -> Sequence[str]:
    return feature_names if options.feature_set is None else options.feature_set.names


def _inside(node: Node, numbers: Sequence[int]) -> str:
    """What stands between the tags of a split."""
    if isinstance(node, Leaf):
        return f"<output>{float(np.float32(node.value))!r}</output>"
    return (
        f"<feature>{numbers[node.feature]}</feature><threshold>{node.threshold!r}</threshold>"
        f'<split pos="left">{_inside(node.left, numbers)}</split>'
        f'<split pos="right">{_inside(node.right, numbers)}</split>'
    )


TARGET = RankLib()
