"""What the page with a model in it (companion/trypage.py) offers to try, and what was found.

Every number is read from a stored result of the run `mini`, or from what a paper prints.
"""

import json
import random
from pathlib import Path

import pandas as pd

from companion import claims, ledger, printed
from lib import CompanionError, paths
from lib.engine.stats import Estimate

RUN = "mini"
NURSE = "[MASK] works as a nurse."
MECHANIC = "[MASK] works as a mechanic."
CARPENTER = "[MASK] works as a carpenter."
QUEEN = "The queen took off [MASK] crown."
BASE = {"sentence": NURSE, "front": "", "control": MECHANIC, "fact": QUEEN, "off": [], "out": False}


def heads(model: str) -> list[dict]:
    """Every head of a model with its bias score on gender and the score's interval, best first."""
    table = _table("02_heads").query("model == @model and bias == 'gender'")
    table = table.sort_values("score", ascending=False)
    found = []
    for row in table.itertuples():
        name = f"{row.layer}-{row.head}"
        found.append({"head": name, "score": row.score, "low": row.low, "high": row.high})
    return found


def things(model: str) -> list[dict]:
    """What a reader can try: id, title, the page's state, what the paper says, what we found."""
    cells = ledger.cells(ledger.table())
    outcomes = cells[cells["run"] == RUN].set_index("claim")["outcome"].to_dict()
    scores = heads(model)
    return [
        *_heads_off(model, scores, outcomes),
        _strongest(),
        _counterexample(model, outcomes),
        _unrelated(model, outcomes),
        _direction(outcomes),
        _other_job(model, outcomes),
    ]


def _heads_off(model: str, scores: list[dict], outcomes: dict[str, str]) -> list[dict]:
    """The three highest heads, three others, and all that have a positive score."""
    top = [one["head"] for one in scores[:3]]
    others = random.Random(0).sample([one["head"] for one in scores[3:]], 3)
    positive = [one["head"] for one in scores if one["score"] > 0]
    n = len(positive)
    return [
        _masked(model, "top3", "The three highest heads off", top, "mask-top3-seat", outcomes),
        _masked(model, "random3", "Three other heads off", others, "mask-random", outcomes),
        _masked(model, "all", f"All {n} heads above 0 off", positive, "mask-all-pppl", outcomes),
    ]


ROWS = {"top3": "Top-3", "random3": "Random-3", "all": "All"}  # of Table 1, the paper's and ours


def _masked(
    model: str, id: str, title: str, off: list[str], claim: str, outcomes: dict[str, str]
) -> dict:
    """Heads switched off, as Table 1 of Bias A-head does."""
    table = printed.printed("bias_a_head", "Table 1")
    before, paper = table.loc["full"], table.loc[ROWS[id]]
    table = _table("04_table1").set_index("masked")
    untouched, ours = table.loc["full"], table.loc[ROWS[id]]
    right = _table("04_factual_table").set_index("masked").right[ROWS[id]]
    return {
        "id": id,
        "title": title,
        "state": BASE | {"off": off},
        "paper": f"Bias A-head, Table 1, BERT-base: SEAT {before.SEAT:g} becomes {paper.SEAT:g}, "
        f"pseudo-perplexity {before.PPPL:g} becomes {paper.PPPL:.2f}.",
        "found": f"{model}, our sentences: SEAT {untouched.SEAT:g} becomes {ours.SEAT:g} "
        f"({_estimate(ours, 'change')}), pseudo-perplexity is multiplied by "
        f"{_estimate(ours, 'times')}; of queens and kings {_percent(right)} stay right. "
        f"{_says(claim)}: {outcomes[claim]}.",
        "source": "notebook 04",
    }


def _strongest() -> dict:
    """The head that moves the nurse most, which notebook 00 finds by trying all."""
    nurse, jobs = _finding("00_heads"), _finding("00_jobs")
    changes = _table("00_changes").set_index("layer")
    layer, head = changes.stack().idxmin()
    return {
        "id": "strongest",
        "title": "The nurse's strongest head off",
        "state": BASE | {"off": [f"{layer}-{head}"]},
        "paper": "Bias A-head scores heads by many words, not by one sentence. This head was "
        "chosen by the nurse: of all 144 it moves her most, and other jobs need not follow.",
        "found": f"{nurse} (with the full weights; here they are rounded to 8 bits). {jobs}.",
        "source": "notebook 00",
    }


def _counterexample(model: str, outcomes: dict[str, str]) -> dict:
    facts = _table("11_factual_table").query("model == @model").set_index("named before").right
    return {
        "id": "counter",
        "title": "A counterexample in front",
        "state": BASE | {"front": "The man worked as a nurse."},
        "paper": "Counteracts puts a sentence of the same form in front that names the other "
        f"gender. It says: {_says('bert-counter-syntactic')}.",
        "found": f"{_slope(model, 'target counter syntactic similar')} But facts move too: of "
        f"queens and kings {_percent(facts['the other gender'])} stay right, where "
        f"{_percent(facts['nothing'])} were. {_outcome(outcomes, 'bert-counter-syntactic')}",
        "source": "notebook 11",
    }


def _unrelated(model: str, outcomes: dict[str, str]) -> dict:
    return {
        "id": "unrelated",
        "title": "An unrelated sentence in front",
        "state": BASE | {"front": "The dog is in a chair."},
        "paper": f"Counteracts says: {_says('unrelated-not-overturned')}.",
        "found": f"{_slope(model, 'unrelated')} {_outcome(outcomes, 'unrelated-not-overturned')}",
        "source": "notebook 11",
    }


def _direction(outcomes: dict[str, str]) -> dict:
    table = _table("08_factual")
    before, facts = table.iloc[0], table.query("directions == 'gender'").iloc[0]
    return {
        "id": "direction",
        "title": "The gender direction taken out",
        "state": BASE | {"out": True},
        "paper": "Projective Methods takes a direction out of what leaves the second-to-last "
        f"layer. It says: {_says('lower-s')} (Strength); {_says('lower-d')} "
        "(Distance).",
        "found": f"Strength: {outcomes['lower-s']}. Distance: {outcomes['lower-d']}. With the "
        f"setting that notebook 08 calls {facts.model} the share of queens and kings that are "
        f"right is {_estimate(facts, 'right')} ({_estimate(before, 'right')} before), and their "
        f"odds change by {_estimate(facts, 'change of log odds')} bits.",
        "source": "notebook 08",
    }


def _other_job(model: str, outcomes: dict[str, str]) -> dict:
    share = printed.printed("counteracts", "Table 1")["percent women"]
    return {
        "id": "carpenter",
        "title": "Another job: the carpenter",
        "state": BASE | {"sentence": CARPENTER, "control": NURSE},
        "paper": f"Counteracts, Table 1: {share['carpenter']:g} % of carpenters are women, of "
        f"nurses {share['nurse']:g} %. It says: {_says('base-leans')}.",
        "found": f"{_slope(model, 'base')} {_outcome(outcomes, 'base-leans')}",
        "source": "notebook 11",
    }


# ---- reading what is stored
def has_results() -> bool:
    """Whether the run's head scores, without which there is no page, are stored."""
    return (paths.FIGURES / RUN / "02_heads.csv").is_file()


def _stored(name: str) -> Path:
    """A stored result of the run."""
    file = paths.FIGURES / RUN / name
    if not file.is_file():
        raise CompanionError(
            f"figures/{RUN}/{name} is missing, and the page shows its numbers: make it with "
            f"./reproduce.sh --only {name[:2]} --store."
        )
    return file


def _table(name: str) -> pd.DataFrame:
    return pd.read_csv(_stored(f"{name}.csv"))


def _finding(name: str) -> str:
    """What the title of a stored figure says."""
    return json.loads(_stored(f"{name}.json").read_text(encoding="utf-8"))["finding"]


def _slope(model: str, kind: str) -> str:
    """How the odds follow the labour statistics, untouched and after a kind of knowledge."""
    table = pd.read_csv(_stored("11_slopes_table.csv"), header=[0, 1], index_col=0)[model]
    texts = {row.Index: f"{row.value:g} [{row.low:g}, {row.high:g}]" for row in table.itertuples()}
    said = f"{model}, occupations: with every ten percent of women the odds of she change by "
    if kind == "base":
        return f"{said}{texts['base']} bits."
    return f"{said}{texts['base']} bits, with the sentence in front by {texts[kind]}."


def _outcome(outcomes: dict[str, str], claim: str) -> str:
    """What all tests of a claim come to, which may be of several models."""
    return f"The claim, on every model that it names: {outcomes[claim]}."


def _says(claim: str) -> str:
    return claims.claims()[claim].says


def _estimate(row: pd.Series, name: str) -> Estimate:
    """An Estimate of a stored table, whose ends are columns of their own."""
    return Estimate(row[name], row[f"{name} low"], row[f"{name} high"])


def _percent(share: float) -> str:
    return f"{100 * float(share):.0f} %"
