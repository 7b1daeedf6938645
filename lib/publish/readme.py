"""The parts of README.md that stored runs make: what stands between <!-- headlines --> and <!--
/headlines -->, say. Nobody writes them by hand, and a test fails where they say something else.
"""

import re

from lib import CompanionError, ledger, paths, results
from lib.engine.files import replace
from lib.publish import headlines
from lib.publish.papers import RUNS, run_name

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


def figures_part() -> str:
    """A picture of each paper under a plain title, from the run nearest to the papers'."""
    folders = results.runs()
    return "\n\n".join(_picture(*picture, folders) for picture in PICTURES)


def _picture(figure: str, title: str, shows: str, folders: dict) -> str:
    found = [run for run in RUNS if run in folders and (folders[run] / f"{figure}.png").is_file()]
    if not found:
        raise CompanionError(
            f"No run has the figure {figure}: make it with ./reproduce.sh --only {figure[:2]}."
        )
    place = (folders[found[0]] / f"{figure}.png").relative_to(paths.ROOT).as_posix()
    return f"**{title}** ({run_name(found[0])})\n\n![{shows}.]({place})"


# What runs make of README.md, by the name of its marks.
PARTS = {
    "headlines": headlines_part,
    "figures": figures_part,
}
