"""Add finished runs of the papers' experiments to benchmarks/results/papers.md, and to lab/records/papers.md.

    python benchmarks/papers.py [FOLDER] [--supersede EXPERIMENT ...]
    python benchmarks/papers.py FOLDER --keep-only

FOLDER holds the folders of runs, as `rankwright-lab reproduce --out FOLDER/NAME` and `benchmarks/extension.py` write
them. A run replaces the section of the same experiment and data, or follows the last section of its experiment;
with --supersede, sections of the named experiments on generated data of the same kind but another size are removed.
Without FOLDER only the tables of lab/records/papers.md are written anew.

Outcomes on generated data, of unfinished runs too, go to benchmarks/results/outcomes in a small form, a file for each
world; --keep-only does nothing else. `rankwright-lab reproduce --reuse benchmarks/results/outcomes` then trains only
what is missing there, so that a run of three worlds can be computed in several stretches and on several machines.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from rankwright.report.page import Page
from rankwright.support.files import replacing
from rankwright_lab.experiments import EXPERIMENTS, Record, read_records
from rankwright_lab.harness import Outcome, read_outcomes
from rankwright_lab.kept_outcomes import keep

KEPT = Path(__file__).parent / "results" / "outcomes"
GENERATED = ("generated", "world")  # how the names of generated data begin
PAGE = Path(__file__).parent / "results" / "papers.md"
SUMMARY = Path(__file__).parents[1] / "records" / "papers.md"
OUTCOMES = {
    "agrees": "agrees",
    "not significant": "open",
    "contradicts": "contradicted",
    "mixed": "mixed",
}
PAPERS = {
    "stochasticrank": "StochasticRank",
    "tricks": "Which Tricks (YetiRank, YetiLoss)",
    "xendcg": "XE-NDCG",
    "lambdaex": "Lambda-eX",
    "softrank": "Directness (SoftRank)",
}
# Experiment, pattern of the data's name, and claim. The first of DIAGNOSES that fits explains the verdict.
HEADLINES: tuple[tuple[str, str, str], ...] = (
    ("stochasticrank-table1", "the", "StochasticRank ends at 0.917"),
    ("stochasticrank-table1", "the", "E-LambdaMART, strength 0.3 ends at 0.903"),
    ("stochasticrank-table1", "the", "E-LambdaMART, strength 1 ends at 0.903"),
    ("stochasticrank-table3", "generated", "CCS above REINFORCE by ndcg@5"),
    ("stochasticrank-table3", "generated", "CCS + SFA above CCS by ndcg@5"),
    ("stochasticrank-table3", "generated", "CCS + SFA + SGLB above CCS + SFA by ndcg@5"),
    (
        "stochasticrank-table3",
        "generated",
        "CCS + SFA + SGLB + mu above CCS + SFA + SGLB by ndcg@5",
    ),
    (
        "stochasticrank-table3",
        "generated",
        "CCS + SFA + SGLB + mu, tied features above CCS + SFA + SGLB, tied features by ndcg@5",
    ),
    ("stochasticrank-table2", "generated", "SR-R1 above SoftRank by ndcg@5"),
    ("stochasticrank-table2", "generated", "SR-R1 above LambdaMART by ndcg@5"),
    ("stochasticrank-table2", "generated", "SR-R1 above E-LambdaLoss by ndcg@5"),
    ("stochasticrank-table2", "generated", "SR-R1 above LambdaMART by mrr"),
    ("stochasticrank-table2", "generated", "SR-R1 above E-LambdaMART by mrr"),
    ("tricks-table2", "generated", "YetiRank above YetiLoss by ndcg@10"),
    ("tricks-table2", "generated", "YetiRank above StochasticRank by ndcg@10"),
    ("tricks-table2", "generated", "YetiRank above LambdaMART by ndcg@10"),
    ("tricks-table2", "generated", "YetiRank above LambdaMART by mrr"),
    ("tricks-table2", "generated", "YetiLoss above LambdaMART by mrr"),
    ("tricks-table2", "generated", "YetiLoss above LambdaMART by map"),
    ("tricks-table2", "generated", "YetiLoss above YetiRank by map"),
    ("tricks-table2", "generated", "YetiLoss above QueryRMSE by map"),
    ("tricks-table3", "generated", "YetiLoss, logistic above YetiLoss, no smoothing by ndcg@10"),
    ("tricks-table4", "generated", "YetiRank above LightGBM by ndcg@10"),
    ("xendcg-table1", "generated", "XE-NDCG above LambdaMART by ndcg@5"),
    (
        "xendcg-clicks",
        "generated",
        "XE-NDCG, clicks at 0.05 above LambdaMART, clicks at 0.05 by ndcg@5",
    ),
    (
        "xendcg-clicks",
        "generated",
        "XE-NDCG, clicks at 0.15 above LambdaMART, clicks at 0.15 by ndcg@5",
    ),
    (
        "xendcg-clicks",
        "generated",
        "XE-NDCG, clicks at 0.25 above LambdaMART, clicks at 0.25 by ndcg@5",
    ),
    ("xendcg-robustness", "generated", "XE-NDCG loses less than LambdaMART with 80% negatives"),
    ("xendcg-robustness", "generated", "XE-NDCG loses less than LambdaMART with 40% random labels"),
    ("xendcg-robustness", "generated", "XE-NDCG loses less than LambdaMART with 80% random labels"),
    ("lambdaex-table5", "generated, sparse, 1500", "eX static above tau=k+3 by ndcg@5"),
    ("lambdaex-table5", "generated, sparse, 1500", "eX static above tau=k by ndcg@5"),
    ("lambdaex-table5", "generated, sparse, 1500", "eX random above tau=k+3 by ndcg@5"),
    ("lambdaex-table5", "generated, sparse, 1500", "eX all above tau=k+3 by ndcg@5"),
    ("lambdaex-table5", "generated, sparse, 1500", "tau=inf above tau=k+3 by ndcg@5"),
    ("lambdaex-table5", "generated, sparse, 1500", "eX random above tau=k+3 by ndcg@10"),
    ("lambdaex-table5", "generated, sparse, 1500", "eX static above tau=k+3 by ndcg@10"),
    ("lambdaex-table5", "generated, sparse, 1500", "eX static like tau=inf by ndcg@10"),
    ("lambdaex-table5", "generated, sparse, 1500.*LambdaLoss", "eX static above tau=k+3 by ndcg@5"),
    ("lambdaex-table5", "generated, sparse, 1500.*LambdaLoss", "eX random above tau=k+3 by ndcg@5"),
    (
        "lambdaex-figure3",
        "generated",
        "LambdaMART τ=k has more queries with harmful pairs than LambdaMART-eX static",
    ),
    (
        "lambdaex-table6",
        "generated",
        "the objective of LambdaMART τ=∞ takes longer than that of LambdaMART-eX static",
    ),
    (
        "softrank-directness",
        "generated",
        "the gap is below the bound of theorem 2 wherever its condition holds",
    ),
)
# Patterns of the experiment, the data's name and the claims, and what explains their verdicts: the method, its
# implementation, the settings or the data. Claims that agree need none, and open ones get one from their interval.
DIAGNOSES: tuple[tuple[str, str, str, str], ...] = (
    (
        "stochasticrank-table1",
        "the",
        "StochasticRank ends",
        "method; shared or independent leaf noise",
    ),
    (
        "stochasticrank-table1",
        "the",
        "E-Lambda(MART, strength 1|Loss)",
        "settings: noise escapes for some seeds",
    ),
    (
        "stochasticrank-table3",
        "generated",
        r"CCS \+ SFA \+ SGLB above",
        "luck of the searches: all else equal +0.05 [-0.10, +0.19]; at the temperatures searched the noise is weak",
    ),
    (
        "stochasticrank-table3",
        "generated",
        r"CCS \+ SFA \+ SGLB \+ mu above",
        "settings: a third of the range of mu does harm; all else equal mu = 0.1 is +0.13 [-0.02, +0.29]",
    ),
    (
        "stochasticrank-table3",
        "generated",
        r"CCS \+ SFA \+ SGLB \+ mu, tied",
        "data: all five are within 1.1 points; all else equal mu = 0.1 is -0.02 [-0.10, +0.06]",
    ),
    (
        "stochasticrank-table3",
        "generated",
        ".*tied features",
        "luck of the searches: all else equal REINFORCE is 0.5 below CCS, and Langevin noise changes nothing",
    ),
    (
        "stochasticrank-table2",
        "generated",
        "SR-R1 above SR-R1 soft by ndcg",
        "settings: a third of the range of mu does harm, and 300 trees are few; +0.4 with 1000",
    ),
    (
        "stochasticrank-table2",
        "generated",
        "SR-R1 above LambdaMART by ndcg",
        "method: -1.1 with 1000 trees too",
    ),
    (
        "stochasticrank-table2",
        "generated",
        "SR-R1 above E-LambdaLoss by ndcg",
        "method: -1.6 with 1000 trees too",
    ),
    ("stochasticrank-table2", "generated", "SR-R1.* above .*Lambda.* by ndcg", "method, or data"),
    (
        "tricks-table2",
        "generated",
        "YetiRank above StochasticRank",
        "method; StochasticRank is not tuned",
    ),
    ("tricks-table2", "generated", "StochasticRank above", "settings: StochasticRank is not tuned"),
    (
        "tricks-table[24]",
        "generated",
        "YetiRank above LambdaMART by ndcg",
        "implementation: +1.7 in CatBoost, +1.2 on its leaf-wise trees, where its LambdaMART is 1.8 below rankwright's",
    ),
    (
        "tricks-table[24]",
        "generated",
        "QueryRMSE above LambdaMART by ndcg",
        "implementation: +1.5 in CatBoost, +1.0 on its leaf-wise trees, where its LambdaMART is 1.8 below rankwright's",
    ),
    (
        "tricks-table[24]",
        "generated",
        "YetiLoss above LambdaMART by map",
        "settings: +1.2 with up to 300 trees, +0.4 with CatBoost's own; more trees favour LambdaMART",
    ),
    (
        "tricks-table[24]",
        "generated",
        "YetiLoss above YetiRank by map",
        "data: -0.2 with CatBoost's own losses too",
    ),
    ("tricks-table2", "generated", "YetiLoss above YetiRank by mrr", "data, probably, as by MAP"),
    (
        "tricks-table4",
        "generated",
        "YetiRank above LightGBM",
        "method; -3.36 with 100 trees was settings",
    ),
    (
        "tricks-table4",
        "generated",
        "YetiLoss above",
        "settings, probably: neither leaves nor rate are chosen for it",
    ),
    (
        "tricks-table3",
        "generated",
        "YetiLoss, logistic like",
        "settings: at strength 1 logistic noise is 1.8 times as wide",
    ),
    (
        "tricks-neighbours",
        "mq2008",
        "YetiLoss, 2 like YetiLoss, 1 by err",
        "chance, or the method: one of 32 such tests; the paper's table has the same sign",
    ),
    (
        "xendcg-clicks",
        "generated",
        "XE-NDCG, clicks at 0.05",
        "method; -3.51 with 400 leaves was settings",
    ),
    (
        "xendcg-clicks",
        "generated",
        "XE-NDCG, clicks at 0.15",
        "method; -1.47, not significant, with 400 leaves was settings",
    ),
    (
        "xendcg-clicks",
        "generated",
        "XE-NDCG, clicks at 0.25",
        "chance of the draws: from -2.9 to +4.1 points",
    ),
    (
        "xendcg-clicks",
        "generated",
        "XE-NDCG loses less",
        "chance of the draws: of either sign in nine of them",
    ),
    (
        "xendcg-robustness",
        "generated",
        "XE-NDCG loses less .* negatives",
        "data: below a point, with the paper's sign; -2.61 at 80 % earlier: one draw, LambdaMART for NDCG@5",
    ),
    (
        "xendcg-robustness",
        "generated",
        "XE-NDCG loses less .* 20% random labels",
        "data: half a point at most",
    ),
    (
        "xendcg-robustness",
        "generated",
        "XE-NDCG loses less .* [468]0% random labels",
        "method: its lead of 1.7 points shrinks with every step; why was not found",
    ),
    (
        "lambdaex-table5",
        ".*LambdaLoss",
        r"eX static above tau=k\+3 by ndcg@5",
        "data: half a point, where 0.6 would be significant; the other strategies are ahead",
    ),
    ("lambdaex-table5", ".*LambdaLoss", "eX static above", "method, in the paper's reading"),
    (
        "lambdaex-table5",
        "generated, sparse, 1500",
        "eX static above tau=k.* by ndcg@5",
        "method, in the paper's reading",
    ),
    (
        "lambdaex-table5",
        "generated, sparse, 1500",
        "eX static above tau=k.* by ndcg@10",
        "data: about 3 relevant documents a query, which the top 10 mostly holds; in the paper +0.06 on Istella-X",
    ),
    ("lambdaex-figure3", "generated", "LambdaMART τ=k has more", "method, in the paper's reading"),
)
_POINT = 1.0  # differences up to this are called small


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument(
        "--supersede", nargs="+", default=[], choices=list(EXPERIMENTS), metavar="EXPERIMENT"
    )
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
            sections = [
                section for section in sections if not superseded(title(section), title(new))
            ]
        sections = inserted(sections, new)
    with replacing(PAGE) as file:
        file.write(
            (head + counted(overview, sections) + "".join(sections)).rstrip("\n").encode() + b"\n"
        )
    text = SUMMARY.read_text(encoding="utf-8")
    for mark, rows in summary_tables(sections).items():
        pattern = rf"(<!-- {re.escape(mark)} -->\n\n)(?:\|.*\n)*\n*"
        text, found = re.subn(pattern, lambda match, rows=rows: f"{match[1]}{rows}\n", text)
        if found != 1:
            raise ValueError(
                f"lab/records/papers.md must have the mark {mark!r} once; it has it {found} times."
            )
    with replacing(SUMMARY) as file:
        file.write(recounted(text, sections).encode())


def keep_outcomes(folder: Path, kept: Path) -> None:
    """Add the outcomes of all runs in a folder on generated data to the kept ones, a file for each world."""
    worlds: dict[str, list[Outcome]] = {}
    for path in sorted(folder.rglob("outcomes.jsonl")):
        for outcome in read_outcomes(path):
            if outcome.data.startswith(GENERATED):
                name = re.sub(r"[^a-z0-9]+", "-", f"{outcome.data} {outcome.fold}".lower()).strip(
                    "-"
                )
                worlds.setdefault(name, []).append(outcome)
    for name, outcomes in worlds.items():
        kept.mkdir(parents=True, exist_ok=True)
        keep(outcomes, kept / f"{name}.jsonl.gz")


def superseded(old: tuple[str, str], new: tuple[str, str]) -> bool:
    """Whether a section, by experiment and data, is on generated data of the same kind as another but of other size."""
    kinds = [re.match(r"generated, \w+", data) for _, data in (old, new)]
    return old != new and old[0] == new[0] and None not in kinds and kinds[0][0] == kinds[1][0]  # type: ignore[index]


def summary_tables(sections: list[str]) -> dict[str, str]:
    """Return the tables of lab/records/papers.md by the marks that they follow."""
    totals = {name: [0] * len(OUTCOMES) for name in PAPERS}
    against: list[list[str]] = []
    for section in sections:
        experiment, data = title(section)
        for outcome, claim, evidence in claims(section):
            totals[experiment.partition("-")[0]][list(OUTCOMES).index(outcome)] += 1
            if outcome == "contradicts":
                why = diagnosis(experiment, data, outcome, claim, evidence)
                against.append([experiment, data.partition(",")[0], claim, short(evidence), why])
    rows = [[PAPERS[name], *map(str, counts)] for name, counts in totals.items()]
    tables = {
        "papers.md": table(
            ["paper", "agree", "not significant", "contradicted", "mixed"], rows, "--:"
        ),
        "contradicted": table(
            ["experiment", "data", "claim", "difference, points", "why"], against, "---"
        ),
    }
    for name in PAPERS:
        own = [headline(sections, *line) for line in HEADLINES if line[0].partition("-")[0] == name]
        tables[f"headlines: {name}"] = table(["claim", "here", "verdict", "why"], own, "---")
    return tables


def recounted(text: str, sections: list[str]) -> str:
    """Return lab/records/papers.md with the totals in its sentences and in the row "after" written anew."""
    verdicts = [(title(section)[1], row[0]) for section in sections for row in claims(section)]
    agree, undecided, against, mixed = (
        sum(found == outcome for _, found in verdicts) for outcome in OUTCOMES
    )
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
            raise ValueError(
                f"lab/records/papers.md must have {pattern!r} once; it has it {found} times."
            )
    return text


def headline(sections: list[str], experiment: str, data: str, claim: str) -> list[str]:
    """Return a row: the claim, its figure and interval, the verdict, and the diagnosis."""
    for section in sections:
        name, place = title(section)
        if name == experiment and re.match(data, place):
            for outcome, text, evidence in claims(section):
                if text == claim:
                    why = diagnosis(experiment, place, outcome, claim, evidence)
                    loss = "NDCG-Loss2++: " if "LambdaLoss" in place else ""
                    return [loss + claim, short(evidence), OUTCOMES[outcome], why]
    raise ValueError(
        f"papers.md has no claim {claim!r} of {experiment} on data whose name begins with {data!r}."
    )


def diagnosis(experiment: str, data: str, outcome: str, claim: str, evidence: str) -> str:
    """Say what explains a verdict: what DIAGNOSES has, or else what the interval says of an open claim."""
    for name, place, pattern, why in DIAGNOSES:
        if re.fullmatch(name, experiment) and re.match(place, data) and re.match(pattern, claim):
            return why
    if outcome == "agrees":
        return "method"
    interval = re.search(r"\[([-+.\d]+), ([-+.\d]+)\]", evidence)
    if outcome != "not significant" or interval is None:
        raise ValueError(
            f"DIAGNOSES has none for {claim!r} of {experiment} on {data}, which is {OUTCOMES[outcome]}."
        )
    largest = max(abs(float(bound)) for bound in interval.groups())
    if largest <= _POINT:
        return "data: no difference of a point here"
    return f"data too small: up to {largest:.1f} points are possible"


def short(evidence: str) -> str:
    """Return the figure and interval of a piece of evidence."""
    return evidence.partition(", p ")[0].replace(" points", "")


def table(columns: list[str], rows: list[list[str]], align: str) -> str:
    """Return a table; ``align`` is for all columns but the first."""
    head, *body = ("| " + " | ".join(row) + " |\n" for row in [columns, *rows])
    return f"{head}|---|{'|'.join([align] * (len(columns) - 1))}|\n{''.join(body)}"


def text_of(record: Record) -> str:
    markdown = Page("", [record.section()], "").markdown()
    return markdown[markdown.index("## ") :].rstrip("\n") + "\n\n"


def title(section: str) -> tuple[str, str]:
    """Experiment and data of a section."""
    found = re.match(
        r"## ([\w-]+): .*?\(((?:generated|the paper|mq2008|[^()]*)[^()]*)\)\n", section
    )
    if found is None:
        raise ValueError(
            f"a section of papers.md has no experiment and data in its title: {section[:80]!r}"
        )
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
    """Return the overview with its tables written anew."""
    rows, against, undecided = [], [], []
    for section in sections:
        experiment, data = title(section)
        found = claims(section)
        counts = [sum(row[0] == outcome for row in found) for outcome in OUTCOMES]
        rows.append([experiment, data, *map(str, counts)])
        for outcome, claim, evidence in found:
            if outcome != "agrees":
                why = diagnosis(experiment, data, outcome, claim, evidence)
                (against if outcome == "contradicts" else undecided).append(
                    [experiment, data, claim, evidence, why]
                )
    intro = overview.partition("| experiment |")[0]
    columns = ["experiment", "data", "claim", "evidence", "why"]
    counts_table = table(
        ["experiment", "data", "claims that agree", "not significant", "contradicted", "mixed"],
        rows,
        "--:",
    )
    return (
        f"{intro}{counts_table}\n**Contradicted**\n\n{table(columns, against, '---')}\n"
        f"**Open or mixed**\n\n{table(columns, undecided, '---')}\n"
    )


if __name__ == "__main__":
    main()
