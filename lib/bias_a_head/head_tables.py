"""What notebook 02 tabulates of the head scores: intervals, survivors, SEAT's own tests, the paper beside ours.

A result is what `heads.measure` returns; results are kept by (model's name, bias).
"""

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from lib import printed as paper
from lib.bias_a_head import heads, seat
from lib.engine import embed, models, stats
from lib.text import data, readers

STANDARD = ["sent-weat6", "sent-weat6b", "sent-weat7", "sent-weat7b", "sent-weat8", "sent-weat8b"]
PAPERS = ["bert-base", "gpt2"]  # the paper's own models, an encoder and a decoder


def title(name: str, bias: str) -> str:
    return f"{name}, {bias}"


def word_sets() -> pd.DataFrame:
    """The sets of both biases as the lists have them: how many words, and a few of each."""
    names = "X, stereotyped as A", "Y, stereotyped as B", "A", "B"
    return pd.DataFrame({bias: [f"{len(part)}: {', '.join(part[4:7] or part)}, ..." for part in sets.parts()]
                         for bias, sets in (("gender", heads.gender_sets()), ("race", heads.race_sets()))}, index=names)


def intervals(result: dict) -> pd.DataFrame:
    """A row a head, highest score first: layer, head, score, low, high.

    The 95 % interval is the score's, by Student's t over the folds: each fold's contexts gave scores of their own,
    and the spread of those says how far the score hangs on which sentences were taken.
    """
    scores, folds = result["scores"], result["folds"]
    reach = scipy_stats.t.ppf(.975, len(folds) - 1) * folds.std(0, ddof=1) / np.sqrt(len(folds))
    layer, head = np.indices(scores.shape) + 1
    frame = pd.DataFrame({"layer": layer.ravel(), "head": head.ravel(), "score": scores.ravel(),
                          "low": (scores - reach).ravel(), "high": (scores + reach).ravel()})
    return frame.sort_values("score", ascending=False, ignore_index=True)


def summary(results: dict) -> pd.DataFrame:
    """SEAT and the counts of heads, a row a model and bias. "surely": the interval leaves zero out."""
    rows = []
    for (name, bias), result in results.items():
        frame = intervals(result)
        rows.append({"model": name, "bias": bias, "SEAT": round(result["seat"], 2), "p": p_text(result["p"]),
                     "words": " + ".join(map(str, result["words"].values())), "sentences": result["sentences"],
                     "positive": (frame.score > 0).sum(), "surely": (frame.low > 0).sum(),
                     "negative": (frame.score < 0).sum(), "surely so": (frame.high < 0).sum(),
                     "highest three": ", ".join(f"{row.layer}-{row.head}" for row in frame.head(3).itertuples())})
    return pd.DataFrame(rows)


def p_text(p: float) -> str:
    """Two digits after the point, or what p is below: sampled p-values wobble."""
    return "< .001" if p < .001 else "< .01" if p < .01 else f"{p:.2f}"


def survivors(result: dict, sizes: list[int]) -> dict[str, str]:
    """How many of the k highest heads on one half of the folds are among the k highest on the other half."""
    half = len(result["folds"]) // 2
    first, second = result["folds"][:half].mean(0), result["folds"][half:].mean(0)
    return {f"top {k}": len(set(heads.top(first, k)) & set(heads.top(second, k))) for k in sizes}


def survival(results: dict, sizes=(3, 5, 10, 20)) -> pd.DataFrame:
    """`survivors` of every result, and what two random choices would have in common."""
    n = next(iter(results.values()))["scores"].size
    rows = [{"model": name, "bias": bias} | survivors(result, sizes) for (name, bias), result in results.items()]
    chance = {"model": "by chance", "bias": ""} | {f"top {k}": f"{k * k / n:.1f}" for k in sizes}
    return pd.DataFrame([*rows, chance])


def agreement(ablations: dict) -> pd.DataFrame:
    """Gradient against ablation (`heads.measure_ablation`), a row a model: rank correlation and equal signs."""
    rows = []
    for name, found in ablations.items():
        foreseen, real = found["gradient"].ravel(), found["ablation"].ravel()
        both = len(set(heads.top(found["gradient"], 10)) & set(heads.top(found["ablation"], 10)))
        rows.append({"model": name, "words": found["words"], "SEAT": round(found["seat"], 2),
                     "rank correlation": str(stats.bootstrap(stats.rank_correlation, foreseen, real)),
                     "same sign": f"{np.mean((foreseen > 0) == (real > 0)):.0%}", "in both top tens": both})
    return pd.DataFrame(rows)


def standard_seat(name: str, device: str | None = None) -> list[dict]:
    """SEAT's own gender tests on one model, sentence by sentence as sent-bias encodes them."""
    model, rows = models.load(name, device=device), []
    for test in STANDARD:
        parts = [embed.sentences(model, texts) for texts in readers.seat(test).values()]
        rows.append({"model": name, "test": test, "effect size": seat.effect_size(*parts).item(),
                     "p": seat.p_value(*parts, n=10_000)})
    return rows


def missing_tests() -> str:
    """Why SEAT's own tests cannot be run here; empty where they can."""
    missing = [test for test in STANDARD if not data.available(f"seat/{test}.jsonl")]
    if not missing:
        return ""
    return (f"not run: {len(missing)} of SEAT's {len(STANDARD)} test files are not at hand. They are CC BY-NC and not "
            "shipped: --data paper fetches them, or COMPANION_DATA names a folder that has them.")


def against_paper(results: dict) -> pd.DataFrame:
    """Every printed number beside ours: paper, ours, difference, verdict. Other models are never a match."""
    printed = paper.numbers("bias_a_head").query("column in ['SEAT', 'heads with a positive score']")
    printed = printed[~printed["table"].str.startswith("Table")].astype({"value": float})
    kind = {models.REGISTRY[name].family: name for name in PAPERS}  # which of ours stands for which of theirs
    ours = {(kind.get(result["family"]), bias): (name, result) for (name, bias), result in results.items()}
    rows = []
    for row in printed.itertuples():
        name, result = ours.get((row.row, "gender"), ("", None))
        found = result and (abs(result["seat"]) if row.column == "SEAT" else (result["scores"] > 0).sum())
        same, where = name == row.row, row.table[0].lower() + row.table[1:]
        shown = {"quantity": f"{row.column}, gender ({where})", "paper": f"{row.row}: {row.value:g}"}
        if result is None:
            rows.append(shown | {"ours": "", "difference": "", "verdict": "not run: no model of this kind in the run"})
            continue
        digits = len(f"{row.value:g}".partition(".")[2])  # as printed
        close = abs(found - row.value) <= .5 * 10 ** -digits
        verdict = "other model" if not same else "matches" if close else "differs: other corpus of contexts"
        rows.append(shown | {"ours": f"{name}: {found:.3g}", "difference": f"{found - row.value:+.2g}",
                             "verdict": verdict})
    return pd.DataFrame(rows)


def near_zero(scores: np.ndarray) -> float:
    """Share of the heads whose score is within a quarter of the largest: the paper does not say what is near."""
    return float(np.mean(np.abs(scores) < np.abs(scores).max() / 4))


def standing_out(scores: np.ndarray) -> tuple[int, int]:
    """Heads beyond Tukey's fences, one and a half interquartile ranges outside the quartiles: left, right."""
    low, high = np.quantile(scores, [.25, .75])
    reach = 1.5 * (high - low)
    return int(np.sum(scores < low - reach)), int(np.sum(scores > high + reach))


def claims(results: dict, encoder: str, decoder: str) -> pd.DataFrame:
    """What the paper says of Fig. 1 and 2, tested on this run: claim, ours, verdict."""
    frames = {key: intervals(result) for key, result in results.items()}
    rows = []

    def judge(claim, where, ours, holds):
        rows.append({"claim": claim, "where": where, "ours": ours, "verdict": "holds" if holds else "fails"})

    for key, frame in frames.items():
        near = near_zero(frame.score)
        judge("most heads lie near zero", title(*key), f"{near:.0%} within a quarter of the largest", near > .5)
    for key, frame in frames.items():
        left, right = standing_out(frame.score)
        skew = stats.bootstrap(scipy_stats.skew, frame.score.to_numpy())
        judge("several heads stand out to the right", title(*key), f"{right}, and {left} to the left; skewness {skew}",
              right >= 3)
    for key, frame in frames.items():
        layers = frame[frame.score > 0].layer.nunique()
        sure = frame[frame.low > 0].layer.nunique()
        judge("biased heads appear in all layers", title(*key),
              f"in {layers} of {frame.layer.max()} layers, surely in {sure}", layers == frame.layer.max())
    counts = [((frame.score < 0).sum(), (frame.high < 0).sum())
              for frame in (frames[decoder, "gender"], frames[encoder, "gender"])]
    (theirs, theirs_sure), (berts, berts_sure) = counts
    judge("GPT-2 has more negative heads than BERT", "gender",
          f"{theirs} against {berts}; surely negative {theirs_sure} against {berts_sure}", theirs > berts)
    for name, claim in ((encoder, "race's highest heads sit in higher layers"),
                        (decoder, "likewise in GPT-2 (footnote 13)")):
        depth = {bias: frames[name, bias].head(10).layer.mean() for bias in ("race", "gender")}
        judge(claim, name, f"mean layer of the top ten {depth['race']:.1f}, on gender {depth['gender']:.1f}",
              depth["race"] > depth["gender"])
    race = [results[name, "race"] for name in (decoder, encoder)]
    shown = [f"SEAT {result['seat']:.2f}, p {p_text(result['p'])}" for result in race]
    judge("GPT-2 shows race bias likewise (footnote 13)", decoder, f"{shown[0]}; {encoder} {shown[1]}",
          race[0]["p"] < .05)
    return pd.DataFrame(rows)


def standard_table(tests: list[list[dict]]) -> pd.DataFrame:
    """`standard_seat` of several models side by side: a row a test."""
    frame = pd.DataFrame([row for rows in tests for row in rows])
    frame["effect size"] = [f"{row['effect size']:.2f} (p {p_text(row['p'])})" for _, row in frame.iterrows()]
    return frame.pivot(index="test", columns="model", values="effect size").reset_index().rename_axis(columns=None)


# What the figures show, in a sentence each: computed, since another run may show something else

def tail_headline(results: dict) -> str:
    near = [near_zero(result["scores"]) for result in results.values()]
    left, right = zip(*(standing_out(result["scores"]) for result in results.values()))
    return (f"{min(near):.0%} to {max(near):.0%} of the heads lie near zero; "
            f"{sum(right)} stand out to the right and {sum(left)} to the left")


def layer_headline(results: dict) -> str:
    full = [(result["scores"] > 0).any(1) for result in results.values()]
    if all(layers.all() for layers in full):
        return "Every layer has biased heads"
    return f"Biased heads appear in {min(layers.sum() for layers in full)} or more of {len(full[0])} layers"


def sure_headline(results: dict) -> str:
    shares = [((frame.low > 0) | (frame.high < 0)).mean() for frame in map(intervals, results.values())]
    return f"For {1 - max(shares):.0%} to {1 - min(shares):.0%} of the heads the sign of the score is not sure"


def ablation_headline(ablations: dict) -> str:
    right = [np.mean((found["gradient"] > 0) == (found["ablation"] > 0)) for found in ablations.values()]
    return f"The gradient foresees the sign of a head's removal in {min(right):.0%} to {max(right):.0%} of the heads"
