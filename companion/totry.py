"""What the page with a model in it (companion/trypage.py) offers to try, and what was found.

try/things.toml has the states and the sentences. Every number in them is read from a stored result
of the run `mini`, or from what a paper prints.
"""

import json
import random
from pathlib import Path

import pandas as pd

from companion import claims, ledger, printed
from lib import CompanionError, paths
from lib.engine.files import read_toml
from lib.engine.stats import Estimate

RUN = "mini"
THINGS = Path(__file__).parent / "try" / "things.toml"
NURSE = "[MASK] works as a nurse."
MECHANIC = "[MASK] works as a mechanic."
QUEEN = "The queen took off [MASK] crown."
BASE = {"sentence": NURSE, "front": "", "control": MECHANIC, "fact": QUEEN, "off": [], "out": False}


def heads(model: str) -> list[dict]:
    """Every head of a model with its bias score on gender and the score's interval, best first."""
    table = _table("02_heads").query("model == @model and bias == 'gender'")
    table = table.sort_values("score", ascending=False)
    table["head"] = table["layer"].astype(str) + "-" + table["head"].astype(str)
    return table[["head", "score", "low", "high"]].to_dict("records")


def things(model: str) -> list[dict]:
    """What a reader can try: id, title, the page's state, what the paper says, what we found."""
    off = heads_off(model)
    numbers = _numbers(model) | {"positive": len(off["all"])}
    listed = []
    for thing in read_toml(THINGS)["thing"]:
        state = BASE | {"off": off.get(thing["id"], [])} | thing.pop("state", {})
        said = {name: text.format_map(numbers) for name, text in thing.items()}
        listed.append(said | {"state": state})
    return listed


def heads_off(model: str) -> dict[str, list[str]]:
    """By the thing to try, which heads are switched off: the three of the highest score, three
    others, all of a positive score; and the one that moves the nurse most, which notebook 00 finds
    by trying all.
    """
    scores = heads(model)
    layer, head = _table("00_changes").set_index("layer").stack().idxmin()
    return {
        "top3": [one["head"] for one in scores[:3]],
        "random3": random.Random(0).sample([one["head"] for one in scores[3:]], 3),
        "all": [one["head"] for one in scores if one["score"] > 0],
        "strongest": [f"{layer}-{head}"],
    }


def _numbers(model: str) -> dict:
    """What things.toml names in braces."""
    cells = ledger.cells(ledger.table())
    printed_rows = printed.printed("bias_a_head", "Table 1")
    right = _table("04_factual_table").set_index("masked")["right"]
    facts = _table("11_factual_table").query("model == @model").set_index("named before")["right"]
    slopes = pd.read_csv(_stored("11_slopes_table.csv"), header=[0, 1], index_col=0)[model]
    directions = _table("08_factual")
    removed = directions.query("directions == 'gender'").iloc[0]
    return {
        "model": model,
        "says": {id: claim.says for id, claim in claims.claims().items()},
        "outcome": cells[cells["run"] == RUN].set_index("claim")["outcome"].to_dict(),
        "finding": {name: _finding(name) for name in ("00_heads", "00_jobs")},
        "printed": printed_rows.T.to_dict(),
        "ours": {row["masked"]: _estimates(row) for _, row in _table("04_table1").iterrows()},
        "right": {name: f"{100 * share:.0f} %" for name, share in right.items()},
        "facts": {name: f"{100 * share:.0f} %" for name, share in facts.items()},
        "slope": {kind: f"{Estimate(*row):g}" for kind, row in slopes.iterrows()},
        "women": printed.printed("counteracts", "Table 1")["percent women"],
        "untouched": _estimates(directions.iloc[0]),
        "removed": _estimates(removed),
    }


def _estimates(row: pd.Series) -> dict:
    """A row of a stored table, in which the ends of an interval are columns of their own."""
    found = dict(row)
    for name in row.index:
        if f"{name} low" in row:
            found[name] = Estimate(row[name], row[f"{name} low"], row[f"{name} high"])
    return found


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
