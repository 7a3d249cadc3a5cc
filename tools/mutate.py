"""Change kernels, metrics or readers one token at a time, and count how many changes the tests detect.

    python tools/mutate.py --part kernels --count 100 --seed 0

A mutant swaps an operator, a comparison or min and max, changes a number or an index by one, drops a term of a sum, or
negates a condition, in a copy of the package. The kernels run as plain Python (NUMBA_DISABLE_JIT), where an index out
of bounds is an error. Three times the usual processor time counts as detected. Constants outside of functions are not
changed: most of them affect only speed.

Results are appended to a file of JSON lines. Mutants that were caught are not run again, survivors are.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import itertools
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SUITES = {  # the test files of a file of the package, fastest first
    "kernels/arithmetic": ["kernels_arithmetic", "kernels_random", "softmax", "pairs", "laws"],
    "kernels/bins": ["bins", "engine_xgboost"],
    "kernels/ccs": ["stochastic", "laws"],
    "kernels/cholesky": ["kernels_cholesky"],
    "kernels/documents": ["anchors"],
    "kernels/evaluate": ["evaluation", "metrics"],
    "kernels/exchange": ["kernels_exchange", "metrics"],
    "kernels/given_pairs": ["preferences", "reducer"],
    "kernels/listwise": ["softmax", "leaf_system", "propensity", "reducer"],
    "kernels/ordering": ["kernels_ordering"],
    "kernels/neighbour_pairs": ["pairs", "leaf_system", "laws", "reducer"],
    "kernels/pairs": ["pairs", "leaf_system", "laws", "reducer"],
    "kernels/ranked_pairs": ["pairs", "leaf_system", "laws", "reducer"],
    "kernels/random": ["kernels_random", "leaf_system"],
    "kernels/rank_distribution": ["softrank", "laws"],
    "kernels/row_hash": ["row_order"],
    "kernels/shap": ["kernels_shap", "engine_xgboost"],
    "kernels/ties": ["evaluation", "metrics"],
    "kernels/tree_arrays": ["kernels_trees", "trust_models"],
    "kernels/trees": ["kernels_trees", "trust_models"],
    "kernels/within_query": ["within_query"],
    "metrics/base": ["metrics", "notation"],
    "metrics/definitions": ["metrics"],
    "notation": ["notation", "objective_text"],
    "kernels/letor_text": ["letor"],
    "data/letor": ["letor", "document_ids"],
    "data/letor_parser": ["letor"],
    "data/trec": ["trec"],
    "data/tables": ["tables", "document_ids"],
    "data/blocks": ["trust_streams", "streaming"],
    "data/files": ["trust_streams", "tables", "streaming"],
    "data/arrow": ["data", "fields", "tables", "trust_streams", "streaming"],
    "data/csv_text": ["tables", "preferences"],
    "data/columns": ["data", "fields", "tables"],
    "data/encoding": ["data", "fields", "tables", "trust_files"],
    "data/labels": ["data", "goals"],
    "data/matching": ["data", "tables", "model"],
    "data/pairs": ["preferences"],
    "data/queries": ["queries", "data"],
    "data/on_disk": ["on_disk", "trust_streams", "streaming"],
    "data/streaming": ["trust_streams", "streaming"],
}
PARTS = {  # what is mutated together
    "kernels": [
        name for name in SUITES if name.startswith("kernels/") and name != "kernels/letor_text"
    ],
    "metrics": ["metrics/base", "metrics/definitions"],
    "readers": [
        *(
            "notation",
            "kernels/letor_text",
            "data/letor",
            "data/letor_parser",
            "data/trec",
            "data/tables",
        ),
        *(
            "data/blocks",
            "data/files",
            "data/arrow",
            "data/csv_text",
            "data/columns",
            "data/encoding",
        ),
        *(
            "data/labels",
            "data/matching",
            "data/pairs",
            "data/queries",
            "data/on_disk",
            "data/streaming",
        ),
    ],
}
SELECTION = {  # excludes tests that are too slow without compilation
    "anchors": "not comparable_across_queries",
    "calibration": "not cross_fitting and not features_within",
    "engine_xgboost": "not threads_and_the_order and not resumes and not learns_as_well",
    "evaluation": "not long_block_of_ties and not threads_do_not_matter",
    "kernels_trees": "not many_threads",
    "letor": "not memory and not nearest_float64",
    "reducer": "every_kernel",
    "row_order": "not container and not drawn_or_solved and not any_order",
    "streaming": "not evaluation_sets and not command_line",
    "trust_models": "not garbled",
    "stochastic": "not very_long_lists[None] and not two_and_three and not five_documents and not variance "
    "and not the_time_of and not generalisation_gap",
}
PYTEST = ["-p", "no:cacheprovider", "-xq", "-W", "ignore", "--tb=line"]
LIMITED = """import resource, sys, pytest
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
sys.exit(pytest.main(sys.argv[1:]))"""
TWINS = "Add Sub, Mult Div, LShift RShift, BitAnd BitOr, And Or, Lt LtE, Gt GtE, Eq NotEq"
SWAPS = {
    one: other
    for twins in TWINS.split(", ")
    for one, other in itertools.permutations(twins.split())
}


class Mutant(NamedTuple):
    kernel: str
    name: str  # file, line, and the statement before and after
    text: str  # of the whole file
    id: str  # hash of the text


def alternatives(node: Any, parent: ast.AST, field: str) -> Iterator[ast.AST]:
    """Yield replacements of ``node``."""
    for part in ("op", "ops"):
        ops = getattr(node, part, [])
        for k, op in enumerate(ops if isinstance(ops, list) else [ops]):
            if type(op).__name__ in SWAPS:
                other = copy.deepcopy(node)
                new = getattr(ast, SWAPS[type(op).__name__])()
                setattr(
                    other, part, [*ops[:k], new, *ops[k + 1 :]] if isinstance(ops, list) else new
                )
                yield other
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from (node.left, node.right)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        yield from (node.left, ast.UnaryOp(ast.USub(), node.right))
    elif isinstance(node, ast.AugAssign):
        yield ast.Pass()
    elif isinstance(node, ast.UnaryOp) and field != "test":
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        others = (
            [not node.value] if isinstance(node.value, bool) else [node.value + 1, node.value - 1]
        )
        yield from map(ast.Constant, others)
    elif isinstance(node, ast.Name) and node.id in ("min", "max"):
        yield ast.Name("max" if node.id == "min" else "min")
    elif isinstance(node, ast.Name) and isinstance(parent, ast.Subscript) and field == "slice":
        yield from (ast.BinOp(node, op, ast.Constant(1)) for op in (ast.Add(), ast.Sub()))
    if field == "test":
        yield ast.UnaryOp(ast.Not(), node)


def changes(node: ast.AST) -> Iterator[tuple[Any, ...]]:
    """Yield (parent, field, index in a list or None, child, replacement) for the code below ``node``."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "args", "decorator_list") and not isinstance(
            node, ast.Call
        ):
            continue
        if isinstance(node, ast.Raise | ast.JoinedStr):  # the words of a message
            continue
        for k, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                yield from (
                    (node, field, k, child, other) for other in alternatives(child, node, field)
                )
                yield from changes(child)


def changes_of(tree: ast.Module) -> list[tuple[Any, ...]]:
    """List the changes of all functions except intrinsics, which exist only in compiled code, and messages."""
    bodies = [tree.body, *(one.body for one in tree.body if isinstance(one, ast.ClassDef))]
    functions = [one for body in bodies for one in body if isinstance(one, ast.FunctionDef)]
    functions = [
        one for one in functions if "intrinsic" not in ast.unparse(one) and one.name != "__repr__"
    ]
    return [change for function in functions for change in changes(function)]


def make_mutant(kernel: str, source: str, number: int) -> Mutant:
    tree = ast.parse(source)
    before = ast.unparse(tree)  # every statement on a line of its own
    parent, field, k, child, other = changes_of(tree)[number]
    if k is None:
        setattr(parent, field, other)
    else:
        getattr(parent, field)[k] = other
    text = ast.unparse(tree)
    lines = zip(before.splitlines(), text.splitlines(), strict=True)
    name = next(
        f"{kernel}.py:{child.lineno} {a.strip()} -> {b.strip()}" for a, b in lines if a != b
    )
    return Mutant(kernel, name, text, hashlib.sha256(text.encode()).hexdigest()[:16])


def run_tests(suite: str, tree: Path, package: Path, seconds: int) -> str | None:
    """Run one file of tests on ``package``; return the first failure, or None."""
    command = [
        sys.executable,
        "-c",
        LIMITED.format(seconds=seconds),
        *PYTEST,
        f"tests/test_{suite}.py",
    ]
    command += ["-k", SELECTION[suite]] if suite in SELECTION else []
    env = {
        **os.environ,
        "PYTHONPATH": str(package),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_DISABLE_JIT": "1",
    }
    process = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True)
    if process.returncode == 0:
        return None
    failures = [
        line for line in process.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))
    ]
    output = (process.stdout + process.stderr)[-500:]
    return failures[0] if failures else f"{suite}: exit code {process.returncode}, {output}"


def judge(mutant: Mutant, tree: Path, times: dict[str, int]) -> dict[str, object]:
    """Run the test files of a mutant until one of them fails."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "rankwright"
        shutil.copytree(tree / "src" / "rankwright", package)
        (package / f"{mutant.kernel}.py").write_text(mutant.text)
        failures = (
            run_tests(suite, tree, Path(folder), 3 * times[suite] + 5)
            for suite in SUITES[mutant.kernel]
        )
        return {
            "id": mutant.id,
            "mutant": mutant.name,
            "caught": next(filter(None, failures), None),
        }


def cpu_time() -> int:
    """Return the processor time of all processes started so far, which does not depend on other load."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(used.ru_utime + used.ru_stime)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", choices=PARTS, default="kernels")
    parser.add_argument(
        "--files", nargs="+", choices=SUITES, help="of the package, instead of a part"
    )
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "mutants.jsonl")
    options = parser.parse_args()
    folder = ROOT / "src" / "rankwright"
    sources = {
        name: (folder / f"{name}.py").read_text() for name in options.files or PARTS[options.part]
    }
    every = [
        (kernel, k)
        for kernel, text in sources.items()
        for k in range(len(changes_of(ast.parse(text))))
    ]
    chosen = random.Random(options.seed).sample(every, min(options.count, len(every)))
    sample = [make_mutant(kernel, sources[kernel], k) for kernel, k in chosen]
    if options.list:
        print(
            *(mutant.name for mutant in sample), f"{len(sample)} of {len(every)} mutants", sep="\n"
        )
        return
    options.results.parent.mkdir(parents=True, exist_ok=True)
    options.results.touch()
    known = {
        one["id"]: one
        for one in map(json.loads, options.results.read_text().splitlines())
        if one["caught"]
    }
    todo = [mutant for mutant in sample if mutant.id not in known]
    with (
        tempfile.TemporaryDirectory() as scratch,
        options.results.open("a", buffering=1) as results,
    ):
        tree = Path(scratch)  # a copy, so that edits during the run have no effect
        for part in ("src", "tests"):
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        times = {}
        for suite in dict.fromkeys(suite for mutant in todo for suite in SUITES[mutant.kernel]):
            before = cpu_time()
            if reason := run_tests(suite, tree, tree / "src", 600):
                sys.exit(
                    f"The tests fail without any mutation, so they cannot detect mutants: {reason}"
                )
            times[suite] = cpu_time() - before
            print(f"baseline {suite}: {times[suite]} s", flush=True)
        with ThreadPoolExecutor(options.jobs) as pool:
            for verdict in pool.map(lambda mutant: judge(mutant, tree, times), todo):
                known[str(verdict["id"])] = verdict
                results.write(json.dumps(verdict) + "\n")
                if not verdict["caught"]:
                    print("survived", verdict["mutant"], flush=True)
    caught = sum(bool(known[mutant.id]["caught"]) for mutant in sample)
    print(f"{caught} of {len(sample)} caught")


if __name__ == "__main__":
    main()
