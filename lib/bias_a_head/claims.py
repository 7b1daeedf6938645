"""Every claim of Bias A-head that can be tested, and the tests of them, by notebook.

A test returns verdicts, one per claim and thing that it was tested on; the notebooks' tables are made of them. The
arguments are those of tables.py; in 06 `results` is {model's name: result}.
The paper tests none of the claims of notebook 06, so all thresholds there are this project's.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from lib.bias_a_head import debiased, glue, masking, tables
from lib.bias_a_head.debiased import FOLLOWED, short
from lib.engine import stats
from lib.verdict import Claim, Control, Gate, Side, Verdict, by_id, judge, not_run

PAPER = "bias_a_head"
SEVERAL = 3              # heads: what the paper's "several" and "a number of" are taken to mean
LITTLE, MUCH = .05, .20  # what "little cost" and "much worse" in PPPL are taken to mean; the paper has .017 and .38
FURTHER = .07            # of |SEAT|: a further fall that would count, half of what the paper's Top-3 lower it by
COMPARABLE = .01         # how much lower a GLUE score may be

FIG1, FIG2, PLANE = "02_fig1_distributions", "02_fig2_heatmaps", "04_table1_plane"
TABLE1, TABLE2, TABLE3, FIG5 = "App. A, Table 1", "App. A, Table 2", "App. B, Table 3", "App. C, Fig. 5"

# id, paper, where, what it says, notebook, figure, the notebook's name for it ("": not in its table), side, threshold
CLAIMS = by_id(Claim(id, PAPER, *about) for id, *about in (
    ("heads-near-zero", "5.1, Fig. 1", "Most heads have next to no effect on the bias", "02", FIG1,
     "most heads lie near zero", Side.ABOVE, .5),
    ("heads-right-tail", "5.1, 6, Fig. 1", "Several heads have a far higher bias score than the others", "02", FIG1,
     "several heads stand out to the right", Side.AT_LEAST, SEVERAL),
    ("heads-all-layers", "5.1, 6, Fig. 2", "Biased heads appear in all layers", "02", FIG2,
     "biased heads appear in all layers", Side.AT_LEAST),  # the number of layers
    ("heads-gpt2-negative", "5.1, Fig. 1b", "GPT-2 has more heads of negative score than BERT", "02", FIG1,
     "GPT-2 has more negative heads than BERT"),
    ("heads-race-higher", "6, Fig. 2c", "On race the highest heads sit in higher layers", "02", FIG2,
     "race's highest heads sit in higher layers"),
    ("heads-race-higher-gpt2", "footnote 13", "So they do in GPT-2", "02", FIG2, "likewise in GPT-2 (footnote 13)"),
    ("heads-race-gpt2", "footnote 13", "GPT-2 is biased on race as BERT is", "02", FIG2,
     "GPT-2 shows race bias likewise (footnote 13)", Side.BELOW, .05),
    ("seat-order", "footnote 9", "GPT-2 is less biased than BERT by SEAT", "02", FIG1, "", Side.BELOW),
    ("gradient-sign", "3.2", "The sign of a head's score is that of what its removal does to SEAT", "02", "02_ablation",
     "", Side.AT_LEAST, .9),
    *((f"counter-{key}-{kind}", f"{where}, Fig. {key}", f"{says} ({who})", "03", f"03_fig{key}", short, side, .05)
      for key, where, who in (("4a", "5.2", "BERT, gender"), ("4b", "5.2", "GPT-2, gender"), ("4c", "6", "BERT, race"))
      for kind, says, short, side in (
          ("biased", "Biased heads attend more to the stereotyped word",
           "biased heads attend more to the stereotyped pair", Side.BELOW),
          ("regular", "Regular heads do not", "regular heads do not", Side.AT_LEAST))),  # p of the paired test
    ("counter-example", "5.2, Fig. 3", "In the running example the biased head looks away from the swapped word", "03",
     "03_fig3", "", Side.BELOW),
    ("counter-contrast", "1", "The swap changes the attention of biased heads more than that of regular ones", "03",
     "03_fig4a"),
    ("mask-top3-seat", TABLE1, "Masking the Top-3 lowers SEAT", "04", PLANE, "Top-3 lowers SEAT", Side.BELOW),
    ("mask-top3-pppl", TABLE1, "Masking the Top-3 costs little PPPL", "04", PLANE, "Top-3 costs little PPPL",
     Side.AT_MOST, 1 + LITTLE),
    ("mask-bottom3", TABLE1, "Masking the Bottom-3 raises SEAT", "04", PLANE, "Bottom-3 raises SEAT"),
    ("mask-random", TABLE1, "Masking random heads raises SEAT", "04", PLANE, "Random heads raise SEAT"),
    ("mask-all-seat", TABLE1, "Masking all biased heads lowers SEAT no further than the Top-3", "04", PLANE,
     "All lowers SEAT no further than Top-3", Side.AT_LEAST, -FURTHER),
    ("mask-all-pppl", TABLE1, "Masking all biased heads makes PPPL much worse", "04", PLANE,
     "All has a much worse PPPL than Top-3", Side.AT_LEAST, 1 + MUCH),
    ("mask-all-random", "ours", "Masking all biased heads lowers SEAT by more than masking random ones", "04",
     "04_curves", "All lowers SEAT more than random heads (ours)", Side.BELOW),
    ("mask-lpbs", TABLE3, "Masking top heads can lower LPBS too", "04", "04_table3_curves",
     "Masking top heads lowers LPBS", Side.BELOW),
    ("mask-lpbs-all", TABLE3, "Masking all of them does not give the lowest LPBS", "04", "04_table3_curves",
     "All does not give the lowest LPBS"),
    ("mask-amplify", "9", "Amplifying anti-biased heads may lower the bias (a conjecture)", "04", "04_amplified",
     "Amplifying the Bottom-3 lowers SEAT (conjecture)", Side.BELOW),
    ("glue-top3", TABLE2, "Masking the Top-3 leaves GLUE scores comparable", "05", "05_changes",
     "Masking the top 3 heads keeps the scores comparable", Side.ABOVE, -COMPARABLE),
    ("glue-all", TABLE2, "Masking all biased heads worsens GLUE scores", "05", "05_changes",
     "Masking all biased heads worsens them", Side.BELOW),
    ("glue-order", TABLE2, "Top-3 scores above All in every GLUE metric", "05", "05_changes",
     "Top-3 scores above All in every metric", Side.AT_LEAST),  # the number of metrics
    ("debiased-seat", FIG5, "Debiased models are less biased", "06", "06_fig5_heatmaps",
     "a debiased model is less biased by SEAT", Side.BELOW),
    ("debiased-fewer", FIG5, "Debiased models have fewer biased heads", "06", "06_fig5_heatmaps",
     "it has fewer biased heads than its base", Side.BELOW),
    ("debiased-remain", FIG5, "A number of biased heads remain in debiased models", "06", "06_fig5_heatmaps",
     "a number of biased heads remain", Side.AT_LEAST, SEVERAL),
    ("debiased-darker", FIG5, "Some slightly biased heads get darker by debiasing", "06", "06_fig5_heatmaps",
     "some slightly biased heads get darker", Side.AT_LEAST, SEVERAL),
    ("debiased-turned", FIG5, "Debiasing turns some anti-biased heads into biased ones", "06", "06_fig5_heatmaps",
     "some of the most anti-biased heads turn biased", Side.AT_LEAST, 1.),
    ("chat-seat", "7", "The chat model is less biased than its base, LLaMA-2", "06", "06_fig67_distributions",
     "the chat model is less biased than its base", Side.BELOW),
    ("chat-heads", "7, Fig. 6-7", "The chat model has fewer heads of pronounced positive score", "06",
     "06_fig67_distributions", "it has fewer heads with a pronounced positive score", Side.BELOW),
))
GLUE, DEBIASED, CHAT = ([id for id in CLAIMS if id.startswith(kind)] for kind in ("glue-", "debiased-", "chat-"))


def table(verdicts: list[Verdict]) -> pd.DataFrame:
    """claim, where, ours, verdict: a notebook's table of the claims that it has a name for."""
    return pd.DataFrame([{"claim": CLAIMS[verdict.claim].short, "where": verdict.on, "ours": verdict.found,
                          "verdict": str(verdict)} for verdict in verdicts if CLAIMS[verdict.claim].short])


# ---- 02: head scores

def of_scores(results: dict, ablations: dict, encoder: str, decoder: str) -> list[Verdict]:
    """What the paper says of Fig. 1 and 2, of SEAT, and of what the gradient predicts."""
    frames = {key: tables.intervals(result) for key, result in results.items()}
    verdicts = []

    def say(id, estimate, on, found, names, **options):
        verdicts.append(judge(CLAIMS[id], estimate, on, found, models=names, **options))

    for (name, bias), frame in frames.items():
        near = tables.near_zero(frame.score)
        say("heads-near-zero", near, f"{name}, {bias}", f"{near:.0%} within a quarter of the largest", [name])
    for (name, bias), frame in frames.items():
        left, right = tables.standing_out(frame.score)
        skew = stats.bootstrap(scipy_stats.skew, frame.score.to_numpy())
        say("heads-right-tail", right, f"{name}, {bias}", f"{right}, and {left} to the left; skewness {skew}", [name])
    for (name, bias), frame in frames.items():
        layers, sure = (frame[above > 0].layer.nunique() for above in (frame.score, frame.low))
        n_layers = int(frame.layer.max())
        say("heads-all-layers", layers, f"{name}, {bias}", f"in {layers} of {n_layers} layers, surely in {sure}",
            [name], threshold=n_layers)
    (theirs, theirs_sure), (berts, berts_sure) = (
        (int((frame.score < 0).sum()), int((frame.high < 0).sum()))
        for frame in (frames[decoder, "gender"], frames[encoder, "gender"]))
    say("heads-gpt2-negative", theirs - berts, "gender",
        f"{theirs} against {berts}; surely negative {theirs_sure} against {berts_sure}", [decoder, encoder])
    for id, name in (("heads-race-higher", encoder), ("heads-race-higher-gpt2", decoder)):
        race, gender = (frames[name, bias].head(10).layer.mean() for bias in ("race", "gender"))
        say(id, race - gender, name, f"mean layer of the top ten {race:.1f}, on gender {gender:.1f}", [name])
    race = [results[name, "race"] for name in (decoder, encoder)]
    shown = [f"SEAT {result['seat']:.2f}, p {tables.p_text(result['p'])}" for result in race]
    say("heads-race-gpt2", race[0]["p"], decoder, f"{shown[0]}; {encoder} {shown[1]}", [decoder])

    theirs, berts = (round(results[name, "gender"]["seat"], 2) for name in (decoder, encoder))  # as shown
    say("seat-order", abs(theirs) - abs(berts), f"{decoder} against {encoder}", f"{theirs:.2f} against {berts:.2f}",
        [decoder, encoder])
    for name, result in ablations.items():
        share = tables.same_sign(result)
        say("gradient-sign", round(share, 2), name, f"in {share:.0%} of the heads", [name])
    return verdicts


# ---- 03: the counter-stereotype test

def by_group(tests: dict, studies: dict) -> Iterator[tuple[dict, Verdict]]:
    """For each group of heads and figure its row in the notebook's table, and the verdict by the paper's test at 5 %.

    The paper's test has one value per sentence. The balanced one weighs each pair of attribute words both ways round;
    where no two pairs occur so, or no head is of the group, it is not run.
    """
    for kind in ("biased", "regular"):
        for key, (name, bias) in studies.items():
            claim, tested, verdicts = CLAIMS[f"counter-{key}-{kind}"], tests[key].get(kind, pd.DataFrame()), []
            row, why = {"claim": claim.short}, "too few word pairs" if len(tested) else f"no head is {kind}"
            for reading, unit in (("paper's test", "sentence"), ("balanced", "word pair")):
                if unit in tested.index:
                    t, p = tested.loc[unit, ["t", "p"]]
                    verdicts.append(judge(claim, np.nan_to_num(p, nan=1.0), reading=reading))  # nan: no difference
                    t, p = f"{round(t, 1) + 0:.1f}", f"{p:.2f}" if p >= .01 else "< .01"
                else:
                    t, p = "", ""
                    verdicts.append(not_run(claim, why, reading=reading))
                row |= {f"t, {reading}": t, f"p, {reading}": p, f"verdict, {reading}": str(verdicts[-1])}
            found = "; ".join(f"{column} {text}" for column, text in row.items()
                              if text and column not in ("claim", "verdict, paper's test"))
            where = f"{key} {name} {bias}"
            yield row | {"where": where}, replace(verdicts[0], on=where, found=found, reading="", models=[name])


def of_attention(tests: dict, studies: dict, example: list[float]) -> list[Verdict]:
    """Fig. 3 and 4. example: the biased head's normalised weight on the attribute, original and counter.

    The contrast is by the paper's unit, the sentence; within chance where the intervals of the two groups overlap.
    """
    verdicts = [verdict for _, verdict in by_group(tests, studies)]
    before, after = np.round(example, 3)  # as notebook 03 shows them, here and below
    encoder = studies["4a"][0]
    verdicts.append(judge(CLAIMS["counter-example"], after - before, encoder, f"{before:.3f} to {after:.3f}",
                          models=[encoder], gates=[Gate("heads", not np.isnan(before), "no head is biased")]))
    by_sentence = tables.attention_tests(tests, studies).xs("sentence", level="unit")
    for key, (name, bias) in studies.items():
        where = f"{key} {name} {bias}"
        if len(tests[key]) < 2:
            verdicts.append(not_run(CLAIMS["counter-contrast"], "one of the two groups has no head", where))
            continue
        biased, regular = (by_sentence.loc[where, kind] for kind in ("biased", "regular"))
        ends = zip(("difference", "low", "high"), ("difference", "high", "low"))
        gap = stats.Estimate(*(float(biased[end] - regular[other]) for end, other in ends), int(biased["n"]),
                             "percentage points")
        verdicts.append(judge(CLAIMS["counter-contrast"], gap, where,
                              f"{biased['difference']:.2f} against {regular['difference']:.2f}", models=[name]))
    return verdicts


# ---- 04: masking

def of_masking(masks: pd.DataFrame, changes: np.ndarray, held_out: dict | None, result: dict, encoder: str,
               **about) -> list[Verdict]:
    """Tables 1 and 3. Heads are judged on the half of the sentences that did not choose them, beside random ones.

    changes    tables.seat_changes;   held_out   the second that lpbs.top_k returns; None: LPBS is not run
    result     heads.measure of the encoder on gender: without a bias, or three heads for it, there is no case
    """
    sizes, positive = masking.sizes(result["scores"]), int((result["scores"] > 0).sum())
    rows, verdicts = tables.named(masks, sizes), []
    gates = [beyond_chance(result, "gender"),
             Gate("biased heads", positive >= SEVERAL, f"{positive} heads have a positive score, not {SEVERAL}")]

    def say(id, estimate, found="", **options):
        verdicts.append(judge(CLAIMS[id], estimate, options.pop("on", encoder), found or str(estimate),
                              models=[encoder], gates=gates, **options, **about))

    def against(name, random):
        """A choice of heads and the same number at random: the change of SEAT, with its control."""
        moved, drawn, apart = (tables.change(changes, *which) for which in (
            (rows[name],), (random,), (rows[name], random)))
        return moved, Control(f"{len(random)} draws of random heads", drawn, apart)

    for id, name in (("mask-top3-seat", "Top-3"), ("mask-bottom3", "Bottom-3")):
        moved, control = against(name, rows["Random-3"])
        say(id, moved, f"{moved}; beyond random heads {control.difference}", control=control)
    cost, random = tables.times(masks, rows["Top-3"]), tables.times(masks, rows["Random-3"])
    say("mask-top3-pppl", cost, f"{tables.three(cost)} times; random heads {tables.digits(random.value):g}")
    for name in ("Random-3", "Random-All"):
        say("mask-random", tables.change(changes, rows[name]), on=f"{encoder}, {rows[name]['k'].iloc[0]} heads")
    for name, reading in (("All", "all of positive score"), ("Dose", "the paper's dose")):
        on, between = f"{encoder}, {rows[name]['k'].iloc[0]} heads", tables.times(masks, rows[name], rows["Top-3"])
        say("mask-all-seat", tables.change(changes, rows[name], rows["Top-3"]), on=on, reading=reading)
        say("mask-all-pppl", between, f"{tables.three(between)} times", on=on, reading=reading)
        beyond = against(name, rows[f"Random-{name}"])[1].difference
        say("mask-all-random", beyond, on=on, reading=f"equal K, {reading}")
    say("mask-all-random", tables.change_at_equal_pppl(masks, changes, rows["Dose"]),
        on=f"{encoder}, {sizes[2]} heads", reading="equal PPPL, the paper's dose")

    if held_out is None:
        verdicts += [not_run(CLAIMS[id], "the model has no LPBS", encoder) for id in ("mask-lpbs", "mask-lpbs-all")]
    else:
        control = Control("random heads", held_out["random"], held_out["difference"])
        at = f"at K = {' and '.join(map(str, held_out['best']))}, chosen on the other words"
        say("mask-lpbs", held_out["change"], f"{held_out['change']} {at}; random heads {held_out['random']}",
            control=control)
        say("mask-lpbs-all", held_out["all"], f"{held_out['all']} above that {at}")

    louder, random = (masks[(masks["strategy"] == name) & (masks["factor"] == masking.LOUDER)]
                      for name in ("amplified", "random amplified"))
    if len(random):
        rows["louder"] = louder
        moved, control = against("louder", random)
        say("mask-amplify", moved, f"{moved} at {masking.LOUDER:g} times; beyond random heads {control.difference}",
            control=control)
    return verdicts


# ---- 05: GLUE

def of_glue(runs: pd.DataFrame, model: str) -> list[Verdict]:
    """What the paper says of Table 2.

    Ours are over what the unmasked model has learned, each task by its first metric there, so that a task with two does
    not count twice; intervals are over seeds.
    """
    runs = runs[runs["row"].isin(tables.learned(runs))]
    if runs.empty:
        return [not_run(CLAIMS[id], "no task is done that the unmasked model has learned") for id in GLUE]
    full, top, every = glue.MASKS.values()
    first = runs[runs["row"].isin(runs.groupby("task")["row"].first())]
    by_seed = first.pivot_table(index="seed", columns="mask", values="score", aggfunc="mean")
    tasks, mean = ", ".join(runs["task"].unique()), runs.pivot_table(index="row", columns="mask", values="score")
    verdicts = []
    for id, mask in (("glue-top3", top), ("glue-all", every)):
        change = stats.mean(by_seed[mask] - by_seed[full])
        verdicts.append(judge(CLAIMS[id], change, found=f"{change:+.3f}, {tasks}", models=[model]))
    above = int((mean[top] > mean[every]).sum())
    return [*verdicts, judge(CLAIMS["glue-order"], above, found=f"{above} of {len(mean)}", threshold=len(mean),
                             models=[model])]


# ---- 06: debiased models and LLaMA

def above_zero(folds: np.ndarray) -> np.ndarray:
    """For each head, whether the 95 % interval (Student's, over folds) of its score lies above 0."""
    if len(folds) < 2:
        return np.zeros(folds.shape[1:], dtype=bool)
    return folds.mean(0) > scipy_stats.t.ppf(.975, len(folds) - 1) * folds.std(0, ddof=1) / np.sqrt(len(folds))


def counted(hits: np.ndarray) -> stats.Estimate:
    """How many heads are so, with Wilson's interval, beyond the 2.5 % that chance makes so."""
    n = hits.size
    return stats.wilson(hits.ravel()) * n - .025 * n


def darker(result: dict, base: dict) -> list[np.ndarray]:
    """Of the slightly biased heads of the base (positive, within a quarter of its largest score), as one half of the
    sentences has them, whether they are darker now by the paired difference on the other half. The first, then the
    second way round."""
    grown, found = result["folds"] - base["folds"], []
    for half, before in enumerate(masking.halves(base)):
        slight = (before > 0) & (before < np.abs(before).max() / 4)
        found.append(above_zero(grown[1 - half::2])[slight])
    return found


def turned(result: dict, base: dict) -> np.ndarray:
    """[1 + draws]: how many of the base's most anti-biased heads, as one half of the sentences has them, are positive
    in `result` on the other: the mean of both ways, as it is and with folds drawn again."""
    counts = []
    for half, before in enumerate(masking.halves(base)):
        judging = {"scores": masking.halves(result)[1 - half], "folds": result["folds"][1 - half::2]}
        counts.append(debiased.count_turned(np.concatenate([judging["scores"][None], tables.redrawn(judging)]), before))
    return np.mean(counts, axis=0)


def of_debiased(results: dict, base: str, **about) -> list[Verdict]:
    """What the paper says of Fig. 5, for each debiased model: of biased heads only where SEAT is beyond chance."""
    if len(results) == 1:
        return [not_run(CLAIMS[id], "no debiased model at hand", short(base)) for id in DEBIASED]
    verdicts, start = [], results[base]
    gate = beyond_chance(start, "gender")
    for name in (name for name in results if name != base):
        result, change = results[name], debiased.seat_change(start, results[name])

        def say(id, estimate, found, **options):
            verdicts.append(judge(CLAIMS[id], estimate, short(name), found, models=[base, name], **options, **about))

        say("debiased-seat", change, f"|SEAT| changes by {change}", gates=[gate])
        now, before = ((tables.redrawn(one) > 0).sum((1, 2)) for one in (result, start))  # the same folds are drawn
        fewer = tables.spread((result["scores"] > 0).sum() - (start["scores"] > 0).sum(), now - before, unit="heads")
        say("debiased-fewer", fewer, f"{fewer:+.0f} heads of positive score", gates=[gate])
        left = above_zero(result["folds"])
        remain = counted(left)
        say("debiased-remain", remain, f"{left.sum()}, {.025 * left.size:.1f} expected by chance",
            gates=[beyond_chance(result, "gender")])
        both = darker(result, start)
        grown = counted(np.arange(n := max(map(len, both))) < round(np.mean([hits.sum() for hits in both])))
        say("debiased-darker", grown, f"{' and '.join(str(hits.sum()) for hits in both)} of "
            f"{' and '.join(str(len(hits)) for hits in both)}, {.025 * n:.1f} expected by chance", gates=[gate])
        ours, same = turned(result, start), turned(start, start)
        estimate, other, apart = (tables.spread(counts[0], counts[1:], unit="heads")
                                  for counts in (ours, same, ours - same))
        say("debiased-turned", estimate, f"{estimate.value:g} of {FOLLOWED}; the base's own on other sentences "
            f"{other.value:g}", gates=[gate], control=Control("the base's heads on other sentences", other, apart))
    return verdicts


def of_chat(results: dict, names: list[str], **about) -> list[Verdict]:
    """What the paper says of LLaMA-2 and its chat model, for each pair."""
    verdicts = []
    for base, chat in debiased.pairs(names) or [("", "")]:
        missing = [name for name in (base, chat) if name not in results]
        where = f"{short(chat)} against {short(base) or 'its base'}" if chat else "LLaMA family"
        if missing:
            why = (f"{' and '.join(map(short, missing))} not at hand" if all(missing) else
                   "its base model is not at hand" if chat else "no model of this family in the run")
            verdicts += [not_run(CLAIMS[id], why, where) for id in CHAT]
            continue
        both = [results[name] for name in (base, chat)]
        most, fewer = debiased.pronounced(*(np.concatenate([one["scores"][None], tables.redrawn(one)])
                                            for one in both))
        change = tables.spread((fewer - most)[0], (fewer - most)[1:], unit="heads")
        verdicts += [judge(CLAIMS[id], estimate, where, found, models=[base, chat],
                           gates=[beyond_chance(both[0], "gender")], **about) for id, estimate, found in (
            ("chat-seat", debiased.seat_change(*both), f"{seat_text(both[1])}; {seat_text(both[0])}"),
            ("chat-heads", change, f"{fewer[0]} against {most[0]}"))]
    return verdicts
