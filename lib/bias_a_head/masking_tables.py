"""What notebook 04 tabulates: Tables 1 and 3 of Bias A-head, the paper's numbers beside ours, its claims.

`found` is `frame(masking.measure(...))`, a row a mask; `curve` what `lpbs.top_k` returns.
"""

import numpy as np
import pandas as pd

from lib import printed as paper
from lib.bias_a_head import lpbs, masking
from lib.engine import stats

LITTLE, MUCH = .05, .20  # what "little cost" and "much worse" in PPPL are taken to mean; the paper has .017 and .38


def frame(found: dict[str, np.ndarray]) -> pd.DataFrame:
    """The columns of `masking.measure` as a table, a row a mask."""
    return pd.DataFrame({name: list(values) for name, values in found.items()})


def table1(found: pd.DataFrame) -> pd.DataFrame:
    """Table 1: a row a strategy; of several draws their mean, and their standard deviation in a column of its own.

    Against the full model: `change` of SEAT, PPPL as `times` the full one's. Their 95 % intervals draw target words
    (SEAT) and lines (PPPL) anew; where there are several draws of heads, they draw those anew.
    """
    rows = []
    for name, part in _named(found).items():
        compared = {"change": str(change(found, part)), "times": _three(times(found, part))}
        rows.append({"masked": name, "heads": part["k"].iloc[0], "draws": len(part), "SEAT": part["seat"].mean(),
                     "SEAT sd": part["seat"].std(ddof=1), "change": "", "PPPL": part["pppl"].mean(),
                     "PPPL sd": part["pppl"].std(ddof=1), "times": ""} | (compared if name != "full" else {}))
    table = pd.DataFrame(rows).set_index("masked")
    return table.assign(**{name: table[name].map(_digits) for name in ("PPPL", "PPPL sd")}).round(2)


def change(found: pd.DataFrame, part: pd.DataFrame) -> stats.Estimate:
    """By how much |SEAT| differs from the full model's."""
    full = found.iloc[0]
    if len(part) > 1:
        return stats.mean(part["seat"].to_numpy() - full["seat"])
    return stats.bootstrap(lambda masked, plain, in_x: masking.seat_of(masked, in_x) - masking.seat_of(plain, in_x),
                           part["associations"].iloc[0], full["associations"], full["in_x"], draws=1_000)


def times(found: pd.DataFrame, part: pd.DataFrame) -> stats.Estimate:
    """How many times the full model's PPPL this one is: 1.02 is two percent worse."""
    full = found.iloc[0]
    if len(part) > 1:
        return stats.mean(part["pppl"].to_numpy() / full["pppl"])
    return stats.bootstrap(lambda masked, plain, n: np.exp((plain.sum() - masked.sum()) / n.sum()),
                           part["likelihoods"].iloc[0], full["likelihoods"], full["lengths"], draws=1_000)


def table3(curve: pd.DataFrame) -> pd.DataFrame:
    """Table 3: a row a K, a column a test under either reading of the prior."""
    wide = curve.pivot(index="k", columns="test", values=list(lpbs.PRIORS))
    return wide.reindex(columns=[(prior, test) for prior in lpbs.PRIORS for test in lpbs.TESTS]).round(2) + 0.0


def printed() -> pd.DataFrame:
    """The paper's Tables 1 and 3: columns table, row, column, value. What the text at hand has lost is missing."""
    table = paper.numbers("bias_a_head").query("table in ['Table 1', 'Table 3']").reset_index(drop=True)
    return table.assign(table=table["table"].str[-1].astype(int), value=table["value"].astype(float))


def against_paper(found: pd.DataFrame, curve: pd.DataFrame, same_model: bool) -> pd.DataFrame:
    """paper | ours | difference | verdict, a row a printed number. Another model's number never matches."""
    ours = {("1", name, column): part[column.lower()].mean()
            for name, part in _named(found).items() for column in ("SEAT", "PPPL")}
    last = curve["k"].max()
    ours |= {("3", "All" if row.k == last else str(row.k), row.test): row.corrected for row in curve.itertuples()}
    table = printed()
    table["table"] = table["table"].astype(str)
    table["ours"] = [ours.get(key) for key in zip(table["table"], table["row"], table["column"])]
    table = table.rename(columns={"value": "paper"}).astype({"ours": float})
    table["difference"] = table["ours"] - table["paper"]
    table["verdict"] = "other model" if not same_model else np.where(
        table["difference"].abs() <= .005, "matches", "differs: other contexts, or a choice that the paper leaves open")
    table.loc[table["paper"].isna(), "verdict"] = "not run (the printed number is lost)"
    table.loc[table["ours"].isna(), "verdict"] = "not run (fewer heads of positive score)"
    table.loc[table["row"] == "5 or 10", "verdict"] = "not run (which K is lost)"
    table[["ours", "difference"]] = table[["ours", "difference"]].map(_digits).round(2)
    return table[["table", "row", "column", "paper", "ours", "difference", "verdict"]]


def claims(found: pd.DataFrame, curve: pd.DataFrame) -> pd.DataFrame:
    """The paper's claims on masking: its numbers, ours, and whether the claim holds here.

    The direction decides; "within chance" is added where the 95 % interval reaches to the other side. A little cost
    is taken to be at most 5 % of PPPL, a much worse one at least 20 %.
    """
    part = _named(found)
    moved = {name: change(found, rows) for name, rows in part.items() if name != "full"}
    top, every = part["Top-3"].iloc[0], part["All"].iloc[0]
    gap = stats.bootstrap(lambda a, b, in_x: masking.seat_of(a, in_x) - masking.seat_of(b, in_x), every["associations"],
                          top["associations"], top["in_x"], draws=1_000)
    cost, between = times(found, part["Top-3"]), every["pppl"] / top["pppl"]
    wide = curve.pivot(index="k", columns="test", values="corrected")[list(lpbs.TESTS)].round(2) + 0.0  # no -0.00
    best = wide.abs().idxmin()
    lower = [f"{wide.loc[0, test]:.2f} to {wide.loc[best[test], test]:.2f}" for test in wide]
    rows = [
        ("Top-3 lowers SEAT", "-.14", str(moved["Top-3"]), _verdict(_minus(moved["Top-3"]))),
        ("Top-3 costs little PPPL", "1.02 times", f"{_three(cost)} times", _verdict(_minus(cost, 1 + LITTLE))),
        ("Bottom-3 raises SEAT", "+.04", str(moved["Bottom-3"]), _verdict(moved["Bottom-3"])),
        ("Random-3 raises SEAT", "+.01", str(moved["Random-3"]), _verdict(moved["Random-3"])),
        ("Random-All raises SEAT", "+.11", str(moved["Random-All"]), _verdict(moved["Random-All"])),
        ("All gives no lower SEAT than Top-3", "0 between them", str(gap), _verdict(gap)),
        ("All has a much worse PPPL than Top-3", "1.38 times", f"{between:.3g} times", _verdict(between - 1 - MUCH)),
        ("Masking top heads can lower LPBS", "in all three tests", "; ".join(lower), _verdict(min(best) - 1)),
        ("All does not give the lowest LPBS", "lowest at K = 30; 15, 20; 40",
         "nearest to 0 at K = " + "; ".join(map(str, best)), _verdict(max(wide.index) - 1 - min(best))),
    ]
    louder = found[found["strategy"] == "amplified"]
    if len(louder):
        least = louder.loc[[louder["seat"].idxmin()]]
        moved = change(found, least)
        rows.append(("Amplifying the Bottom-3 lowers SEAT (conjecture)", "not tried",
                     f"{moved} at {least['factor'].iloc[0]:g} times", _verdict(_minus(moved))))
    return pd.DataFrame(rows, columns=["claim", "paper", "ours", "verdict"])


def _verdict(claim: stats.Estimate | float) -> str:
    """Of the claim that this is not negative."""
    value, low, high = claim if isinstance(claim, stats.Estimate) else (claim, claim, claim)
    return ("holds" if value >= 0 else "fails") + (" (within chance)" if low < 0 < high else "")


def _minus(estimate: stats.Estimate, start: float = 0.0) -> stats.Estimate:
    """start - estimate."""
    return stats.Estimate(start - estimate.value, start - estimate.high, start - estimate.low)


def _named(found: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of a measurement that are Table 1's, by the names that they have there."""
    masked = found[found["factor"] == 0]
    low, high = masked.loc[masked["strategy"] == "top", "k"].agg(["min", "max"])
    rows = {"full": ("full", 0), f"Top-{low}": ("top", low), f"Bottom-{low}": ("bottom", low), "All": ("top", high),
            f"Random-{low}": ("random", low), "Random-All": ("random", high)}
    return {name: masked[(masked["strategy"] == strategy) & (masked["k"] == k)]
            for name, (strategy, k) in rows.items()}


def _three(estimate: stats.Estimate) -> str:
    return "{:g} [{:g}, {:g}]".format(*map(_digits, estimate))


def _digits(value: float) -> float:
    """Three digits: a PPPL may be 4 or 40,000."""
    return float(f"{value:.3g}")
