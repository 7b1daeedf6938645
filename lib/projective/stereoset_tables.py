"""SS, Strength and Distance with their intervals, what they hang on, and the paper's claims: notebook 07's tables.

All take the frame of stereoset.frame: a row a triple pair, probabilities in nsp.COLUMNS.
"""

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from lib import printed as paper
from lib.engine import nsp, stats
from lib.projective import stereoset

SHARES = [.01, .02, .03, .05, .07, .1, .15, .2, .25, .3, .4, .5, .6, .7, .8, .9, 1.0]  # thresholds of the curve
SMALL = .05  # what "s close to 0" is taken to mean
NEARLY = .01  # what "almost indistinguishable" is taken to mean


def summary(found: pd.DataFrame, share: float = .1) -> pd.DataFrame:
    """SS of either side, Strength and Distance with 95 % bootstrap intervals over triples.

    opposite: Strength of the other direction, the mean of the lowest s with its sign turned. The top of any list of
    numbers around zero is above zero: that the tail is stereotypical shows only in S being above its opposite.
    """
    n = round(len(found) * share)
    rows = [("SS", "share of triples with the stereotype likelier"),
            ("SS, swapped side", "the same on the swapped side, with its labels"),
            ("S", f"Strength: mean of the {n} highest s"), ("S, opposite", f"minus the mean of the {n} lowest s"),
            ("mean s", "of all triple pairs"), ("D", f"Distance: mean of the {n} highest d"),
            ("mean d", "of all triple pairs"), ("accuracy", "sentences called right at .5")]
    values = estimates(found, share)
    return pd.DataFrame([(name, what, *np.round(values[name], 3)) for name, what in rows],
                        columns=["measure", "what", "value", "low", "high"])


def estimates(found: pd.DataFrame, share: float = .1) -> dict[str, stats.Estimate]:
    """The numbers of `summary` by name."""
    s, d, other = nsp.strengths(found), nsp.distances(found), nsp.swapped(found)
    right = np.mean([(found[name] > .5) != name.endswith("unrelated") for name in nsp.COLUMNS], axis=0)

    def top(values):
        return nsp.top_mean(values, share)

    return {"SS": stats.bootstrap(np.mean, (found["stereo"] > found["anti"]).to_numpy(float)),
            "SS, swapped side": stats.bootstrap(np.mean, (other["stereo"] > other["anti"]).astype(float)),
            "S": stats.bootstrap(top, s), "S, opposite": stats.bootstrap(top, -s), "D": stats.bootstrap(top, d),
            "mean s": stats.bootstrap(np.mean, s), "mean d": stats.bootstrap(np.mean, d),
            "accuracy": stats.bootstrap(np.mean, right)}


def sign_test(found: pd.DataFrame, share: float = .1, draws: int = 2_999, seed: int = 0) -> float:
    """p that S is as far above its opposite if each s could as well have the other sign: a permutation of signs."""
    s = nsp.strengths(found)
    test = scipy_stats.permutation_test((s, -s), lambda x, y: nsp.top_mean(x, share) - nsp.top_mean(y, share),
                                        permutation_type="samples", alternative="greater", vectorized=False,
                                        n_resamples=draws, rng=np.random.default_rng(seed))
    return float(test.pvalue)


def threshold(found: pd.DataFrame, shares: list[float] = SHARES, draws: int = 400) -> pd.DataFrame:
    """S, its opposite and D over the share of triple pairs that is averaged, a row each with a 95 % interval."""
    values = {"S": nsp.strengths(found), "S, opposite": -nsp.strengths(found), "D": nsp.distances(found)}
    rows = [{"measure": name, "share": share} | dict(zip(("value", "low", "high"), stats.bootstrap(
                lambda sample, share=share: nsp.top_mean(sample, share), sample, draws=draws)))
            for name, sample in values.items() for share in shares]
    return pd.DataFrame(rows)


def threshold_table(curve: pd.DataFrame) -> pd.DataFrame:
    """The curve of `threshold` with a row a share: value [low, high] of each measure."""
    written = curve.assign(text=[_written(row) for row in curve[["value", "low", "high"]].to_numpy()])
    table = written.pivot(index="share", columns="measure", values="text")
    return table[["S", "S, opposite", "D"]].rename_axis(columns=None).reset_index()


def choices(found: dict[str, pd.DataFrame], triples: pd.DataFrame) -> pd.DataFrame:
    """SS, S and D under the choices that the paper leaves open and without the file's quirks, a row each."""
    plain, signed = found["file"], nsp.strengths
    unrelated = triples[triples["label"] == "unrelated"].set_index("context_id").loc[plain.index]
    equal = unrelated["next_sentence"] == unrelated["gender_swapped_next_sentence"]
    up = np.ceil(len(plain) * .1)
    cases = [("as in the file", plain, .1, signed),
             (f"10 % rounded up: {up:.0f} pairs", plain, up / len(plain), signed),
             ("full stops added where one lacks", found["stops"], .1, signed),
             ("only where the unrelated sentences are equal", plain[equal], .1, signed),
             ("only contexts of men", plain[plain["gender"] == "M"], .1, signed),
             ("only contexts of women", plain[plain["gender"] == "F"], .1, signed),
             ("|s| in place of the signed s", plain, .1, lambda part: np.abs(signed(part)))]
    return pd.DataFrame([(name, len(part), nsp.stereotype_score(part), nsp.top_mean(s(part), share),
                          nsp.distance(part, share)) for name, part, share, s in cases],
                        columns=["choice", "pairs", "SS", "S", "D"]).round(3)


def claims(found: pd.DataFrame) -> pd.DataFrame:
    """What the paper says of SS, s and d, tested on this model: claim, paper, ours, verdict.

    Thresholds are ours: s is close to 0 up to .05, a hair is less than .01, most is more than half. A call flips when
    p(next) of a sentence crosses .5 with the swap.
    """
    s, counted = nsp.strengths(found), (found["stereo"] > found["anti"]).to_numpy()
    kept = (found["gs_stereo"] > found["gs_anti"]).to_numpy()[counted]
    near = ((found["stereo"] - found["anti"]).to_numpy()[counted] < NEARLY).astype(float)
    unrelated, *belong = (((found[name] > .5) != (found["gs_" + name] > .5)).to_numpy(float)
                          for name in ("unrelated", "stereo", "anti"))
    close = stats.bootstrap(np.mean, (np.abs(s) <= SMALL).astype(float))
    same = stats.bootstrap(np.mean, kept.astype(float))
    gap = stats.bootstrap(lambda u, a, b: u.mean() - (a.mean() + b.mean()) / 2, unrelated, *belong)
    tails = stats.bootstrap(lambda values: nsp.top_mean(values) - nsp.top_mean(-values), s)
    rows = [
        ("Some triples count for SS by a hair", "Table 1: .00003",
         f"{near.sum():.0f} of {len(near)} by less than {NEARLY}", paper.claim(near.sum())),
        ("Most that SS counts are preferred in the twin too", "Table 3 (a)", f"{same} of {len(kept)}",
         paper.claim(_minus(same, .5))),
        ("Most s are close to 0", "a long tail", f"{close} within {SMALL}", paper.claim(_minus(close, .5))),
        ("Gender flips unrelated sentences more than others", "primarily",
         f"{unrelated.mean():.3f} against {np.mean(belong):.3f}", paper.claim(gap)),
        ("S is above its opposite (implied)", "not counted", f"by {_written(tails)}", paper.claim(tails)),
    ]
    return pd.DataFrame(rows, columns=["claim", "paper", "ours", "verdict"])


def against_paper(found: pd.DataFrame, data: str, same_model: bool) -> pd.DataFrame:
    """paper | ours | difference | verdict: base BERT's Strength and Distance, and Tables 1, 3 and 4."""
    values = estimates(found)
    ours = {("Table 7", "Base", "S"): values["S"], ("Table 7", "Base", "D"): values["D"]}
    ours |= stereoset.example_numbers(found, data)
    table = paper.compare("projective_methods", ours, same_model, ["Table 1", "Table 3", "Table 4", "Table 7"],
                          digits=3, why="the rounding of 10 %, or the text of the file",
                          missing="the authors' triples: --data paper")
    base = table["row"].eq("Base") & table["column"].isin(["S", "D"])
    return table[table["table"].ne("Table 7") | base].reset_index(drop=True)


def side_by_side(ours: pd.DataFrame, other: pd.DataFrame | None, made_from: str, stored_from: str) -> pd.DataFrame:
    """This run's summary beside a stored one, where there is one: value [low, high] of each measure."""
    table = {name: [_written(values) for values in part[["value", "low", "high"]].to_numpy(float)]
             for name, part in ((made_from, ours), (stored_from, other)) if part is not None}
    return pd.DataFrame({"measure": ours["measure"]} | table)


def _written(estimate) -> str:
    """value [low, high] to two digits, without a -0.00."""
    return str(stats.Estimate(*(round(float(number), 2) + 0.0 for number in estimate)))


def _minus(estimate: stats.Estimate, amount: float) -> stats.Estimate:
    return stats.Estimate(*(value - amount for value in estimate))
