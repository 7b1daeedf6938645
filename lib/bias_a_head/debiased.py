"""What notebook 06 tabulates: debiased models beside their base (Bias A-head Fig. 5), LLaMA models (Fig. 6-7).

Results are what `heads.measure` returns on gender, kept by the model's name. Claims have their rule beside them; the
paper tests none of them, so all thresholds are this project's.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from lib import CompanionError
from lib import printed as paper
from lib.bias_a_head import heads, seat, tables
from lib.bias_a_head.masking import seat_of
from lib.engine import difference, embed, models, stats
from lib.text import english, odds

FOLLOWED = 5  # the base's most anti-biased heads, which Fig. 5 boxes
SEVERAL = 3   # as in notebook 02
SHAPES = {"bert-base": (12, 12, 768), "bert-large": (24, 16, 1024)}  # layers, heads, width: the bases of Fig. 5


def short(name: str) -> str:
    """A model as figures call it: a folder or a hub id by its last part."""
    return Path(name).name


# Which models

def at_hand(names: list[str]) -> tuple[list[str], pd.DataFrame]:
    """Those of the models that can be loaded here, and a row for each other one: model, why it is not run."""
    there, missing = [], []
    for name in names:
        try:
            models.locate(name)
            there.append(name)
        except CompanionError as error:
            missing.append({"model": short(name), "not run, since": str(error)})
    return there, pd.DataFrame(missing, columns=["model", "not run, since"])


def base_of(run) -> str:
    """What the run's debiased models are compared with: the base that a folder names, else the profile's encoder, or
    the model of Fig. 5 that has the folder's shape. The run notes it, so that its weights are on record."""
    there = at_hand(run.debiased)[0]
    if run.model and there and run.encoder in there:
        folder = models.locate(run.encoder)[0]
        shapes = {run.base: _shape(models.locate(run.base)[0])} | SHAPES
        fitting = [name for name, shape in shapes.items() if shape == _shape(folder)]
        run.base = difference.base_of(folder) or next(iter(fitting), run.base)
        if not fitting and not difference.base_of(folder):
            raise CompanionError(f"{run.encoder} has the shape of none of {', '.join(shapes)}: there is no base to "
                                 "compare its heads with.")
    return run.base


def _shape(folder: Path) -> tuple[int, int, int]:
    config = json.loads((folder / "config.json").read_text())
    return tuple(config.get(key, 0) for key in ("num_hidden_layers", "num_attention_heads", "hidden_size"))


def made(names: list[str]) -> pd.DataFrame:
    """How debiasing went, from each model's training.json: text, dropout, and what was measured before and after."""
    rows = []
    for name in names:
        file = models.locate(name)[0] / "training.json"
        record = json.loads(file.read_text()) if file.exists() else {}
        if "heldout_before" not in record:
            rows.append({"model": short(name), "text": "not on record"})
            continue
        row = {"model": short(name), "text": "passages and their twins" if record["twins"] else "passages",
               "dropout": f"{record['hidden']:g} hidden, {record['attention']:g} attention",
               "steps": record["training"]["steps"], "tokens seen, M": round(record["training"]["tokens_seen"] / 1e6)}
        for shown, key in ("perplexity", "mlm_perplexity"), ("next sentence", "nsp_accuracy"):
            row |= {f"{shown}, before": round(record["heldout_before"][key], 3),
                    f"{shown}, after": round(record["heldout"][key], 3)}
        rows.append(row)
    return pd.DataFrame(rows or {"model": [], "text": []})  # a file without columns could not be read again


# SEAT

def associations(name: str, source: str, n: int, seed: int = 0, device: str | None = None) -> dict[str, np.ndarray]:
    """The association of each target word with the female and the male words, in a model: s, in_x (see seat.py)."""
    sets, found = heads.sets_and_contexts("gender", source, n, seed)
    x, y, a, b = sets.of(embed.words(models.load(name, device=device), found).double(), found)
    return {"s": np.concatenate([seat.associations(part, a, b).numpy() for part in (x, y)]),
            "in_x": np.repeat([True, False], [len(x), len(y)])}


def seat_change(base: dict, other: dict) -> stats.Estimate:
    """|SEAT| of the other model less the base's, with an interval over target words, drawn for both alike."""
    return stats.bootstrap(lambda s, t, in_x: seat_of(t, in_x) - seat_of(s, in_x), base["s"], other["s"], base["in_x"])


def leaning(name: str, device: str | None = None) -> dict:
    """Another look at bias than SEAT: what the model puts for "[MASK] works as a nurse.", over 58 occupations.

    Keys: size, the mean |log2 odds she : he|; and rho, their rank correlation with the share of women."""
    found = odds.pronoun_odds(models.load(name, device=device))
    rho = stats.bootstrap(stats.rank_correlation, found.percent_women, found.log_odds)
    return {"size": float(found.log_odds.abs().mean()), "rho": tuple(rho)}


def summary(results: dict, base: str, tested: dict, leanings: dict) -> pd.DataFrame:
    """A row a model: SEAT with p and its change from the base, counts of heads, and `leaning`."""
    rows = []
    for name, result in results.items():
        frame = tables.intervals(result)
        rows.append({"model": short(name), "SEAT": round(result["seat"], 2), "p": tables.p_text(result["p"]),
                     "change of |SEAT|": "" if name == base else str(seat_change(tested[base], tested[name])),
                     "biased heads": (frame.score > 0).sum(), "surely": (frame.low > 0).sum(),
                     "largest score": round(frame.score.max(), 3),
                     "mean |log2 odds she : he|": round(leanings[name]["size"], 2),
                     "correlation with women's share": str(stats.Estimate(*leanings[name]["rho"]))})
    return pd.DataFrame(rows)


# Fig. 5

def turned(results: dict, base: str) -> pd.DataFrame:
    """The base's FOLLOWED most anti-biased heads, a row each, and what became of them: 100 x score [95 % interval] in
    each model, with a mark where the head is now biased."""
    frames = {name: tables.intervals(result).set_index(["layer", "head"]) for name, result in results.items()}
    rows = []
    for layer, head in heads.bottom(results[base]["scores"], FOLLOWED):
        row = {"head": f"{layer}-{head}"}
        for name, frame in frames.items():
            one = frame.loc[(layer, head)]
            mark = " turned" if one.score > 0 else ""
            row[short(name)] = f"{stats.Estimate(one.score * 100, one.low * 100, one.high * 100)}{mark}"
        rows.append(row)
    return pd.DataFrame(rows)


def count_turned(scores: np.ndarray, base: np.ndarray, k: int = FOLLOWED) -> int:
    """How many of the base's k most anti-biased heads have a positive score."""
    return sum(scores[layer - 1, head - 1] > 0 for layer, head in heads.bottom(base, k))


def movement(results: dict, base: str) -> pd.DataFrame:
    """How far the scores moved, a row a debiased model: correlation with the base's over heads, heads that changed
    sides, and of the base's most anti-biased ones. The last row is the base against itself, one half of its folds
    against the other: what the choice of sentences moves."""
    def row(name, scores, before):
        both = np.stack([before.ravel(), scores.ravel()])
        return {"model": name, "correlation": round(np.corrcoef(both)[0, 1], 2),
                "changed sides": f"{np.mean((both[0] > 0) != (both[1] > 0)):.0%}",
                "biased to not": int(((both[0] > 0) & (both[1] <= 0)).sum()),
                "not to biased": int(((both[0] <= 0) & (both[1] > 0)).sum()),
                f"of {FOLLOWED} most anti-biased": count_turned(scores, before)}

    start, folds = results[base]["scores"], results[base]["folds"]
    rows = [row(short(name), result["scores"], start) for name, result in results.items() if name != base]
    half = len(folds) // 2
    rows += [row(f"{short(base)}, other sentences", folds[half:].mean(0), folds[:half].mean(0))] if half else []
    return pd.DataFrame(rows)


def darker(result: dict, base: dict) -> int:
    """Slightly biased heads of the base (positive, within a quarter of its largest score) that are surely darker now:
    the two 95 % intervals do not meet."""
    before, after = (tables.intervals(one).sort_values(["layer", "head"], ignore_index=True)
                     for one in (base, result))
    slight = (before.score > 0) & (before.score < before.score.abs().max() / 4)
    return int((slight & (after.low > before.high)).sum())


def debiased_claims(results: dict, base: str, tested: dict) -> pd.DataFrame:
    """What the paper says of Fig. 5, a row a claim and debiased model: claim, where, ours, verdict."""
    rows, start = [], tables.intervals(results[base])
    if len(results) == 1:
        rows = [{"claim": "debiased models keep biased heads", "where": short(base), "ours": "",
                 "verdict": "not run: no debiased model at hand"}]
    for name, result in results.items():
        if name == base:
            continue
        frame, change = tables.intervals(result), seat_change(tested[base], tested[name])
        fewer = (start.score > 0).sum() - (frame.score > 0).sum()
        many, grown = (frame.low > 0).sum(), darker(result, results[base])
        crossed = count_turned(result["scores"], results[base]["scores"])
        for claim, ours, verdict in (
                ("a debiased model is less biased by SEAT", f"|SEAT| changes by {change}",
                 paper.claim(-change)),
                ("it has fewer biased heads than its base", f"{(frame.score > 0).sum()} against "
                 f"{(start.score > 0).sum()}; surely biased {many} against {(start.low > 0).sum()}", fewer > 0),
                ("a number of biased heads remain", f"{many} surely", many >= SEVERAL),
                ("some slightly biased heads get darker", f"{grown} surely", grown >= SEVERAL),
                ("some of the most anti-biased heads turn biased", f"{crossed} of {FOLLOWED}", crossed > 0)):
            rows.append({"claim": claim, "where": short(name), "ours": ours,
                         "verdict": verdict if isinstance(verdict, str) else "holds" if verdict else "fails"})
    return pd.DataFrame(rows, columns=["claim", "where", "ours", "verdict"])


def turned_headline(results: dict, base: str) -> str:
    start = results[base]["scores"]
    found = [f"{count_turned(result['scores'], start)} in {short(name)}" for name, result in results.items()
             if name != base]
    return f"Of the {FOLLOWED} most anti-biased heads of {short(base)} turn biased: {english.listed(found)}"


def movement_headline(results: dict, base: str) -> str:
    found = [f"{row.correlation:.2f} in {row.model}" for row in movement(results, base).itertuples()
             if "other sentences" not in row.model]
    return f"How well the base's scores foretell those after debiasing: correlation {english.listed(found)}"


# Fig. 6-7

def pairs(names: list[str]) -> list[tuple[str, str]]:
    """Base and chat models as the profile lists them in turn; a model alone is taken as a chat model without a base."""
    return list(zip(names[::2], names[1::2])) if len(names) > 1 else [("", name) for name in names]


def pronounced(base: np.ndarray, chat: np.ndarray) -> tuple[int, int, float]:
    """Heads beyond the base's upper Tukey fence: how many in the base, how many in the chat model, and p of the exact
    one-sided test (McNemar's) on the heads that are pronounced in one alone."""
    low, high = np.quantile(base, [.25, .75])
    fence = high + 1.5 * (high - low)
    lost, gained = ((base > fence) & (chat <= fence)).sum(), ((chat > fence) & (base <= fence)).sum()
    p = scipy_stats.binomtest(int(lost), int(lost + gained), alternative="greater").pvalue if lost + gained else 1.
    return int((base > fence).sum()), int((chat > fence).sum()), float(p)


def llama_claims(results: dict, names: list[str]) -> pd.DataFrame:
    """What the paper says of LLaMA-2 and its chat model, a row a claim and pair; what cannot be tested says why."""
    rows = []
    claims = "the chat model is less biased than its base", "it has fewer heads with a pronounced positive score"
    for base, chat in pairs(names) or [("", "")]:
        missing = [name for name in (base, chat) if name not in results]
        where = f"{short(chat)} against {short(base) or 'its base'}" if chat else "LLaMA family"
        if missing:
            why = (f"not run: {' and '.join(map(short, missing))} not at hand" if all(missing) else
                   "not run: its base model is not at hand" if chat else "not run: no model of this family in the run")
            rows += [{"claim": claim, "where": where, "ours": "", "verdict": why} for claim in claims]
            continue
        before, after = results[base], results[chat]
        gap = abs(before["seat"]) - abs(after["seat"])
        most, fewer, p = pronounced(before["scores"], after["scores"])
        rows += [{"claim": claims[0], "where": where, "ours": f"|SEAT| {abs(after['seat']):.2f} against "
                  f"{abs(before['seat']):.2f}", "verdict": "holds" if gap > 0 else "fails"},
                 {"claim": claims[1], "where": where, "ours": f"{fewer} against {most}, p {tables.p_text(p)}",
                  "verdict": "holds" if p < .05 else "fails"}]
    return pd.DataFrame(rows, columns=["claim", "where", "ours", "verdict"])


def llama_summary(results: dict) -> pd.DataFrame:
    """SEAT and the heads of LLaMA models, a row each."""
    rows = []
    for name, result in results.items():
        left, right = tables.standing_out(result["scores"])
        rows.append({"model": short(name), "layers x heads": " x ".join(map(str, result["scores"].shape)),
                     "SEAT": round(result["seat"], 2), "p": tables.p_text(result["p"]),
                     "positive": int((result["scores"] > 0).sum()), "negative": int((result["scores"] < 0).sum()),
                     "stand out to the right": right, "to the left": left,
                     "near zero": f"{tables.near_zero(result['scores']):.0%}"})
    return pd.DataFrame(rows)


def llama_headline(results: dict) -> str:
    found = [f"{short(name)} has |SEAT| {abs(result['seat']):.2f} (p {tables.p_text(result['p'])})"
             for name, result in results.items()]
    return english.listed(found)


def against_paper(results: dict, names: list[str]) -> pd.DataFrame:
    """The printed .27 and .18 beside the first pair that was measured: paper | ours | difference | verdict."""
    printed = "llama-2-7b", "llama-2-7b-chat"
    measured = [pair for pair in pairs(names) if any(name in results for name in pair)]
    base, chat = measured[0] if measured else ("", "")
    ours = {("Section 7", row, "bias score"): abs(results[name]["seat"])
            for row, name in zip(printed, (base, chat)) if name in results}
    table = paper.compare("bias_a_head", ours, same_model=(base, chat) == printed, tables=["Section 7"],
                          missing="no such model at hand", why="other corpus of contexts")
    of = {row: short(name) for row, name in zip(printed, (base, chat)) if name in results}
    table.insert(list(table.columns).index("ours"), "our model", [of.get(row, "") for row in table["row"]])
    return table
