"""Add finished runs of the papers' experiments to benchmarks/results/papers.md; write the tables of docs/results.md.

    python benchmarks/papers.py [FOLDER] [--supersede EXPERIMENT ...]
    python benchmarks/papers.py FOLDER --keep-only

FOLDER holds the folders of runs, as `rankwright reproduce --out FOLDER/NAME` and `benchmarks/extension.py` write them.
A run takes the place of the section of the same experiment and data, or follows the last section of its experiment;
with --supersede, sections of the named experiments on generated data of the same kind but another size are removed.
Without FOLDER only the tables of docs/results.md are written anew.

Outcomes on generated data, of unfinished runs too, go to benchmarks/results/outcomes in a small form, a file for each
world; --keep-only does nothing else. `rankwright reproduce --reuse benchmarks/results/outcomes` then trains only what
is missing there, so that a run of three worlds can be computed in several stretches and on several machines.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from rankwright._io import replacing
from rankwright.report.page import Page
from rankwright.research.experiments import EXPERIMENTS, Record, read_records
from rankwright.research.harness import Outcome, read_outcomes
from rankwright.research.kept_outcomes import keep

KEPT = Path(__file__).parent / "results" / "outcomes"
GENERATED = ("generated", "world")  # how the names of generated data begin
PAGE = Path(__file__).parent / "results" / "papers.md"
SUMMARY = Path(__file__).parents[1] / "docs" / "results.md"
OUTCOMES = {"agrees": "agrees", "not significant": "open", "contradicts": "contradicted", "mixed": "mixed"}
PAPERS = {
    "stochasticrank": "StochasticRank",
    "tricks": "Which Tricks (YetiRank, YetiLoss)",
    "xendcg": "XE-NDCG",
    "lambdaex": "Lambda-eX",
    "softrank": "Directness (SoftRank)",
}
# Experiment, start of the data's name, claim, and what explains the verdict: the method, the settings or the data.
HEADLINES: tuple[tuple[str, str, str, str], ...] = (
    ("stochasticrank-table1", "the", "StochasticRank ends at 0.917", "method; shared or independent leaf noise"),
    ("stochasticrank-table1", "the", "E-LambdaMART, strength 0.3 ends at 0.903", "method"),
    ("stochasticrank-table1", "the", "E-LambdaMART, strength 1 ends at 0.903", "settings: strong noise escapes"),
    ("stochasticrank-table3", "generated", "CCS above REINFORCE by ndcg@5", "method"),
    ("stochasticrank-table3", "generated", "CCS + SFA above CCS by ndcg@5", "method"),
    (
        "stochasticrank-table3",
        "generated",
        "CCS + SFA + SGLB above CCS + SFA by ndcg@5",
        "data too small for half a point: one world of 996 test queries",
    ),
    (
        "stochasticrank-table3",
        "generated",
        "CCS + SFA + SGLB + mu above CCS + SFA + SGLB by ndcg@5",
        "data too small for a point; -0.91 with mu fixed at 0.1 was settings",
    ),
    (
        "stochasticrank-table3",
        "generated",
        "CCS + SFA + SGLB + mu, tied features above CCS + SFA + SGLB, tied features by ndcg@5",
        "data: with six ternary columns all five are within 0.6 points on validation queries",
    ),
    (
        "stochasticrank-table2",
        "generated",
        "SR-R1 above LambdaMART by ndcg@5",
        "one world; +2.36 with 8 trials of 40 trees was settings: its lead is early",
    ),
    ("stochasticrank-table2", "generated", "SR-R1 above LambdaMART by mrr", "method"),
    ("tricks-table2", "generated", "YetiLoss above LambdaMART by map", "method"),
    ("tricks-table2", "generated", "YetiLoss above LambdaMART by mrr", "method"),
    ("tricks-table2", "generated", "YetiLoss above YetiRank by map", "settings: 8 trials of 40 trees"),
    ("tricks-table2", "generated", "YetiRank above LambdaMART by ndcg@10", "data too small for a point"),
    ("tricks-table3", "generated", "YetiLoss, logistic above YetiLoss, no smoothing by ndcg@10", "method"),
    (
        "tricks-table4",
        "generated",
        "YetiRank above LightGBM by ndcg@10",
        "settings: few trees at other learning rates and leaves; the paper itself has it on 4 of 6 data sets",
    ),
    ("xendcg-table1", "generated", "XE-NDCG above LambdaMART by ndcg@5", ""),
    (
        "xendcg-clicks",
        "generated",
        "XE-NDCG, clicks at 0.05 above LambdaMART, clicks at 0.05 by ndcg@5",
        "method; -3.51 with 400 leaves was settings",
    ),
    (
        "xendcg-clicks",
        "generated",
        "XE-NDCG, clicks at 0.15 above LambdaMART, clicks at 0.15 by ndcg@5",
        "method; -1.47, not significant, with 400 leaves was settings",
    ),
    (
        "xendcg-clicks",
        "generated",
        "XE-NDCG, clicks at 0.25 above LambdaMART, clicks at 0.25 by ndcg@5",
        "method: much noise takes its lead; data too small for less than a point",
    ),
    (
        "xendcg-robustness",
        "generated",
        "XE-NDCG loses less than LambdaMART with 80% negatives",
        "method: γ gives every added negative a share of φ; data: LambdaMART loses nothing here",
    ),
    (
        "xendcg-robustness",
        "generated",
        "XE-NDCG loses less than LambdaMART with 40% random labels",
        "data too small; it stays ahead at every level",
    ),
    (
        "lambdaex-table5",
        "generated, sparse, 1500",
        "eX static above tau=k+3 by ndcg@5",
        "method, in the paper's reading",
    ),
    ("lambdaex-table5", "generated, sparse, 1500", "eX static above tau=k by ndcg@5", "method, in the paper's reading"),
    ("lambdaex-table5", "generated, sparse, 1500", "eX random above tau=k+3 by ndcg@5", ""),
    ("lambdaex-table5", "generated, sparse, 1500", "eX all above tau=k+3 by ndcg@5", ""),
    ("lambdaex-table5", "generated, sparse, 1500", "tau=inf above tau=k+3 by ndcg@5", ""),
    (
        "lambdaex-table5",
        "generated, sparse, 1500",
        "eX static above tau=k+3 by ndcg@10",
        "data: about 3 relevant documents a query, which the top 10 mostly holds; in the paper +0.06 on Istella-X",
    ),
    (
        "lambdaex-figure3",
        "generated",
        "LambdaMART τ=k has more queries with harmful pairs than LambdaMART-eX static",
        "method, in the paper's reading",
    ),
    (
        "lambdaex-table6",
        "generated",
        "the objective of LambdaMART τ=∞ takes longer than that of LambdaMART-eX static",
        "",
    ),
    ("softrank-directness", "generated", "the gap is below the bound of theorem 2 wherever its condition holds", ""),
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--supersede", nargs="+", default=[], choices=list(EXPERIMENTS), metavar="EXPERIMENT")
    parser.add_argument("--keep-only", action="store_true")
    args = parser.parse_args()
    if args.folder is not None:
        keep_outcomes(args.folder, KEPT)
    if args.keep_only:
        return
    head, *sections = re.split(r"^(?=## )", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    overview, sections = sections[0], sections[1:]
    for record in [] if args.folder is None else read_records(args.folder):
        new = text_of(record)
        if title(new)[0] in args.supersede:
            sections = [section for section in sections if not superseded(title(section), title(new))]
        sections = inserted(sections, new)
    with replacing(PAGE) as file:
        file.write((head + counted(overview, sections) + "".join(sections)).rstrip("\n").encode() + b"\n")
    text = SUMMARY.read_text(encoding="utf-8")
    for mark, rows in summary_tables(sections).items():
        pattern = rf"(<!-- {re.escape(mark)} -->\n\n)(?:\|.*\n)*\n*"
        text, found = re.subn(pattern, lambda match, rows=rows: f"{match[1]}{rows}\n", text)
        if found != 1:
            raise ValueError(f"docs/results.md must have the mark {mark!r} once; it has it {found} times.")
    with replacing(SUMMARY) as file:
        file.write(recounted(text, sections).encode())


def keep_outcomes(folder: Path, kept: Path) -> None:
    """Add the outcomes of all runs in a folder on generated data to the kept ones, a file for each world."""
    worlds: dict[str, list[Outcome]] = {}
    for path in sorted(folder.rglob("outcomes.jsonl")):
        for outcome in read_outcomes(path):
            if outcome.data.startswith(GENERATED):
                name = re.sub(r"[^a-z0-9]+", "-", f"{outcome.data} {outcome.fold}".lower()).strip("-")
                worlds.setdefault(name, []).append(outcome)
    for name, outcomes in worlds.items():
        kept.mkdir(parents=True, exist_ok=True)
        keep(outcomes, kept / f"{name}.jsonl.gz")


def superseded(old: tuple[str, str], new: tuple[str, str]) -> bool:
    """Whether a section, by experiment and data, is on generated data of the same kind as another but of other size."""
    kinds = [re.match(r"generated, \w+", data) for _, data in (old, new)]
    return old != new and old[0] == new[0] and None not in kinds and kinds[0][0] == kinds[1][0]  # type: ignore[index]


def summary_tables(sections: list[str]) -> dict[str, str]:
    """Return the tables of docs/results.md by the marks that they follow."""
    totals = {name: [0] * len(OUTCOMES) for name in PAPERS}
    against: list[list[str]] = []
    for section in sections:
        experiment, data = title(section)
        for outcome, claim, evidence in claims(section):
            totals[experiment.partition("-")[0]][list(OUTCOMES).index(outcome)] += 1
            if outcome == "contradicts":
                against.append([experiment, data.partition(",")[0], claim, short(evidence)])
    rows = [[PAPERS[name], *map(str, counts)] for name, counts in totals.items()]
    tables = {
        "papers.md": table(["paper", "agree", "not significant", "contradicted", "mixed"], rows, "--:"),
        "contradicted": table(["experiment", "data", "claim", "difference, points"], against, "---"),
    }
    for name in PAPERS:
        own = [headline(sections, *line) for line in HEADLINES if line[0].partition("-")[0] == name]
        tables[f"headlines: {name}"] = table(["claim", "here", "verdict", "why"], own, "---")
    return tables


def recounted(text: str, sections: list[str]) -> str:
    """Return docs/results.md with the totals in its sentences and in the row "after" written anew."""
    verdicts = [(title(section)[1], row[0]) for section in sections for row in claims(section)]
    agree, undecided, against, mixed = (sum(found == outcome for _, found in verdicts) for outcome in OUTCOMES)
    small = sum(data == "mq2008" and found == "not significant" for data, found in verdicts)
    sentences = {
        r"Of \d+ tests of a claim on a data set, .* hold": f"Of {len(verdicts)} tests of a claim on a data set, "
        f"{agree} agree with the paper, {undecided} are not significant, {against} contradict it and {mixed} hold",
        r"\| after \|.*\|": f"| after | {len(verdicts)} | {agree} | {undecided} | {against} | {mixed} |",
        r"Of the open claims \d+ are": f"Of the open claims {small} are",
    }
    for pattern, sentence in sentences.items():
        text, found = re.subn(pattern, sentence, text)
        if found != 1:
            raise ValueError(f"docs/results.md must have {pattern!r} once; it has it {found} times.")
    return text


def headline(sections: list[str], experiment: str, data: str, claim: str, why: str) -> list[str]:
    """Return a row: the claim, its figure and interval, the verdict, and the diagnosis."""
    for section in sections:
        name, place = title(section)
        if name == experiment and place.startswith(data):
            for outcome, text, evidence in claims(section):
                if text == claim:
                    return [claim, short(evidence), OUTCOMES[outcome], why or "method"]
    raise ValueError(f"papers.md has no claim {claim!r} of {experiment} on data whose name begins with {data!r}.")


def short(evidence: str) -> str:
    """Return the figure and interval of a piece of evidence."""
    return evidence.partition(", p ")[0].replace(" points", "")


def table(columns: list[str], rows: list[list[str]], align: str) -> str:
    lines = [columns, ["---", *[align] * (len(columns) - 1)]]
    text = "".join("| " + " | ".join(row) + " |\n" for row in [lines[0], *rows])
    head, _, body = text.partition("\n")
    return f"{head}\n|{'|'.join(lines[1])}|\n{body}"


def text_of(record: Record) -> str:
    markdown = Page("", [record.section()], "").markdown()
    return markdown[markdown.index("## ") :].rstrip("\n") + "\n\n"


def title(section: str) -> tuple[str, str]:
    """Experiment and data of a section."""
    found = re.match(r"## ([\w-]+): .*?\(((?:generated|the paper|mq2008|[^()]*)[^()]*)\)\n", section)
    if found is None:
        raise ValueError(f"a section of papers.md has no experiment and data in its title: {section[:80]!r}")
    return found[1], found[2]


def inserted(sections: list[str], new: str) -> list[str]:
    """Replace the section of the same experiment and data, or insert it in the order of the experiments."""
    places = [title(section) for section in sections]
    if title(new) in places:
        number = places.index(title(new))
        return [*sections[:number], new, *sections[number + 1 :]]
    order = list(EXPERIMENTS)
    own = order.index(title(new)[0])
    after = sum(order.index(experiment) <= own for experiment, _ in places)
    return [*sections[:after], new, *sections[after:]]


def claims(section: str) -> list[list[str]]:
    """Rows of the table of claims: here, claim, evidence."""
    table = section.partition("| here | claim | evidence |\n")[2].split("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[1:]]


def counted(overview: str, sections: list[str]) -> str:
    """Return the overview with its two tables written anew."""
    rows, against = [], []
    for section in sections:
        experiment, data = title(section)
        found = claims(section)
        counts = [sum(row[0] == outcome for row in found) for outcome in OUTCOMES]
        rows.append(f"| {experiment} | {data} | " + " | ".join(map(str, counts)) + " |\n")
        against += [f"| {experiment} | {data} | {row[1]} | {row[2]} |\n" for row in found if row[0] == "contradicts"]
    intro, first, second = re.fullmatch(
        r"(.*?)(\| experiment \| data \| claims.*?\n)(?:\|.*?\n)+\n"
        r"(\*\*Contradicted\*\*\n\n.*?\n\|[-|:]*\n)(?:\|.*\n)*\s*",
        overview,
        flags=re.DOTALL,
    ).groups()  # type: ignore[union-attr]
    return intro + first + "|---|---|--:|--:|--:|--:|\n" + "".join(rows) + "\n" + second + "".join(against) + "\n"


if __name__ == "__main__":
    main()
