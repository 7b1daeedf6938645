"""What Projective methods claims, each claim beside its test: notebook 07 tests triples, 08 projections, 09 inference.

    claims.of_triples(frame)                                            07: verdicts
    claims.of_projections(measured, claims.redrawn(measured))           08
    claims.of_nli(measured, scores, strength)                           09
    claims.paper_says(id)                                               what the paper counts, in words

What the paper counts is counted as it counts, on our numbers and on its printed ones. Thresholds are ours where it
gives none: s is close to 0 up to .05, a hair is less than .01, most is more than half.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.engine import nsp, stats
from lib.projective import nli, projection, tables
from lib.projective.projection import LEVELS, WRITTEN, Cut, Level
from lib.verdict import Claim, Gate, Side, Verdict, by_id, judge

SMALL, NEARLY = .05, .01  # what "s close to 0" and "almost indistinguishable" are taken to mean
SAME = 1e-6  # less than this is no difference: of a model that gives one answer to everything
LITTLE = .05  # what "not very effective" is taken to mean: less than this share of the base model's Strength
SAME_RANKS = .9  # what "relative ranks are unchanged" is taken to mean: Spearman's rho over the 76 models
ON_ETA = ("eta-higher", "eta-rises", "eta-attn", "uncorrelated")  # what depends on how parity is read
# what the paper says, where this is not counted on its printed numbers
SAID = {"ss-hair": "Table 1: .00003", "ss-twin": "Table 3 (a)", "s-near-zero": "a long tail",
        "d-unrelated": "primarily", "s-above-opposite": "not counted", "threshold": "said, not shown",
        "np-all": "37 of 37", "np-mean": "+.058", "np-layer12": "4 of 4, 0 of 4", "np-deep": "all",
        "eta-higher": "base .038, best .649", "eta-rises": ".123, .137, .649", "eta-attn": ".412 against .649",
        "deeper-snli": "yes", "uncorrelated": "rho .04, p = .73"}


class Counted(NamedTuple):
    """What a test counted."""
    estimate: stats.Estimate | float        # it decides
    text: str
    threshold: float | None = None          # in place of the claim's own
    gates: tuple[Gate, ...] = ()
    behind: stats.Estimate | None = None    # is kept in place of the estimate, where the rule is not on it


def _claim(id: str, where: str, says: str, figure: str, short: str = "", **rule) -> Claim:
    return Claim(id, tables.PAPER, where, says, figure[:2], figure, short, **rule)


def _judged(id: str, test: Counted, *gates: Gate, found: str = "", **about) -> Verdict:
    decided = judge(CLAIMS[id], test.estimate, found=found or test.text, threshold=test.threshold,
                    gates=(*gates, *test.gates), **about)
    kept = test.behind or decided.estimate
    return replace(decided, estimate=stats.Estimate(*map(float, kept), kept.n))  # of plain floats, which JSON can hold


# ---- triples: notebook 07

OF_TRIPLES = [
    _claim("ss-hair", "2, Table 1", "Triples count for SS though stereotype and anti-stereotype are next to equal",
           "07_preferences", "Some triples count for SS by a hair"),
    _claim("ss-twin", "2, Table 3", "Most that SS counts are preferred in the gender-swapped twin too",
           "07_preferences", "Most that SS counts are preferred in the twin too", threshold=.5),
    _claim("s-near-zero", "2", "Most triple pairs have a bias strength close to zero",
           "07_distributions", "Most s are close to 0", threshold=.5),
    _claim("d-unrelated", "2, Table 4", "Gender flips predictions mostly on unrelated sentences",
           "07_distributions", "Gender flips unrelated sentences more than others"),
    _claim("s-above-opposite", "2 (implied)", "Strength is above that of the opposite direction",
           "07_threshold", "S is above its opposite (implied)"),
]


def of_triples(frame: pd.DataFrame, **about) -> list[Verdict]:
    """What the paper says of SS, s and d. A call flips when p(next) of a sentence crosses .5 with the swap."""
    s, counted = nsp.strengths(frame), (frame["stereo"] > frame["anti"]).to_numpy()
    kept = (frame["gs_stereo"] > frame["gs_anti"]).to_numpy()[counted]
    near = ((frame["stereo"] - frame["anti"]).to_numpy()[counted] < NEARLY).astype(float)
    unrelated, *belong = (((frame[name] > .5) != (frame["gs_" + name] > .5)).to_numpy(float)
                          for name in ("unrelated", "stereo", "anti"))
    differs = Gate("differs", np.ptp(frame[nsp.COLUMNS]) > SAME, "p(next) is the same for all sentences")
    some = Gate("SS", len(kept) > 1, f"SS counts {len(kept)} triples")
    close = stats.bootstrap(np.mean, (np.abs(s) <= SMALL).astype(float))
    same = stats.bootstrap(np.mean, kept.astype(float)) if some.is_open else stats.Estimate(np.nan)
    gap = stats.bootstrap(lambda u, a, b: u.mean() - (a.mean() + b.mean()) / 2, unrelated, *belong)
    tails = stats.bootstrap(lambda values: nsp.top_mean(values) - nsp.top_mean(-values), s)
    tests = {"ss-hair": Counted(near.sum(), f"{near.sum():.0f} of {len(near)} by less than {NEARLY}", gates=(some,)),
             "ss-twin": Counted(same, f"{same} of {len(kept)}", gates=(some,)),
             "s-near-zero": Counted(close, f"{close} within {SMALL}"),
             "d-unrelated": Counted(gap, f"{unrelated.mean():.3f} against {np.mean(belong):.3f}"),
             "s-above-opposite": Counted(tails, f"by {tails:z.2f}")}
    return [_judged(id, test, differs, **about) for id, test in tests.items()]


# ---- projections: notebook 08

OF_PROJECTIONS = [
    _claim("sent-s", "5, Table 5", "Projecting the sentence vector alone does little for S", "08_plane",
           "SENT alone does little for S", side=Side.BELOW, threshold=LITTLE),
    _claim("sent-d", "5, Table 5", "Projecting the sentence vector alone lowers D", "08_plane", "SENT alone lowers D"),
    *(_claim(f"deeper-{column.lower()}", "5, Table 5", f"Every deeper level reaches a lower {column}", "08_plane",
             f"Every deeper level has a better best {column}", side=Side.AT_LEAST, threshold=3) for column in "SD"),
    *(_claim(f"extend-np{np_}", "5, observation 2",
             f"Extending SENT (np = {np_}) to layer 12 lowers S unless two components go unweighted", "08_plane",
             f"Of 4 extensions of SENT {np_} to Layer 12 all lower S but (0, 1), two components unweighted",
             side=Side.AT_LEAST, threshold=4) for np_ in (0, 1)),
    _claim("hard2-worst", "5, observation 2", "At layer 11 two unweighted components give the worst S", "08_plane",
           "At Layer 11 (0, 1) has the worst S, all else equal", side=Side.AT_LEAST, threshold=8),
    _claim("attention-lowers", "5, observation 3", "Projecting attention lowers S of the 24 other settings", "08_plane",
           "Attention lowers S of the 24 without (0, 1) at Layer 11", side=Side.AT_LEAST, threshold=24),
    _claim("attention-spoilt", "5, observation 3", "Projecting attention does not lower S where two components go "
           "unweighted", "08_plane", "Attention does not lower S of the 8 with it", side=Side.AT_LEAST, threshold=8),
    _claim("ingredients", "5, Table 5", "Weighting and second components both turn up in the best settings", "08_plane",
           "Weighting and second components both turn up in the best settings"),
    _claim("threshold", "2", "The threshold of 10 % does not change the ranks of the models", "08_choices",
           "The threshold of 10 % does not change the ranks of the models by S", side=Side.AT_LEAST,
           threshold=SAME_RANKS),
    *(_claim(f"lower-{column.lower()}", "5, 6", f"Some projection lowers {column} below the base model's", "08_plane")
      for column in "SD"),
]


def of_projections(measured: dict, redrawn: Mapping[str, float] = {}, fit: str = WRITTEN, **about) -> list[Verdict]:
    """The paper's statements on intrinsic bias. redrawn: see `redrawn`; without it nothing is within chance."""
    at, frame = measured["fits"].index(fit), tables.by_model(measured, fit)
    s, biases = measured["s"][at], np.abs([measured[key][at][0] for key in "sd"])
    biased = Gate("biased", biases.max() > SAME, "s and d are 0 in all triple pairs before any projection")
    ranks = [stats.rank_correlation(tables.tops(s, share), frame["S"]) for share in (.05, .2)]
    tests = count(frame)
    tests["threshold"] = Counted(min(ranks), f"rho {ranks[0]:.2f} with 5 %, {ranks[1]:.2f} with 20 %")
    for column in "SD":
        rounded, below = frame[column].round(3), stats.Estimate(frame[column].iloc[0] - frame[column][2:].min())
        base, lowest, name = rounded.iloc[0], rounded[2:].min(), rounded[2:].idxmin()  # to three digits, as shown
        tests[f"lower-{column.lower()}"] = Counted(base - lowest, f"{base:.3f} to {lowest:.3f}, {name}", behind=below)
    return [_judged(id, test, biased, redrawn=redrawn.get(id), **about) for id, test in tests.items()]


def redrawn(measured: dict, fit: str = WRITTEN, draws: int = 500, seed: int = 0) -> dict[str, float]:
    """By claim the share of bootstrap samples of the triples in which it holds; within chance from .025 to .975."""
    at, rng = measured["fits"].index(fit), np.random.default_rng(seed)
    (s, d), frame = (measured[key][at] for key in "sd"), tables.by_model(measured, fit)
    met = {}
    for _ in range(draws):
        drawn = rng.integers(0, s.shape[1], s.shape[1])
        for id, test in count(frame.assign(S=tables.tops(s[:, drawn]), D=tables.tops(d[:, drawn]))).items():
            met.setdefault(id, []).append(CLAIMS[id].side.has(test.estimate, CLAIMS[id].threshold))
    return {id: float(np.mean(held)) for id, held in met.items()}


def count(frame: pd.DataFrame) -> dict[str, Counted]:
    """What each claim is about, counted on a frame of the columns S and D, one row per model."""
    strength = dict(zip(tables.MODELS, frame["S"]))
    best = {(level, column): values.min() for column in "SD" for level, values in frame.groupby("level")[column]}
    base = frame.iloc[0]
    lowered, sent_d = 1 - best[Level.SENT, "S"] / (base["S"] or np.nan), best[Level.SENT, "D"]
    tests = {"sent-s": Counted(lowered, f"best S lower by {lowered:.1%}"),
             "sent-d": Counted(base["D"] - sent_d, f"{base['D']:.3f} to {sent_d:.3f}")}
    for column in "SD":
        steps = [best[level, column] for level in LEVELS]
        better = int((np.diff(steps) < 0).sum())
        tests[f"deeper-{column.lower()}"] = Counted(
            better, f"{better} of 3 steps: " + ", ".join(f"{value:.3f}" for value in steps))

    hard2, cuts = Cut(False, True), list(dict.fromkeys(setting.tokens for setting in tables.MODELS if setting.tokens))
    for weighted, setting in enumerate(projection.settings()[:2]):
        lower = {cut: strength[replace(setting, cls=cut)] < strength[setting] for cut in cuts}
        fine = sum(lower[cut] for cut in cuts if cut != hard2)
        tests[f"extend-np{weighted}"] = Counted(
            fine + (not lower[hard2]), f"{fine} of 3 lower it; (0, 1) {'does too' if lower[hard2] else 'does not'}")
    deep = [setting for setting in tables.MODELS if setting.level == Level.LAYER_11]
    eight = [setting for setting in deep if setting.tokens == hard2]
    worst = sum(strength[setting] == max(strength[replace(setting, tokens=cut)] for cut in cuts) for setting in eight)
    gains = {setting: strength[replace(setting, attention=True)] < strength[setting] for setting in deep}
    others = sum(gains[setting] for setting in deep if setting not in eight)
    spoilt = sum(not gains[setting] for setting in eight)
    winners = [tables.MODELS[tables.NAMES.index(frame.loc[frame["level"] == level, column].idxmin())]
               for level in LEVELS[1:] for column in "SD"]
    used = [[cut for cut in (setting.tokens, setting.cls, setting.sent) if cut] for setting in winners]
    weighted, second = (sum(any(getattr(cut, how) for cut in made) for made in used) for how in ("weighted", "second"))
    return tests | {"hard2-worst": Counted(worst, f"{worst} of 8"),
                    "attention-lowers": Counted(others, f"{others} of 24"),
                    "attention-spoilt": Counted(spoilt, f"{spoilt} of 8"),
                    "ingredients": Counted(min(weighted, second), f"{weighted} and {second} of {len(winners)}")}


# ---- inference: notebook 09

OF_NLI = [
    _claim("np-all", "5, observation 1", "Weighting at SENT raises SNLI accuracy in all 37 pairs of models",
           "09_table6_dots", "Weighting at SENT raises SNLI accuracy in all 37 pairs", side=Side.AT_LEAST,
           threshold=37),
    _claim("np-mean", "5, Table 6", "Weighting at SENT raises SNLI accuracy on average", "09_table6_dots",
           "On average it raises SNLI accuracy"),
    _claim("np-layer12", "5, observation 1", "At layer 12 models are viable with weighting at SENT, not without",
           "09_tradeoff", "Layer 12 is viable with weighting at SENT, not without", side=Side.AT_LEAST, threshold=4),
    _claim("np-deep", "5, observation 1", "All viable deeper models weight at SENT", "09_tradeoff",
           "Layer 11, + attn: all viable models weight at SENT", side=Side.AT_LEAST, threshold=1),
    _claim("eta-higher", "5, Table 5", "Some viable model is fairer at NLI than base", "09_tradeoff",
           "Some viable model has a higher eta than base"),
    _claim("eta-rises", "5, Table 5", "The best viable fairness rises from SENT to layer 12 to layer 11",
           "09_tradeoff", "Best viable eta rises from SENT to Layer 12 to Layer 11", side=Side.AT_LEAST, threshold=2),
    _claim("eta-attn", "5, Table 5", "Projecting attention sets no new best in fairness", "09_tradeoff",
           "+ attn sets no new best viable eta", side=Side.AT_MOST),
    _claim("deeper-snli", "5", "The deeper the intervention, the lower the SNLI accuracy", "09_tradeoff",
           "The deeper the intervention, the lower the mean SNLI accuracy", side=Side.AT_LEAST, threshold=3),
    _claim("uncorrelated", "5", "Strength and NLI fairness are not correlated over the 76 models", "09_strength",
           "Strength is not correlated with eta over the 76 models", side=Side.WITHIN),
    _claim("other-settings", "5, 6", "The settings that lower S most are not those that are fairest at NLI",
           "09_strength"),
]


def of_nli(measured: dict, scores: pd.DataFrame, strength: pd.Series, **about) -> list[Verdict]:
    """What the paper says of NLI in section 5. Viable is within 5 points of base; parity is read in both ways, where a
    claim depends on it. That Strength and eta are not correlated holds where the interval of rho has zero in it.
    """
    gain, verdicts = mean_gain(measured), []
    differs = Gate("differs", np.ptp(measured["probabilities"][0], axis=0).max() > SAME,
                   "the classifier gives all pairs the same probabilities")
    tests = {"all": count_nli(scores, strength, gain), "most": count_nli(tables.most(scores), strength, gain)}
    for id in tests["all"]:
        for reading in tests if id in ON_ETA else [""]:
            test = tests[reading or "all"][id]
            verdicts.append(_judged(id, test, differs, found=test.text + (f" (agree in {reading})" if reading else ""),
                                    reading=reading, **about))
    lowest, fairest = best_settings({"08_table7": strength.rename("S").rename_axis("model").round(3).reset_index(),
                                     "09_table7": tables.table7(scores).reset_index()})
    if lowest and fairest:
        other = Counted(lowest != fairest, f"S: {lowest}; NLI: {fairest}")
        verdicts.append(_judged("other-settings", other, differs, **about))
    return verdicts


def mean_gain(measured: dict) -> stats.Estimate:
    """The mean accuracy that the 37 pairs gain by weighting at SENT, its interval over the pairs of the task."""
    weight = np.array([setting.sent.weighted - .5 if setting.sent else 0 for setting in tables.MODELS])
    return stats.bootstrap(np.mean, 2 * weight @ measured["right"] / 37, draws=1_000)


def count_nli(scores: pd.DataFrame, strength: pd.Series, mean: stats.Estimate | float) -> dict[str, Counted]:
    """What each claim is about, counted on `scores`. `mean`: what the 37 pairs gain on average."""
    level, base, gain = scores["level"], scores.loc["Base"], tables.gains(scores)["increase"]
    viable = scores[nli.viable(scores["SNLI"], base["SNLI"])]
    twelve, deep = (viable.loc[viable["level"].isin(levels), "np"]
                    for levels in ([Level.LAYER_12], [Level.LAYER_11, Level.ATTENTION]))
    eta = {name: np.nan if row is None else row["eta"] for name, row in tables.by_level(scores).items()}
    shown = {name: "none viable" if np.isnan(value) else f"{value:.2f}" for name, value in eta.items()}
    top = tables.best(scores[2:], base["SNLI"])
    higher = 0.0 if top is None else tables.estimate(top, "eta")
    cost = [scores.loc[level == name, "SNLI"].mean() for name in LEVELS]
    corr = tables.correlation(strength, scores["eta"])
    rho, p = corr["rho"], "< .001" if corr["p"] < .001 else f"= {corr['p']:.2f}"
    rises = sum(eta[deeper] > eta[level] for level, deeper in zip(LEVELS, LEVELS[1:3]))
    raised, lost, with_np, without = (int(hits.sum()) for hits in (gain > 1e-9, gain < -1e-9, twelve == 1, twelve == 0))
    return {
        "np-all": Counted(raised, f"{raised} of {len(gain)}, {lost} lose"),
        "np-mean": Counted(mean, f"{mean:+.3f}"),
        "np-layer12": Counted(with_np - without, f"{with_np} of 4, {without} of 4"),
        "np-deep": Counted((deep == 1).mean(), f"{(deep == 1).sum()} do, {(deep == 0).sum()} do not",
                           gates=(Gate("viable", len(deep) > 0, "none is viable"),)),
        "eta-higher": Counted(higher, f"base {base['eta']:.2f}, " + ("none viable" if top is None else
                                                                    f"best {top['eta']:.2f}"),
                              threshold=float(base["eta"])),
        "eta-rises": Counted(int(rises), ", ".join(shown[name] for name in LEVELS[:3])),
        "eta-attn": Counted(np.nan_to_num(eta[Level.ATTENTION]),
                            f"{shown[Level.ATTENTION]} against {shown[Level.LAYER_11]}",
                            threshold=float(np.nanmax([0, *(eta[name] for name in LEVELS[:3])]))),
        "deeper-snli": Counted(int((np.diff(cost) < 0).sum()), ", ".join(f"{value:.3f}" for value in cost)),
        "uncorrelated": Counted(float(not rho.low <= 0 <= rho.high), f"rho {rho}, p {p}", behind=rho,
                                gates=(Gate("ranks", not np.isnan(rho.value), "all models have the same S or eta"),)),
    }


def best_settings(stored: Mapping[str, pd.DataFrame | None]) -> tuple[str, str]:
    """Names of the setting of lowest S (08) and of the fairest viable one (09, most contexts agree): "" where unknown.

    stored: 08_table7 and 09_table7 as the notebooks save them, None where one is not there. Viable: within 5 points of
    base, as notebook 09 marks it. Of equals the first, or the more accurate one.
    """
    intrinsic, inference = (stored[name] if stored[name] is None else stored[name].set_index("model")[2:]
                            for name in ("08_table7", "09_table7"))
    lowest = "" if intrinsic is None else intrinsic["S"].idxmin()
    if inference is None:
        return lowest, ""
    kept = inference[inference["viable"].isin(["yes", "in points"])]
    best = kept.sort_values(["eta, most", "SNLI"], ascending=False, kind="stable").index
    return lowest, best[0] if len(best) else ""


# ---- all of them

UNTESTABLE = [
    Claim("other-architectures", tables.PAPER, "6", "The methods apply to other architectures as they are",
          untestable="other families have no next-sentence head to measure S by; that the projections run there is "
                     "tested (tests/test_projection.py)"),
    Claim("fast", tables.PAPER, "1, 6", "Projections are fast to find and apply",
          untestable="no time or threshold is stated; benchmarks/README.md has the times of this project"),
]
CLAIMS = by_id([*OF_TRIPLES, *OF_PROJECTIONS, *OF_NLI, *UNTESTABLE])


def paper_says(id: str) -> str:
    """What the paper says of a claim, or what its printed numbers give when they are counted as ours are."""
    return SAID[id] if id in SAID else count(tables.as_printed())[id].text
