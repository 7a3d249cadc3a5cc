"""Kernels have short signatures and one way of being compiled."""

from __future__ import annotations

import ast
from pathlib import Path

import rankwright.kernels

MOST_PARAMETERS = 12
# Functions that may have more, with the measurement that says why. None so far: where unpacking a tuple was slower,
# the function was split instead.
EXCEPTIONS: dict[str, int] = {}

SOURCES = sorted(Path(rankwright.kernels.__file__).parent.glob("*.py"))
TREES = {path.stem: ast.parse(path.read_text()) for path in SOURCES}


def parameters(function: ast.FunctionDef) -> int:
    arguments = function.args
    starred = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return len(arguments.posonlyargs + arguments.args + arguments.kwonlyargs + starred)


def test_kernels_have_at_most_twelve_parameters():
    counts = {
        f"{module}.{node.name}": parameters(node)
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
    assert len(counts) > 50
    assert {name: n for name, n in counts.items() if n > MOST_PARAMETERS} == EXCEPTIONS


def test_all_kernels_are_compiled_as_jit_says():
    for module, tree in TREES.items():
        names = {
            node.attr if isinstance(node, ast.Attribute) else node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute | ast.alias)
        }
        assert module == "jit" or not names & {"njit", "vectorize", "guvectorize", "cfunc"}, module
