"""Strength and Distance of 76 models: Tables 5 and 7, intrinsic columns, and what the paper says of them (notebook 08).

    found = run.cached(projection_fits.measure, "mini-bert", "mini")
    projection_tables.table7(found), projection_tables.table5(found)
    projection_tables.claims(found), projection_tables.sensitivity(found)

`found` holds arrays [fits, 76 models, triple pairs]; the tables show the first fit unless they are told another.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from lib import printed as paper
from lib.engine import nsp, stats
from lib.projective import projection
from lib.projective.projection import Cut
from lib.projective.projection_fits import WRITTEN

MODELS = projection.models()
NAMES = [setting.name for setting in MODELS]
LEVELS = ["Base", "Sent-debias", *projection.LEVELS]
LITTLE = .05  # what "not very effective" is taken to mean: less than this share of the base model's Strength
SAME_RANKS = .9  # what "relative ranks are unchanged" is taken to mean: Spearman's rho over the 76 models


# ---- tables

def summary(found: dict, fit: str = WRITTEN, share: float = .1) -> pd.DataFrame:
    """A row a model, in Table 7's order, named as there: level, settings, S, D, next-sentence accuracy."""
    at = found["fits"].index(fit)
    return pd.DataFrame({"level": [setting.level for setting in MODELS], "settings": list(map(str, MODELS)),
                         "S": _tops(found["s"][at], share), "D": _tops(found["d"][at], share),
                         "accuracy": found["accuracy"][at].mean(-1)}, index=NAMES)


def as_printed() -> pd.DataFrame:
    """Table 7's S and D in the form of `summary`."""
    printed = paper.printed("projective_methods", "Table 7").loc[NAMES]
    return printed[["S", "D"]].assign(level=[one.level for one in MODELS], settings=list(map(str, MODELS)))


def table7(found: dict) -> pd.DataFrame:
    """Table 7's intrinsic columns, sorted as printed, with ours beside: S and D, and the accuracy of ours."""
    ours, printed = summary(found), paper.printed("projective_methods", "Table 7")
    table = pd.DataFrame({"S, paper": printed["S"], "S": ours["S"].round(3), "D, paper": printed["D"],
                          "D": ours["D"].round(3), "accuracy": ours["accuracy"].round(3)}, index=NAMES)
    return table.rename_axis("model")


def table5(found: dict) -> pd.DataFrame:
    """Table 5's intrinsic columns: the best S and D of each level and their settings, of Table 7 and of ours."""
    rows = {}
    for source, frame in ("paper", as_printed()), ("ours", summary(found)):
        for level in LEVELS:
            for column in "SD":
                best = frame.loc[frame["level"] == level, column].idxmin()
                rows.setdefault(level, {}).update({f"{column}, {source}": round(frame.loc[best, column], 3),
                                                   f"{column} settings, {source}": frame.loc[best, "settings"]})
    return pd.DataFrame(rows).T.rename_axis("level")


def intervals(found: dict) -> pd.DataFrame:
    """By level the best S and D, and by how much they are below the base model's, with 95 % intervals over triples.

    The settings are those that are best on these triples: the interval does not count the luck of choosing them.
    """
    frame, rows = summary(found), []
    for level in LEVELS[1:]:
        for column, values in ("S", found["s"][0]), ("D", found["d"][0]):
            best = NAMES.index(frame.loc[frame["level"] == level, column].idxmin())
            gap = stats.bootstrap(lambda plain, cut: nsp.top_mean(plain) - nsp.top_mean(cut), values[0], values[best],
                                  draws=1_000)
            rows.append((level, column, str(MODELS[best]), frame[column].iloc[best], *gap))
    table = pd.DataFrame(rows, columns=["level", "measure", "settings", "best", "below base", "low", "high"])
    return table.round(3).replace(-0.0, 0.0)


def sensitivity(found: dict) -> pd.DataFrame:
    """What each choice does: the base's S and D (the same in all), the best of the 74, and Spearman's rho over the 74
    with the first fit; the share of the paper's claims that hold."""
    rows = {}
    first = summary(found).iloc[2:]
    for fit in found["fits"]:
        frame = summary(found, fit).iloc[2:]
        rows[fit] = {"best S": frame["S"].min(), "S with": frame["S"].idxmin(), "best D": frame["D"].min(),
                     "D with": frame["D"].idxmin(), "rho of S": stats.rank_correlation(frame["S"], first["S"]),
                     "rho of D": stats.rank_correlation(frame["D"], first["D"]),
                     "claims that hold": claims(found, fit, draws=0)["verdict"].str.startswith("holds").sum()}
    table = pd.DataFrame(rows).T.infer_objects()
    numbers = ["best S", "best D", "rho of S", "rho of D"]
    return table.assign(**{name: table[name].astype(float).round(2) for name in numbers})


def against_paper(found: dict, same_model: bool) -> pd.DataFrame:
    """paper | ours | difference | verdict: the intrinsic columns of Tables 5 and 7."""
    frame = summary(found)
    ours = {("Table 7", name, column): frame.loc[name, column] for name in NAMES for column in "SD"}
    for level in LEVELS:
        row = "sent-debias" if level == "Sent-debias" else level
        ours |= {("Table 5", row, column): frame.loc[frame["level"] == level, column].min() for column in "SD"}
    return paper.compare("projective_methods", ours, same_model, digits=3,
                         why="sentence pairs, centring or refitting, which the paper does not give")


# ---- what the paper says

def claims(found: dict, fit: str = WRITTEN, draws: int = 500, seed: int = 0) -> pd.DataFrame:
    """The paper's statements on intrinsic bias, counted as it counts them, on its printed numbers and on ours.

    redrawn: the share of bootstrap samples of the triples in which a claim holds; a verdict is "within chance" where
    this is between .025 and .975.
    """
    at = found["fits"].index(fit)
    s, d = found["s"][at], found["d"][at]
    printed, ours = _count(as_printed()), _count(summary(found, fit))
    ranks = [stats.rank_correlation(_tops(s, share), _tops(s, .1)) for share in (.05, .2)]
    rng, frame, held = np.random.default_rng(seed), summary(found, fit), []
    for _ in range(draws):
        drawn = rng.integers(0, s.shape[1], s.shape[1])
        redrawn = frame.assign(S=_tops(s[:, drawn]), D=_tops(d[:, drawn]))
        held.append([holds for _, _, holds in _count(redrawn)])
    chance = np.mean(held, axis=0) if held else [np.nan] * len(ours)
    rows = [(claim, theirs, mine, _verdict(holds, share), "" if np.isnan(share) else f"{share:.2f}")
            for (claim, theirs, _), (_, mine, holds), share in zip(printed, ours, chance)]
    rows.append(("The threshold of 10 % does not change the ranks of the models by S", "said, not shown",
                 f"rho {ranks[0]:.2f} with 5 %, {ranks[1]:.2f} with 20 %", _verdict(min(ranks) >= SAME_RANKS), ""))
    return pd.DataFrame(rows, columns=["claim", "paper", "ours", "verdict", "redrawn"])


def _count(frame: pd.DataFrame) -> list[tuple[str, str, bool]]:
    """(claim, what is counted, whether it holds) on a frame of `summary`'s columns S and D, a row a model."""
    strength, distance = (dict(zip(MODELS, frame[column])) for column in "SD")
    best = {column: frame.groupby("level")[column].min() for column in "SD"}
    base = frame.iloc[0]
    lowered = 1 - best["S"]["SENT"] / base["S"]
    rows = [("SENT alone does little for S", f"best S lower by {lowered:.1%}", bool(lowered < LITTLE)),
            ("SENT alone lowers D", f"{base['D']:.3f} to {best['D']['SENT']:.3f}", bool(best["D"]["SENT"] < base["D"]))]
    for column in "SD":
        steps = best[column][list(projection.LEVELS)].to_numpy()
        better = int((np.diff(steps) < 0).sum())
        rows.append((f"Every deeper level has a better best {column}",
                     f"{better} of 3 steps: " + ", ".join(f"{value:.3f}" for value in steps), better == 3))

    hard2, cuts = Cut(False, True), list(dict.fromkeys(one.tokens for one in MODELS if one.tokens))
    for setting in projection.settings()[:2]:
        lower = {cut: strength[replace(setting, cls=cut)] < strength[setting] for cut in cuts}
        fine = sum(lower[cut] for cut in cuts if cut != hard2)
        rows.append((f"Of 4 extensions of SENT {setting} to Layer 12 all lower S but (0, 1), two components unweighted",
                     f"{fine} of 3 lower it; (0, 1) {'does too' if lower[hard2] else 'does not'}",
                     bool(fine == 3 and not lower[hard2])))
    deep = [setting for setting in MODELS if setting.level == "Layer 11"]
    eight = [setting for setting in deep if setting.tokens == hard2]
    worst = sum(strength[setting] == max(strength[replace(setting, tokens=cut)] for cut in cuts) for setting in eight)
    rows.append(("At Layer 11 (0, 1) has the worst S, all else equal", f"{worst} of 8", worst == 8))
    gains = {setting: strength[replace(setting, attention=True)] < strength[setting] for setting in deep}
    others = sum(gains[setting] for setting in deep if setting not in eight)
    spoilt = sum(not gains[setting] for setting in eight)
    rows.append(("Attention lowers S of the 24 without (0, 1) at Layer 11", f"{others} of 24", others == 24))
    rows.append(("Attention does not lower S of the 8 with it", f"{spoilt} of 8", spoilt == 8))
    winners = [MODELS[NAMES.index(frame.loc[frame["level"] == level, column].idxmin())]
               for level in projection.LEVELS[1:] for column in "SD"]
    weighted = sum(any(cut and cut.weighted for cut in (one.tokens, one.cls, one.sent)) for one in winners)
    second = sum(any(cut and cut.second for cut in (one.tokens, one.cls)) for one in winners)
    rows.append(("Weighting and second components both turn up in the best settings",
                 f"{weighted} and {second} of {len(winners)}", bool(weighted and second)))
    return rows


def _tops(values: np.ndarray, share: float = .1) -> np.ndarray:
    """nsp.top_mean along the last dimension."""
    n = max(1, round(values.shape[-1] * share))
    return np.sort(values, axis=-1)[..., ::-1][..., :n].mean(-1)


def _verdict(holds: bool, share: float = np.nan) -> str:
    return ("holds" if holds else "fails") + (" (within chance)" if .025 < share < .975 else "")
