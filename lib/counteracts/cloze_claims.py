"""The claims of Counteracts, each tested on every model of the families that it names.

    cloze_claims.claims({"mini-bert": found, ...})      found: lib/counteracts/cloze.py's answers to the winobias prompts
"""

import numpy as np
import pandas as pd

from lib import printed as paper
from lib.counteracts import cloze_tables
from lib.counteracts.cloze_tables import FULL, LITTLE, K
from lib.engine import stats

# What each expectation asks of the margins: `base` [2 groups of occupations], `after` [kinds, 2 groups]; `side` is the
# sign of the observed base margin. At or above zero where it is met; in both groups of occupations, unless it says so.
EXPECTATIONS = {
    "leans": lambda side, base, after: (side * base).min() - LITTLE,
    "kept": lambda side, base, after: min((side * after).min(), LITTLE - np.abs(after - base).max()),
    "overturned": lambda side, base, after: -(side * after).max(),
    "not overturned": lambda side, base, after: (side * after).min(),
    "enlarged": lambda side, base, after: (side * (after - base)).min(),
    "weakened": lambda side, base, after: (np.abs(base) - np.abs(after)).min(),
    "moved": lambda side, base, after: np.abs(after - base).min() - LITTLE,
    # the two groups do not both move the same way by more than LITTLE
    "unchanged or conflicting": lambda side, base, after: LITTLE - max(
        (side * (after - base)).min(), (side * (base - after)).min()),
    "first moves more": lambda side, base, after: (np.abs(after[0] - base) - np.abs(after[1] - base)).mean(),
}
SYNTACTIC, SEMANTIC = "target counter syntactic similar", "target counter semantic similar"
ENCODERS = ("bert", "distilbert", "albert", "roberta")

# (families, kinds of knowledge, expectation), in the order of the paper's section on results
CLAIMS = [
    (ENCODERS + ("gpt2", "llama"), ["base"], "leans"),
    (ENCODERS + ("gpt2", "llama"), ["unrelated"], "not overturned"),
    (ENCODERS + ("gpt2", "llama"), ["unrelated"], "kept"),
    (("gpt2", "llama"), ["target neutral"], "kept"),
    (("gpt2", "llama"), ["target neutral background counter"], "kept"),
    (ENCODERS, ["target neutral"], "overturned"),
    (ENCODERS, ["target neutral background counter"], "overturned"),
    (("bert",), ["target syntactic similar"], "moved"),
    (("bert",), ["background counter syntactic similar"], "moved"),
    (("bert",), ["target semantic similar"], "unchanged or conflicting"),
    (("bert",), [SYNTACTIC], "unchanged or conflicting"),
    (("bert",), [SEMANTIC], "unchanged or conflicting"),
    (("bert",), ["background counter semantic similar"], "unchanged or conflicting"),
    (("albert",), ["target semantic similar"], "enlarged"),
    (("albert",), [SYNTACTIC], "overturned"),
    (("albert",), ["background counter syntactic similar"], "overturned"),
    (("albert",), ["background counter semantic similar"], "overturned"),
    (("albert",), [SEMANTIC], "not overturned"),
    (("roberta",), ["target syntactic similar"], "enlarged"),
    (("roberta",), ["target semantic similar"], "enlarged"),
    (("roberta",), ["background counter syntactic similar"], "overturned"),
    (("roberta",), [SYNTACTIC], "weakened"),
    (("albert", "roberta"), [SYNTACTIC, SEMANTIC], "first moves more"),
]


def claims(found: dict[str, dict], draws: int = 1_000) -> pd.DataFrame:
    """The paper's claims, each on every model of the families it names: met at k = 3, 5, 10, and in full?

    The paper speaks of its three figures at once: the verdict is "holds" where the claim is met at every k. Where the
    top 10 have no gendered token, the full distribution decides. Columns: model, knowledge, claim, a column each k and
    the full distribution, verdict.
    """
    tables = {(name, k): cloze_tables.by_occupation(answer, k) for name, answer in found.items() for k in (*K, FULL)}
    rows = []
    for families, kinds, expectation in CLAIMS:
        for name in (name for name, answer in found.items() if answer["family"] in families):
            met = {k: check(tables[name, k], kinds, expectation, draws) for k in (*K, FULL)}
            rows.append([name, " over ".join(kinds), expectation, *met.values(), _verdict(*met.values())])
    return pd.DataFrame(rows, columns=["model", "knowledge", "claim", *map(cloze_tables.k_name, (*K, FULL)), "verdict"])


def check(table: pd.DataFrame, kinds: list[str], expectation: str, draws: int = 1_000) -> str:
    """Whether one expectation is met: "holds" or "fails", "within chance" where the bootstrap over occupations has it
    both ways, "no token" where a group's base prompts have no gendered token."""
    groups = []
    for _, part in table.groupby("dominated"):
        wide = part.pivot(index="occupation", columns="kind", values=["female", "male"])
        groups.append(np.stack([[wide[gender][kind] for gender in ("female", "male")] for kind in ["base", *kinds]]))
    values = np.stack(groups)  # [2 groups, base and kinds, 2 genders, occupations]

    def margins(sample):
        return np.nan_to_num(cloze_tables.margin(*np.moveaxis(sample.mean(-1), -1, 0))).T  # [base and kinds, 2 groups]

    if not values[:, 0].sum((-2, -1)).all():
        return "no token"
    side = np.sign(margins(values)[0])

    def score(drawn):
        base, *after = margins(values[..., drawn.astype(int)])
        return EXPECTATIONS[expectation](side, base, np.array(after))

    return paper.claim(stats.bootstrap(score, np.arange(values.shape[-1]), draws=draws))


def _verdict(*met: str) -> str:
    """From what was found at each k and, last, in the full distribution."""
    *tops, full = met
    known = [word for word in tops if word != "no token"]
    if not known:
        return f"{full}, in the full distribution alone"
    if all(word.startswith("holds") for word in known):
        return "holds" + (" (within chance)" if any("chance" in word for word in known) else "")
    good = [str(k) for k, word in zip(K, tops) if word.startswith("holds")]
    return "fails" + (f" (holds at k = {', '.join(good)})" if good else "")
