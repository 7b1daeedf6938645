"""The parts of README.md that stored runs make: what stands between <!-- headlines --> and <!--
/headlines -->, say. Nobody writes them by hand, and a test fails where they say something else.
"""

import re

import pandas as pd

from companion import ledger, results
from companion.papers import NEAREST, run_name
from companion.report import headlines
from lib import CompanionError, paths
from lib.engine.files import replace

README = paths.ROOT / "README.md"
# A figure of each paper, the title that a person would give it, and what is drawn.
PICTURES = (
    (
        "04_curves",
        "Masking many heads, biased or random, lowers the bias score and breaks the model",
        "Bias score and perplexity by number of masked heads",
    ),
    (
        "07_preferences",
        "StereoSet counts preferences that a swap of gender does not change",
        "Preference before and after the swap",
    ),
    (
        "11_factual",
        "One counterexample makes four models misgender more queens and kings",
        "Share of right pronouns by who was named before",
    ),
)
# Measures of notebook 12 that the table of remedies has; the projection is the best of 74 by one.
COLUMNS = {
    "SEAT": "bias score (SEAT)",
    "NLI fairness": "fairness of inference",
    "factual gender": "right pronouns of queens and kings",
    "PPPL": "perplexity",
}
CHOOSES = "NLI fairness"
CALLED = {
    "mask Top-3": "three highest heads masked",
    "mask random 3": "three random heads masked",
    "LEACE Layer 11": "LEACE at layer 11, a later method",
    "counter-prompt": "a counterexample in front",
}


def write() -> str:
    """Bring README.md up to date; a sentence that says whether anything had to be changed."""
    old = README.read_text(encoding="utf-8")
    new = renewed(old)
    if new == old:
        return "README.md is up to date"
    replace(README, new.encode())
    return "README.md now says what the runs found"


def renewed(text: str) -> str:
    """A page with its made parts made again; what stands outside of them stays as it is."""
    for name, make in PARTS.items():
        before = f"<!-- {name} -->"
        after = f"<!-- /{name} -->"
        if before in text or after in text:
            text = between("README.md", text, before, make(), after)
    return text


def between(page: str, text: str, before: str, made: str, after: str) -> str:
    """The text of a page with a part between two marks made anew. What stands outside stays, so
    that marks that do not enclose a part are refused.

    page            its name, for the message
    before, after   the marks; they may be the same
    """
    marks = re.findall(f"{re.escape(before)}|{re.escape(after)}", text)
    if marks != [before, after]:
        wanted = f"{before} and then {after}, once each"
        if before == after:
            wanted = f"{before} twice"
        raise CompanionError(f"{page} must have {wanted}: put them back.")
    outside, _, rest = text.partition(before)
    return f"{outside}{before}\n{made}\n{after}{rest.partition(after)[2]}"


def headlines_part() -> str:
    return headlines.as_markdown(ledger.table())


def remedies_part() -> str:
    """Three papers' remedies on one model, from notebook 12: bold where the 95 % interval of a
    change excludes 0.
    """
    effects = pd.read_csv(results.stored_folder(ledger.OWN[0]) / "12_mitigations.csv")
    lines = [["remedy", *COLUMNS.values()], ["---"] * (1 + len(COLUMNS))]
    for remedy, rows in effects.groupby("mitigation", sort=False):
        measured = rows.set_index("measure")
        cells = [_remedied(measured.loc[name], remedy) for name in COLUMNS]
        lines.append([CALLED.get(remedy, remedy), *cells])
    return "\n".join(f"|{'|'.join(line)}|" for line in lines)


def _remedied(row: pd.Series, remedy: str) -> str:
    """What a remedy leaves of a measure."""
    if remedy.startswith("project") and row.name == CHOOSES:
        return "(chose it)"
    if pd.isna(row["value"]):
        return "does not apply"
    size = f"{100 * row['value']:.0f} %" if row.name == "factual gender" else f"{row['value']:.2f}"
    is_moved = row["change low"] > 0 or row["change high"] < 0
    return f"**{size}**" if is_moved else size


def figures_part() -> str:
    """A picture of each paper under a plain title, from the run nearest to the papers'."""
    folders = results.runs()
    parts = []
    for figure, title, shows in PICTURES:
        files = {run: folders[run] / f"{figure}.png" for run in NEAREST if run in folders}
        run = next((run for run, file in files.items() if file.is_file()), None)
        if run is None:
            raise CompanionError(
                f"No run has the figure {figure}: make it with ./reproduce.sh --only {figure[:2]}."
            )
        place = files[run].relative_to(paths.ROOT).as_posix()
        parts += [f"**{title}** ({run_name(run)})", f"![{shows}.]({place})"]
    return "\n\n".join(parts)


# What runs make of README.md, by the name of its marks.
PARTS = {
    "headlines": headlines_part,
    "remedies": remedies_part,
    "figures": figures_part,
}
