"""One page of everything that the runs under figures/ hold: build/report/index.html, with nothing fetched from outside.

What a table is, its columns say, so that a notebook needs no entry here:
- with `claim`, `tested by`, `figure` and a column a run: the scoreboard (notebook 12), which opens the page.
- with `verdict` (or several, as `verdict, balanced`: the first counts) and `claim` (or `presupposed`): claims. `where`,
  or else `model`, `data` and `bias`, say what a claim was tested on (without these: the models of its provenance),
  `figure` names the figure behind it (4a is NN_fig4a; without it: the notebook's figures), and every other column is
  its evidence.
- with `verdict`, `paper` and `ours`: printed numbers beside ours, named by the columns that are left.
- any other is shown as it is, among the figures.
A verdict begins with one of VERDICTS; what follows, in brackets or after a colon, is its reason. The same files give
the same page: the only times on it are those of the notebooks executed here. Look and filters are in report.html.
"""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

from lib import CompanionError, paths
from lib.publish.results import Result, address, collect, runs
from lib.publish.run import replace

# the only addresses outside that the page links to
PAPERS = {
    "Bias A-head": (range(2, 7), "https://arxiv.org/abs/2311.10395", "Yang, Duan, Abbasi, Lalor and Tam",
                    "Which attention heads carry a stereotype?"),
    "Projective Methods": (range(7, 10), "https://arxiv.org/abs/2403.18803", "Dawkins, Nejadgholi, Gillis and McCuaig",
                           "What does a projection inside BERT remove, and what does it cost?"),
    "Counteracts": (range(10, 12), "https://arxiv.org/abs/2301.04347", "Zhang",
                    "Do counterexamples in the prompt move a model?"),
}
ALL_PAPERS = "All three papers"  # notebooks that belong to none alone
VERDICTS = ("holds", "in part", "fails", "cannot be tested", "matches", "within interval", "differs", "other model",
            "not run")
CLAIM, WHERE = ("claim", "presupposed"), ("model", "data", "bias")
BOARD = {"source", "claim", "tested by", "figure"}
TABLE_ROWS = 40  # of a table among the figures; the whole is in its file


def write(folders=None):
    """Make the page of these runs (all that are stored) and return its path."""
    page = render(collect(folders or runs()))
    target = paths.BUILD / "report" / "index.html"
    try:
        replace(target, page.encode())
    except OSError as error:
        raise CompanionError(f"The report could not be written ({error.strerror}): make {target.parent} writable, "
                             "then run ./reproduce.sh report.") from None
    return target


def render(results):
    """The page, as text."""
    from jinja2 import Environment, StrictUndefined

    kinds = [(result, _kind(result)) for result in results]
    shown = [result for result, kind in kinds if kind in ("picture", "table")]
    shown.sort(key=lambda result: (result.number, result.is_table))  # figures first
    claims = [row for result, kind in kinds if kind == "claims" for row in _claims(result, results)]
    table = next((result for result, kind in kinds if kind == "board"), None)
    board = _board(table, results) if table else []
    numbers = [row for result, kind in kinds if kind == "numbers" for row in _numbers(result)]
    with ThreadPoolExecutor() as pool:  # packing a picture takes a tenth of a second
        drawn = [result for result in shown if not result.is_table]
        pictures = dict(zip([result.id for result in drawn], pool.map(Result.picture, drawn)))
    names = sorted({result.run for result in results})
    notebooks = _notebooks(results, names)
    tested = [told for row in board for told in row["verdicts"]] or claims
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(Path(__file__).with_suffix(".html").read_text(encoding="utf-8")).render(
        runs=names, papers=PAPERS, notebooks=notebooks, glance=_glance(tested, names),
        board=_grouped(board, "paper"), board_table=table,
        board_runs=[told["run"] for row in board[:1] for told in row["verdicts"]],
        verdicts=[kind for kind in (*VERDICTS, "other")
                  if any(row["kind"] == kind for row in tested + claims + numbers)],
        claims=_grouped(claims, "number", "claim", "where"), numbers=_grouped(numbers, "number", "what"),
        gallery=[(number, list(part)) for number, part in groupby(shown, key=lambda result: result.number)],
        by_paper=[(paper, list(part)) for paper, part in groupby(notebooks, key=paper_of)],
        pictures=pictures, paper_of=paper_of, is_number=_is_number, table_rows=TABLE_ROWS,
        n_board=len(board), n_claims=len(claims), n_numbers=len(numbers),
        n_figures=sum(not result.is_table for result in results))


def paper_of(number):
    """Which paper the notebook of this number is on."""
    return next((paper for paper, (numbers, *_) in PAPERS.items() if int(number) in numbers), ALL_PAPERS)


def verdict(text):
    """(kind, reason) of a verdict: `holds (within chance)` is holds, for the reason of being within chance."""
    kind = next((kind for kind in VERDICTS if re.match(rf"{kind}\b", text)), "other")
    reason = text.removeprefix(kind).strip(" :,;")
    return kind, reason[1:-1] if reason.startswith("(") and reason.endswith(")") else reason


def _kind(result):
    if not result.is_table:
        return "picture"
    columns = set(result.rows()[0])
    if columns >= BOARD:
        return "board"
    if _told(columns) and columns & set(CLAIM):
        return "claims"
    return "numbers" if columns >= {"verdict", "paper", "ours"} else "table"


def _told(columns):
    """The column of the verdict."""
    return next((name for name in columns if name == "verdict" or name.startswith("verdict, ")), None)


def _board(result, results):
    """A row a claim of the papers: where it is made, what each run says of it, the figure behind it."""
    runs = sorted({other.run for other in results})
    known = {other.id for other in results if not other.is_table}
    rows = []
    for row in result.records():
        told = [(run, *verdict(row[run])) for run in runs if run in row]
        decided = [run for run, kind, _ in told if kind not in ("cannot be tested", "not run")]
        figures = [f"{run}.{row['figure']}" for run in [*decided[::-1], *runs]]  # nearest to the papers first
        figure = next((name for name in figures if name in known), "")
        rows.append({"paper": row["source"], "claim": row["claim"], "where": row.get("made in", ""), "figure": figure,
                     "number": row["tested by"], "verdicts": [
                         {"run": run, "kind": kind, "reason": reason, "paper": row["source"]}
                         for run, kind, reason in told]})
    return rows


def _claims(result, results):
    """A row a claim: what, where, its verdict and the figure behind it."""
    known = {other.id for other in results if not other.is_table}
    for row in result.records():
        what = next(row[name] for name in CLAIM if name in row)
        where = row.get("where") or ", ".join(row[name] for name in WHERE if row.get(name))
        kind, reason = verdict(row[_told(row)])
        figure = row.get("figure") or ""
        named = (f"{result.run}.{result.number}_fig{figure}", f"{result.run}.{figure}") if figure else ()
        target = next((name for name in named if name in known), f"figures-{result.number}")
        evidence = [(name, value) for name, value in row.items()
                    if value and name not in (*CLAIM, *WHERE, "where", _told(row), "figure")]
        yield {"run": result.run, "number": result.number, "claim": what, "kind": kind, "reason": reason,
               "where": where or ", ".join(result.made.get("models", {})), "evidence": evidence, "figure": target,
               "figure_name": figure if target in known else f"all of {result.number}"}


def _numbers(result):
    """A row a printed number: what it is of, the paper's, ours."""
    for row in result.records():
        kind, reason = verdict(row["verdict"])
        named = [(name, value) for name, value in row.items()
                 if value and name not in ("paper", "ours", "difference", "verdict")]
        what = ", ".join(f"{name.capitalize()} {value}" if name in ("table", "figure") and value[0].isdigit() else value
                         for name, value in named)
        yield {"run": result.run, "number": result.number, "what": what, "kind": kind, "reason": reason,
               "paper": row["paper"], "ours": row["ours"], "difference": row.get("difference", "")}


def _grouped(rows, *keys):
    """Rows by their first key, and within it by the next: a list of (key, list), in order of appearance."""
    if not keys:
        return rows
    groups = {}
    for row in rows:
        groups.setdefault(row[keys[0]], []).append(row)
    return [(key, _grouped(part, *keys[1:])) for key, part in groups.items()]


def _glance(claims, names):
    """(paper, [of a run: (kind, count, how many of these within chance), ...]) for every paper with tested claims."""
    rows = []
    for paper in (*PAPERS, ALL_PAPERS):
        of_paper = [row for row in claims if (row.get("paper") or paper_of(row["number"])) == paper]
        counts = []
        for run in names:
            kinds = [(row["kind"], "chance" in row["reason"]) for row in of_paper if row["run"] == run]
            told = [(kind, kinds.count((kind, False)), kinds.count((kind, True))) for kind in (*VERDICTS, "other")]
            counts.append([(kind, sure + chance, chance) for kind, sure, chance in told if sure + chance])
        if of_paper:
            rows.append((paper, counts))
    return rows


def _notebooks(results, names):
    """{number: (title, {run: (address of the executed copy, when)})} for every notebook that made something."""
    stems = {file.stem[:2]: file.stem for file in sorted(paths.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))}
    found = {}
    for number in dict.fromkeys(result.number for result in results):
        stem = stems.get(number, f"{number}_notebook")
        copies = {run: paths.BUILD / run / f"{stem}.html" for run in names}
        links = {run: (address(copy), _when(copy)) for run, copy in copies.items() if copy.is_file()}
        found[number] = stem[3:].replace("_", " ").capitalize(), links
    return found


def _when(copy):
    """When a notebook was executed here, and how long it took."""
    try:
        noted = json.loads(copy.with_suffix(".ipynb").read_text(encoding="utf-8"))["metadata"]["papermill"]
        return f"{noted['end_time'][:16].replace('T', ' ')} UTC, {noted['duration']:.0f} s"
    except (OSError, ValueError, KeyError, TypeError):  # no copy, or one that did not come to its end
        return ""


def _is_number(text):
    return bool(re.fullmatch(r"[-+<]?\s?\d*\.?\d+(e[-+]?\d+)?%?( \[.*\])?", text.strip()))
