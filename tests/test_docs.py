"""The documentation: examples and commands run, links resolve, names exist, figures are the measured ones."""

from __future__ import annotations

import dataclasses
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import fake_wandb
import rankwright as rw
from rankwright.cli import app, main
from rankwright.metrics import known_metrics
from rankwright.objectives import OBJECTIVES, load_objective
from rankwright_lab import cli as lab

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text() for path in sorted(DOCS.rglob("*.md"))}
LABORATORY = sorted(
    path
    for folder in ("guide", "records", "benchmarks/results")
    for path in (ROOT / "lab" / folder).glob("*.md")
)
# Every text by its path in the repository: the site, the laboratory's pages, and the front page.
TEXTS = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in [*sorted(DOCS.rglob("*.md")), *LABORATORY, ROOT / "README.md"]
}
PROGRAMS = {"rankwright": main, "rankwright-lab": lab.main}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
METRICS = {
    name: kind
    for name, kind in known_metrics().items()
    if kind.__module__ == "rankwright.metrics.definitions"
}


def blocks(text: str) -> Iterator[tuple[str, str, int]]:
    """Fenced blocks of a page: language, content, line of the fence."""
    for match in BLOCK.finditer(text):
        yield match[1], match[2], text.count("\n", 0, match.start()) + 1


def tables(text: str) -> list[list[list[str]]]:
    """Cells of the tables of a page, row by row, without their heads."""
    groups: list[list[list[str]]] = []
    previous = -2
    for number, line in enumerate(text.splitlines()):
        if line.startswith("|"):
            if number != previous + 1:
                groups.append([])
            groups[-1].append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
            previous = number
    return [rows[2:] for rows in groups]


def inline_code(text: str) -> list[str]:
    return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", BLOCK.sub("", text))


@pytest.fixture
def one_core() -> Iterator[None]:
    """Small examples are quickest on one core, whatever else the machine does."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


RUNNING = [
    page
    for page, text in TEXTS.items()
    if page != "README.md" and any(language in ("python", "sh") for language, _, _ in blocks(text))
]


@pytest.mark.parametrize("page", RUNNING)
@pytest.mark.usefixtures("one_core")
def test_examples_and_commands_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "wandb", fake_wandb)  # which wants an account
    monkeypatch.setenv(
        "MLFLOW_ALLOW_FILE_STORE", "true"
    )  # as a page sets it, but only until the end of the test
    names: dict[str, Any] = {}
    for language, content, line in blocks(TEXTS[page]):
        if language == "python":
            run_examples(content, names, page, line)
        elif language == "sh":
            run_commands(content, page, line)
    if "import wandb" in TEXTS[page]:
        curve = names["ranker"].evals_result_["valid_0"]["ndcg@10"]
        logged = [values for run in fake_wandb.RUNS for values in run["logged"]]
        assert [(values["step"], values["valid_0/ndcg@10"]) for values in logged] == list(
            enumerate(curve, start=1)
        )


def run_examples(content: str, names: dict[str, Any], page: str, line: int) -> None:
    test = doctest.DocTestParser().get_doctest(content, names, page, page, line)
    assert test.examples, f"{page}:{line}: a Python block without an example (>>>) is never run"
    output: list[str] = []
    failures, _ = doctest.DocTestRunner(optionflags=FLAGS).run(
        test, out=output.append, clear_globs=False
    )
    names.update(test.globs)
    assert failures == 0, "".join(output)


def run_commands(content: str, page: str, line: int) -> None:
    """Run commands in this process: the imports of a process of its own for each would take most of the time."""
    for command in content.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(command)
        assert program in PROGRAMS, f"{page}:{line}: {program} is not run here"
        output = io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            redirect_stdout(output),
            redirect_stderr(output),
        ):
            patch.setattr(sys, "argv", [program, *arguments])
            code = exit_code(PROGRAMS[program])
        assert code == 0, f"{page}:{line}: {command}\n{output.getvalue()}"


def exit_code(main: Callable[[], None]) -> object:
    try:
        main()
    except SystemExit as end:
        return end.code or 0
    return 0


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_of_a_kind_that_runs(page: str) -> None:
    for language, _, line in blocks(PAGES[page]):
        assert language in ("python", "sh", "text", "toml", "math", "py"), (
            f"{page}:{line}: a {language or 'bare'} block"
        )


@pytest.mark.parametrize("page", TEXTS)
def test_links_and_pictures_resolve(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", TEXTS[page])):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (ROOT / page).parent.joinpath(path).resolve() if path else ROOT / page
        assert there.is_file(), f"{page}: {target} does not exist"
        assert not anchor or anchor in anchors(there.read_text()), (
            f"{page}: {target} has no such heading"
        )
        assert DOCS in there.parents or not page.startswith("docs/"), (
            f"{page}: {target} is not part of the site"
        )


@pytest.mark.parametrize("page", TEXTS)
def test_files_of_the_repository_in_the_text_exist(page: str) -> None:
    for code in inline_code(TEXTS[page]):
        if re.fullmatch(r"(?:lab|docs)/[\w./*-]+", code):
            assert list(ROOT.glob(code)), f"{page}: {code} does not exist"


def test_every_picture_is_shown_and_small() -> None:
    shown = {
        (ROOT / page).parent.joinpath(target).resolve()
        for page, text in TEXTS.items()
        for target in pictures(text)
    }
    files = set((DOCS / "images").iterdir())
    assert shown == files
    assert all(file.stat().st_size < 300_000 for file in files)


def pictures(text: str) -> list[str]:
    """Targets of the pictures of a page."""
    return re.findall(r"!\[[^\]]+\]\(([^)\s]+)\)", text)


def anchors(text: str) -> set[str]:
    """Ids of the headings, as the site makes them."""
    heads = re.findall(r"^#+ (.+)$", BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", head).strip().lower()) for head in heads}


def test_the_page_of_the_command_line_has_every_command_and_option() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    sections = dict(
        re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", PAGES["cli.md"], re.MULTILINE | re.DOTALL)
    )
    assert list(sections) == list(commands)
    for name, command in commands.items():
        options = [
            one for one in command.params if one.param_type_name == "option" and one.name != "help"
        ]
        expected = {flag for option in options for flag in (*option.opts, *option.secondary_opts)}
        cells = re.findall(r"^\| `(-[^`]*)` \| .+ \|$", sections[name], re.MULTILINE)
        assert {
            flag for cell in cells for flag in re.findall(r"(?<!\S)--?[a-z][a-z0-9-]*", cell)
        } == expected, f"{name}: run tools/command_line_page.py"
        summary = command.help.strip().split("\n\n")[0]
        assert " ".join(summary.split()).replace("[", "\\[").split(" <")[0] in sections[
            name
        ].replace("\\]", "]")


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    def pages(entries: Any) -> Iterator[str]:
        for entry in entries:
            for target in entry.values():
                if not isinstance(target, str):
                    yield from pages(target)
                elif target.endswith("/"):  # a folder of pages
                    yield from (page for page in PAGES if page.startswith(target))
                else:
                    yield target

    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    assert sorted(pages(nav)) == sorted(PAGES)


# What the pages say about objectives, metrics and names.


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objective_has_a_page_with_its_options_and_defaults(name: str) -> None:
    page = PAGES[f"objectives/{name}.md"]
    heads = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    assert heads == [
        f"`{name}`",
        "What it optimises",
        "When to use it",
        "Cost",
        "Options",
        "Example",
        "Reference",
    ]
    options = page.partition("## Options")[2].partition("## Example")[0]
    documented = {
        row[0].strip("`"): row[1].strip("`") for table in tables(options) for row in table
    }
    own = [
        field for field in dataclasses.fields(load_objective(name)) if not field.kw_only
    ]  # label is on the index page
    expected = {field.name: json_like(field.default) for field in own}
    assert documented == expected
    assert expected or options.strip() == "None."


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objective_page_names_no_other_option(name: str) -> None:
    known = {field.name for field in dataclasses.fields(load_objective(name))} | set(
        rw.Ranker().get_params()
    )
    named = {
        match[1]
        for code in inline_code(PAGES[f"objectives/{name}.md"])
        if (match := re.match(r"(\w+)=", code))
    }
    assert named <= known


def json_like(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def test_every_objective_is_in_the_table_to_choose_from() -> None:
    index = next(rows for rows in tables(PAGES["objectives/index.md"]) if len(rows[0]) == 6)
    assert sorted(re.findall(r"`(\w+)`", row[0])[0] for row in index) == sorted(OBJECTIVES)


OBJECTIVE_TEXTS = [
    (page, code)
    for page, text in TEXTS.items()
    for code in inline_code(text)
    if re.match(rf"(?:[\d.]+ )?(?:n\^-?[\d.]+ )?(?:{'|'.join(OBJECTIVES)})\b(?:\(|$| \+)", code)
]


@pytest.mark.parametrize(("page", "code"), OBJECTIVE_TEXTS)
def test_objectives_in_the_text_exist_with_their_options(page: str, code: str) -> None:
    assert rw.objective(str(rw.objective(code))) == rw.objective(code)


METRIC_TEXTS = [
    (page, code)
    for page, text in TEXTS.items()
    for code in inline_code(text)
    if re.match(rf"(?:{'|'.join(METRICS)})(?:\(|@|$)", code)
    and "..." not in code
    and "@k" not in code
]


@pytest.mark.parametrize(("page", "code"), METRIC_TEXTS)
def test_metrics_in_the_text_exist_with_their_options(page: str, code: str) -> None:
    assert rw.metric(str(rw.metric(code))) == rw.metric(code)


def test_metrics_page_has_every_metric_with_its_options_and_defaults() -> None:
    table = next(rows for rows in tables(PAGES["metrics.md"]) if rows[0][0] == "`dcg`")
    documented = {row[0].strip("`"): set(re.findall(r"`(\w+=[^`]+)`", row[-1])) for row in table}
    expected = {
        name: {
            f"{field.name}={field.default}"
            for field in dataclasses.fields(kind)
            if not field.kw_only
        }
        for name, kind in METRICS.items()
    }
    assert documented == expected


def test_api_page_has_every_public_name() -> None:
    (table,) = tables(PAGES["api.md"])
    assert sorted(row[0].strip("`") for row in table) == sorted(rw.__all__)
    described = re.findall(r"^::: rankwright\.(\w+)$", PAGES["api.md"], re.MULTILINE)
    elsewhere = ["metrics", "objectives"]  # pages of their own
    assert sorted([*described, *elsewhere]) == sorted(rw.__all__)


def test_papers_page_names_code_that_exists() -> None:
    package = ROOT / "src" / "rankwright"
    cells = [
        code
        for row in tables(PAGES["papers.md"])[0]
        for code in re.findall(r"`([^`]+\.py[^`]*)`", row[3])
    ]
    assert len(cells) >= 10
    for cell in cells:
        path, _, name = cell.partition(": ")
        assert f"def {name}" in (package / path).read_text()


def test_site_builds_without_a_warning_and_requests_nothing(tmp_path: Path) -> None:
    shutil.copytree(DOCS, tmp_path / "docs")
    for name in ("src", "tools"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    build = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    built = {
        path.relative_to(tmp_path / "site"): path for path in (tmp_path / "site").rglob("*.html")
    }
    assert {Path(page).with_suffix(".html") for page in PAGES} <= set(built)
    for page, text in PAGES.items():
        assert built[Path(page).with_suffix(".html")].read_text().count("<math") == text.count(
            "```math"
        )
    for path in built.values():
        loaded = re.findall(
            r"""<(?:script|link|img|iframe)[^>]*?(?:src|href)=["']?([^"'\s>]+)""", path.read_text()
        )
        assert loaded
        assert not [target for target in loaded if "//" in target], path.name


EXAMPLE = """
<pre><nav><button data-md-type="copy">Copy</button></nav><code>&gt;&gt;&gt; for i in range(2):
...     print(i)
0
1
&gt;&gt;&gt; i
1
</code></pre><pre><nav><button data-md-type="copy">Copy</button></nav><code>pip install rankwright
</code></pre>
"""


@pytest.mark.skipif(
    shutil.which("chromium") is None, reason="there is no browser: install Chromium"
)
def test_examples_are_copied_without_prompts_and_output() -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        page = browser.new_page()
        page.set_content(EXAMPLE)
        page.add_script_tag(content=(DOCS / "copy.js").read_text())
        for button in page.locator("button").all():
            button.click()
        copied = page.eval_on_selector_all(
            "button", "all => all.map(button => button.dataset.clipboardText ?? null)"
        )
        browser.close()
    assert copied == ["for i in range(2):\n    print(i)\ni\n", None]


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_named_for_contributors_exist(page: str) -> None:
    package = ROOT / "src" / "rankwright"
    # An engine has its files in a folder of its own.
    places = (ROOT, package, package / "engines" / "lightgbm")
    named = [
        code
        for code in inline_code((ROOT / page).read_text())
        if re.fullmatch(r"[\w./-]+(?:\.(?:py|pyi|md|toml)|/)", code)
    ]
    assert len(named) > 10
    assert [code for code in named if not any((place / code).exists() for place in places)] == []
