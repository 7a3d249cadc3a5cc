"""Every promise of docs/guarantees.md names a test that exists, and every record of trials a script that repeats it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "guarantees.md").read_text()
TRIED = (ROOT / "lab" / "records" / "trust.md").read_text()
TESTS = re.findall(r"`(tests/\w+\.py)::(\w+)`", TEXT)


def test_promises_stand_in_rows_with_a_test_each() -> None:
    sections = TEXT.partition("## Limits")[0]
    rows = [
        line
        for line in sections.splitlines()
        if line.startswith("| ") and not line.startswith("| Promise")
    ]
    assert len(rows) > 20
    assert [row for row in rows if len(re.findall(r"`tests/\w+\.py::\w+` \|$", row)) != 1] == []


# Their assertion is that nothing is raised.
NOTHING_RAISED = {
    "test_equal_numbers_overlap",
    "test_names_of_c_functions_compile",
    "test_metrics_in_the_text_exist_with_their_options",
    "test_objectives_in_the_text_exist_with_their_options",
    "test_overlap_is_used_without_a_warning",
    "test_peers_without_limits",
}


def checks(
    node: ast.AST, functions: dict[str, ast.FunctionDef], seen: frozenset[str] = frozenset()
) -> bool:
    """Whether a function asserts something, itself or in a function of its file that it names."""
    for part in ast.walk(node):
        if isinstance(part, ast.Assert | ast.Raise):
            return True
        name = (
            part.attr
            if isinstance(part, ast.Attribute)
            else part.id
            if isinstance(part, ast.Name)
            else ""
        )
        if name.startswith(("assert", "check", "wait_for")) or name in ("raises", "warns", "fail"):
            return True
        if (
            name in functions
            and name not in seen
            and checks(functions[name], functions, seen | {name})
        ):
            return True
    return False


def functions_of(file: Path) -> dict[str, ast.FunctionDef]:
    return {
        node.name: node
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_a_promise_is_held_by_a_test_that_asserts(file: str, name: str) -> None:
    functions = functions_of(ROOT / file)
    assert name in functions, f"{file} has no {name}"
    assert checks(functions[name], functions)


@pytest.mark.parametrize(
    "file", sorted((ROOT / "tests").glob("test_*.py")), ids=lambda file: file.stem
)
def test_no_test_is_without_an_assertion(file: Path) -> None:
    functions = functions_of(file)
    tests = [name for name in functions if name.startswith("test_") and name not in NOTHING_RAISED]
    assert [
        name for name in tests if not checks(functions[name], functions, frozenset({name}))
    ] == []


def test_scripts_exist() -> None:
    scripts = set(re.findall(r"(?:tools|tests)/[\w/]+\.py", TEXT + TRIED))
    assert {"tools/trust/fuzz.py", "tools/trust/kills.py", "tools/mutate.py"} <= scripts
    assert [script for script in sorted(scripts) if not (ROOT / script).is_file()] == []
