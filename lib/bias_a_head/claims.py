"""Every claim of Bias A-head that can be tested, and the tests of them, by notebook.

A test returns verdicts, one per claim and thing that it was tested on; the notebooks' tables are made of them. The
arguments are those of tables.py; in 06 `results` is {model's name: result}.
The paper tests none of the claims of notebook 06, so all thresholds there are this project's."""

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from lib.bias_a_head import counter, debiased, glue, masking, tables
from lib.bias_a_head.debiased import FOLLOWED, short
from lib.engine import stats
from lib.verdict import (
    CONTROLS,
    UNTRAINED,
    Claim,
    Control,
    Precondition,
    Side,
    Verdict,
    by_id,
    judge,
    not_run,
)

PAPER = "bias_a_head"
SEVERAL = 3  # heads: what the paper's "several" and "a number of" are taken to mean
CHANCE = 0.05  # p of SEAT below which a model is called biased at all, and its heads after it
NO_EFFECT = (
    0.05  # of |SEAT|: what a head of "no major effect" changes at most, as far as the gradient sees
)
SMALL, MOST = (
    0.1,
    0.5,
)  # of all heads: "a small set" (the paper masks 3 of 144); of what is carried: "mostly"
NEGLIGIBLE = (
    0.05  # of the attention on a word: what a regular head may change (Fig. 3's biased one has .56)
)
RIGHT_SIGN = 0.9  # of the heads: the paper says it of every one, and a score may lie at 0
LITTLE, MUCH = (
    0.05,
    0.20,
)  # what "little cost" and "much worse" in PPPL are taken to mean; the paper has .017 and .38
FURTHER = (
    0.07  # of |SEAT|: a further fall that would count, half of what the paper's Top-3 lower it by
)
COMPARABLE = 0.01  # how much lower a GLUE score may be
FIG1, FIG2, FIG4, PLANE = "02_fig1_distributions", "02_fig2_heatmaps", "03_fig4a", "04_table1_plane"
TABLE1, TABLE2, TABLE3, FIG5 = (
    "App. A, Table 1",
    "App. A, Table 2",
    "App. B, Table 3",
    "App. C, Fig. 5",
)
# Of the models that cannot have the effect balanced speaks of gender in BERT alone, none of the method.
SPEAKS = dict.fromkeys(
    (
        "heads-race-higher",
        "heads-gpt2-negative",
        "heads-race-gpt2",
        "seat-order",
        "chat-seat",
        "chat-heads",
    ),
    (UNTRAINED,),
) | {"gradient-sign": ()}
# id, paper, where, what it says, notebook, figure, the notebook's name for it ("": not in its table), side, threshold
CLAIMS = by_id(
    Claim(
        id,
        PAPER,
        *about,
        controls=SPEAKS.get(id, CONTROLS),
        about_bert=not SPEAKS.get(id, CONTROLS),
    )
    for id, *about in (
        (
            "heads-near-zero",
            "5.1, Fig. 1",
            "Most heads have next to no effect on the bias",
            "02",
            FIG1,
            "most heads have no major effect",
            Side.ABOVE,
            0.5,
        ),
        (
            "heads-right-tail",
            "5.1, 6, Fig. 1",
            "Several heads have a far higher bias score than the others",
            "02",
            FIG1,
            "several heads stand out to the right",
            Side.AT_LEAST,
            SEVERAL,
        ),
        (
            "heads-all-layers",
            "5.1, 6, Fig. 2",
            "Biased heads appear in all layers",
            "02",
            FIG2,
            "biased heads appear in all layers",
            Side.AT_LEAST,
        ),  # the number of layers
        (
            "heads-small-set",
            "8",
            "Biases are mostly encoded in a small set of heads",
            "02",
            "02_small_set",
            "a tenth of the heads carries most of the bias",
            Side.ABOVE,
            MOST,
        ),
        (
            "heads-gpt2-negative",
            "5.1, Fig. 1b",
            "GPT-2 has more heads of pronounced negative score than BERT",
            "02",
            FIG1,
            "GPT-2 has more pronounced negative heads than BERT",
        ),
        (
            "heads-race-higher",
            "6, footnote 13, Fig. 2c",
            "On race some of the highest heads sit in higher layers",
            "02",
            FIG2,
            "several of race's ten highest heads sit in the upper half",
            Side.AT_LEAST,
            SEVERAL,
        ),
        (
            "heads-race-gpt2",
            "footnote 13",
            "GPT-2 is biased on race as BERT is",
            "02",
            FIG2,
            "GPT-2 shows race bias likewise (footnote 13)",
        ),
        (
            "seat-order",
            "footnote 9",
            "GPT-2 is less biased than BERT by SEAT",
            "02",
            FIG1,
            "GPT-2 is less biased than BERT",
            Side.BELOW,
        ),
        (
            "gradient-sign",
            "3.2",
            "The sign of a head's score is that of what its removal does to SEAT",
            "02",
            "02_ablation",
            "the gradient has the sign of the head's removal",
            Side.AT_LEAST,
            RIGHT_SIGN,
        ),
        (
            "counter-contrast",
            "1, 5.2, 6, Fig. 4",
            "The swap changes the attention of biased heads more than that of regular ones",
            "03",
            FIG4,
            "biased heads react more than regular ones",
        ),
        (
            "counter-biased",
            "5.2, 6, Fig. 4",
            "Biased heads attend more to the stereotyped word",
            "03",
            FIG4,
            "biased heads attend more to the stereotyped pair",
        ),
        (
            "counter-regular",
            "5.2, 6, Fig. 4",
            "Regular heads do not",
            "03",
            FIG4,
            "regular heads do not",
            Side.WITHIN,
            0.0,
            NEGLIGIBLE,
        ),
        (
            "counter-example",
            "5.2, Fig. 3",
            "In the running example biased heads look away from the swapped word, and "
            "regular ones do not",
            "03",
            "03_fig3",
            "in Fig. 3's sentence biased heads look away, regular ones do not",
        ),
        (
            "mask-top3-seat",
            TABLE1,
            "Masking the Top-3 lowers SEAT",
            "04",
            PLANE,
            "Top-3 lowers SEAT",
            Side.BELOW,
        ),
        (
            "mask-top3-pppl",
            TABLE1,
            "Masking the Top-3 costs little PPPL",
            "04",
            PLANE,
            "Top-3 costs little PPPL",
            Side.AT_MOST,
            1 + LITTLE,
        ),
        (
            "mask-bottom3",
            TABLE1,
            "Masking the Bottom-3 raises SEAT",
            "04",
            PLANE,
            "Bottom-3 raises SEAT",
        ),
        (
            "mask-random",
            TABLE1,
            "Masking random heads raises SEAT",
            "04",
            PLANE,
            "Random heads raise SEAT",
        ),
        (
            "mask-all-seat",
            TABLE1,
            "Masking all biased heads lowers SEAT no further than the Top-3",
            "04",
            PLANE,
            "All lowers SEAT no further than Top-3",
            Side.AT_LEAST,
            -FURTHER,
        ),
        (
            "mask-all-pppl",
            TABLE1,
            "Masking all biased heads makes PPPL much worse",
            "04",
            PLANE,
            "All has a much worse PPPL than Top-3",
            Side.AT_LEAST,
            1 + MUCH,
        ),
        (
            "mask-all-random",
            "ours",
            "Masking all biased heads lowers SEAT by more than masking random ones",
            "04",
            "04_curves",
            "All lowers SEAT more than random heads (ours)",
            Side.BELOW,
        ),
        (
            "mask-lpbs",
            TABLE3,
            "Masking top heads can lower LPBS too",
            "04",
            "04_table3_curves",
            "Masking top heads lowers LPBS",
            Side.BELOW,
        ),
        (
            "mask-lpbs-all",
            TABLE3,
            "Masking all of them does not give the lowest LPBS",
            "04",
            "04_table3_curves",
            "All does not give the lowest LPBS",
        ),
        (
            "mask-amplify",
            "9",
            "Amplifying anti-biased heads may lower the bias (a conjecture)",
            "04",
            "04_amplified",
            "Amplifying the Bottom-3 lowers SEAT (conjecture)",
            Side.BELOW,
        ),
        (
            "glue-top3",
            TABLE2,
            "Masking the Top-3 leaves GLUE scores comparable",
            "05",
            "05_changes",
            "Masking the top 3 heads keeps the scores comparable",
            Side.ABOVE,
            -COMPARABLE,
        ),
        (
            "glue-all",
            TABLE2,
            "Masking all biased heads worsens GLUE scores",
            "05",
            "05_changes",
            "Masking all biased heads worsens them",
            Side.BELOW,
        ),
        (
            "debiased-seat",
            FIG5,
            "Debiased models are less biased",
            "06",
            "06_fig5_heatmaps",
            "a debiased model is less biased by SEAT",
            Side.BELOW,
        ),
        (
            "debiased-fewer",
            FIG5,
            "Debiased models have fewer biased heads",
            "06",
            "06_fig5_heatmaps",
            "it has fewer biased heads than its base",
            Side.BELOW,
        ),
        (
            "debiased-remain",
            FIG5,
            "A number of biased heads remain in debiased models",
            "06",
            "06_fig5_heatmaps",
            "a number of biased heads remain",
            Side.AT_LEAST,
            SEVERAL,
        ),
        (
            "debiased-darker",
            FIG5,
            "Some slightly biased heads get darker by debiasing",
            "06",
            "06_fig5_heatmaps",
            "some slightly biased heads get darker",
            Side.AT_LEAST,
            SEVERAL,
        ),
        (
            "debiased-turned",
            FIG5,
            "Debiasing turns some anti-biased heads into biased ones",
            "06",
            "06_fig5_heatmaps",
            "some of the most anti-biased heads turn biased",
            Side.AT_LEAST,
            1.0,
        ),
        (
            "chat-seat",
            "7",
            "The chat model is less biased than its base, LLaMA-2",
            "06",
            "06_fig67_distributions",
            "the chat model is less biased than its base",
            Side.BELOW,
        ),
        (
            "chat-heads",
            "7, Fig. 6-7",
            "The chat model has fewer heads of pronounced positive score",
            "06",
            "06_fig67_distributions",
            "it has fewer heads with a pronounced positive score",
            Side.BELOW,
        ),
    )
)
GLUE, DEBIASED, CHAT = (
    [id for id in CLAIMS if id.startswith(kind)] for kind in ("glue-", "debiased-", "chat-")
)


def table(verdicts: list[Verdict]) -> pd.DataFrame:
    """claim, where, ours, verdict: a notebook's table of the claims that it has a name for."""
    return pd.DataFrame(
        [
            {
                "claim": CLAIMS[verdict.claim].short,
                "where": verdict.on,
                "ours": verdict.found,
                "verdict": str(verdict),
            }
            for verdict in verdicts
            if CLAIMS[verdict.claim].short
        ]
    )


def beyond_chance(result: dict, bias: str) -> Precondition:
    """Whether SEAT of this bias is beyond chance: otherwise there is nothing that a head could have a part in."""
    return Precondition(
        f"SEAT of {bias}", result["p"] < CHANCE, f"{bias} is not significant: {seat_text(result)}"
    )


def seat_text(result: dict) -> str:
    """SEAT .31, p < .001: as panels and verdicts show it."""
    return f"SEAT {result['seat']:.2f}, p {tables.p_text(result['p'])}"


def panel_text(result: dict) -> str:
    """The same for a panel, which says so where the precondition of its verdicts is shut."""
    return seat_text(result) + (
        "" if beyond_chance(result, "").is_met else "\nnot applicable: SEAT not significant"
    )


# ---- 02: head scores
def of_scores(results: dict, ablations: dict, encoder: str, decoder: str, **about) -> list[Verdict]:
    """What the paper says of Fig. 1 and 2, of SEAT, of a small set of heads, and of what the gradient predicts.
    Intervals are over folds of the sentences for heads' scores, over target words for SEAT. about: as judge takes it"""
    verdicts, preconditions = (
        [],
        {key: beyond_chance(result, key[1]) for key, result in results.items()},
    )

    def say(id, estimate, on, found, keys, **options):
        verdicts.append(
            judge(
                CLAIMS[id],
                estimate,
                on=on,
                found=found,
                preconditions=[preconditions[key] for key in keys],
                models=list(dict.fromkeys(name for name, _ in keys)),
                **options,
                **about,
            )
        )

    drawn = {
        key: np.concatenate([result["scores"][None], tables.redrawn(result)])
        for key, result in results.items()
    }
    out = {key: tables.standing_out(scores, (1, 2)) for key, scores in drawn.items()}
    for key, result in results.items():
        on, frame, margin = (
            ", ".join(key),
            tables.intervals(result),
            NO_EFFECT * abs(result["seat"]),
        )
        near = stats.wilson((frame.low > -margin) & (frame.high < margin))
        say(
            "heads-near-zero",
            near,
            on,
            f"{near:.0%} of the heads within {NO_EFFECT:.0%} of |SEAT|",
            [key],
        )
        left, right = (tables.spread(n[0], n[1:], unit="heads") for n in out[key])
        say("heads-right-tail", right, on, f"{right:.0f}, and {left:.0f} to the left", [key])
        layers = tables.layers_with_heads(frame, margin)
        say(
            "heads-all-layers",
            layers,
            on,
            f"{layers.value:.0f} of {layers.n} layers have more than chance explains; "
            f"{(frame.low > 0).sum()} heads, {0.025 * len(frame):.1f} expected",
            [key],
            threshold=layers.n,
        )
        share, random = tables.carried(result, SMALL)
        control = Control(
            "random biased heads", stats.Estimate(random, random, random), share - random
        )
        say(
            "heads-small-set",
            share,
            on,
            f"{share:.0%} of the gradient, at random {random:.0%}"
            if share.has_interval
            else "heads called biased on one half are not on the other",
            [key],
            variant="gradient",
            control=control,
        )
    for name, result in ablations.items():
        share = tables.carried_by_ablation(result, SMALL)
        say(
            "heads-small-set",
            share,
            f"{name}, gender",
            f"{share:.0%} of what removing heads one by one does",
            [(name, "gender")],
            variant="ablation",
        )
    both = [(decoder, "gender"), (encoder, "gender")]
    theirs, berts = (out[key][0] for key in both)
    more = theirs - berts
    say(
        "heads-gpt2-negative",
        tables.spread(more[0], more[1:], unit="heads"),
        "gender",
        f"{theirs[0]} against {berts[0]}",
        both,
    )
    for name in (encoder, decoder):
        key, (n_layers, n_heads) = (name, "race"), results[name, "race"]["scores"].shape
        top = min(10, n_layers * n_heads)
        places = np.argsort(-drawn[key].reshape(len(drawn[key]), -1), axis=1, kind="stable")[
            :, :top
        ]
        upper = (places // n_heads >= n_layers / 2).sum(1)
        count, random = (
            tables.spread(upper[0], upper[1:], unit="heads"),
            top * (n_layers // 2) / n_layers,
        )
        control = Control(
            "as many random heads", stats.Estimate(random, random, random), count - random
        )
        say(
            "heads-race-higher",
            count,
            name,
            f"{count:.0f} of {top} in the upper half of the layers, {random:.1f} at random",
            [key],
            control=control,
        )
    theirs, berts = (results[name, "race"] for name in (decoder, encoder))
    say(
        "heads-race-gpt2",
        tables.seat_interval(theirs),
        decoder,
        f"{seat_text(theirs)}; {encoder} {seat_text(berts)}",
        [(encoder, "race")],
    )
    theirs, berts = (results[key] for key in both)
    change = abs(theirs["seat"]) - abs(berts["seat"])
    if "s" in theirs and "s" in berts:  # the same words are drawn for both
        change = tables.spread(
            change, np.abs(tables.seats(theirs)) - np.abs(tables.seats(berts)), unit="words"
        )
    say(
        "seat-order",
        change,
        f"{decoder} against {encoder}",
        f"{seat_text(theirs)}; {seat_text(berts)}",
        both[1:],
    )
    for name, result in ablations.items():
        share = tables.same_sign(result)
        say("gradient-sign", share, name, f"in {share:.0%} of {share.n} heads", [(name, "gender")])
    return verdicts


# ---- 03: the counter-stereotype test
def of_attention(
    tests: dict, shifts: dict, studies: dict, results: dict, example, **about
) -> list[Verdict]:
    """Fig. 3 and 4. The claim is about the contrast: by how much more biased heads react than regular ones, on the same
    sentences, both groups of people weighted alike. The paper's own tests of either group of heads are beside it.
    tests    {figure: {kind of heads: counter.test}};   shifts  {figure: {(variant, kind): counter.balanced}}
    studies  {figure: (model, bias)};   results  {figure: heads.measure}
    example  [2 (original, counter), n_layers, n_heads]: the normalised weight on the attribute in Fig. 3's sentence"""
    verdicts = []

    def say(id, key, estimate, found, **options):
        name, bias = studies[key]
        verdicts.append(
            judge(
                CLAIMS[id],
                estimate,
                on=f"{key} {name} {bias}",
                found=found,
                models=[name],
                preconditions=[
                    beyond_chance(results[key], bias),
                    *options.pop("preconditions", ()),
                ],
                **options,
                **about,
            )
        )

    for key, (name, bias) in studies.items():
        if len(tests[key]) < 2:
            lacking = "biased" if "biased" not in tests[key] else "regular"
            verdicts += [
                not_run(
                    CLAIMS[f"counter-{id}"],
                    f"no head is {lacking}",
                    f"{key} {name} {bias}",
                    models=[name],
                )
                for id in ("contrast", "biased", "regular")
            ]
            continue
        for variant in counter.READINGS:
            gap = shifts[key][variant, "contrast"]
            say(
                "counter-contrast",
                key,
                gap,
                f"{gap:+.2f} percentage points of {variant} attention",
                variant=variant,
            )
        for kind, tested in tests[key].items():
            row = tested.loc["sentence"]
            whole = (
                float(row["original"]) if kind == "regular" else 0.01
            )  # percent of what they give; points
            paper = stats.Estimate(
                *(float(row[end]) / whole for end in ("difference", "low", "high")), int(row["n"])
            )
            even = shifts[key]["raw", kind] * (0.01 / whole)
            unit = "of their attention" if kind == "regular" else "percentage points"
            said = f"t {row['t']:.1f}, p {tables.p_text(np.nan_to_num(row['p'], nan=1.0))}"  # nan: no difference
            say(
                f"counter-{kind}",
                key,
                paper,
                f"{said}; {paper:+.2f} {unit}",
                variant="paper's test",
            )
            say(f"counter-{kind}", key, even, f"{even:+.2f} {unit}", variant="balanced")
    change, scores = np.subtract(*example), results["4a"]["scores"]
    biased, regular = change[scores > 0], change[scores < 0]
    enough = min(len(biased), len(regular)) > 1
    falls = [stats.mean(side) if enough else stats.Estimate(np.nan) for side in (biased, regular)]
    apart = falls[0].value - falls[1].value
    reach = float(
        np.hypot(*(fall.high - fall.value for fall in falls))
    )  # Student's, of two independent means
    say(
        "counter-example",
        "4a",
        falls[0],
        f"{falls[0]:.3f} in {len(biased)} biased heads, {falls[1]:.3f} in "
        f"{len(regular)} regular ones",
        preconditions=[Precondition("heads", enough, "no two heads are biased and two regular")],
        control=Control(
            "regular heads", falls[1], stats.Estimate(apart, apart - reach, apart + reach)
        ),
    )
    return verdicts


# ---- 04: masking
def of_masking(
    masks: pd.DataFrame,
    changes: np.ndarray,
    held_out: dict | None,
    result: dict,
    encoder: str,
    **about,
) -> list[Verdict]:
    """Tables 1 and 3. Heads are judged on the half of the sentences that did not choose them, beside random ones.
    changes    tables.seat_changes;   held_out   the second that lpbs.top_k returns; None: LPBS is not run
    result     heads.measure of the encoder on gender: without a bias, or three heads for it, there is no case"""
    sizes, positive = (
        masking.sizes(result["scores"]),
        int((stats.settled(result["scores"]) > 0).sum()),
    )
    rows, verdicts = tables.named(masks, sizes), []
    preconditions = [
        beyond_chance(result, "gender"),
        Precondition(
            "biased heads",
            positive >= SEVERAL,
            f"{positive} heads have a positive score, not {SEVERAL}",
        ),
    ]

    def say(id, estimate, found="", **options):
        verdicts.append(
            judge(
                CLAIMS[id],
                estimate,
                on=options.pop("on", encoder),
                found=found or str(estimate),
                models=[encoder],
                preconditions=preconditions,
                **options,
                **about,
            )
        )

    def against(chosen, random):
        """A choice of heads and the same number at random: the change of SEAT, with its control."""
        moved, drawn, apart = (
            tables.change(changes, *which) for which in ((chosen,), (random,), (chosen, random))
        )
        return moved, Control(f"{len(random)} draws of random heads", drawn, apart)

    for id, name in (("mask-top3-seat", "Top-3"), ("mask-bottom3", "Bottom-3")):
        moved, control = against(rows[name], rows["Random-3"])
        say(id, moved, f"{moved}; beyond random heads {control.difference}", control=control)
    cost, random = tables.times(masks, rows["Top-3"]), tables.times(masks, rows["Random-3"])
    say(
        "mask-top3-pppl",
        cost,
        f"{tables.three(cost)} times; random heads {tables.digits(random.value):g}",
    )
    for name in ("Random-3", "Random-All"):
        say(
            "mask-random",
            tables.change(changes, rows[name]),
            on=f"{encoder}, {rows[name]['k'].iloc[0]} heads",
        )
    for name, variant in (("All", "all of positive score"), ("Dose", "the paper's dose")):
        on, between = (
            f"{encoder}, {rows[name]['k'].iloc[0]} heads",
            tables.times(masks, rows[name], rows["Top-3"]),
        )
        say(
            "mask-all-seat",
            tables.change(changes, rows[name], rows["Top-3"]),
            on=on,
            variant=variant,
        )
        say("mask-all-pppl", between, f"{tables.three(between)} times", on=on, variant=variant)
        beyond = tables.change(changes, rows[name], rows[f"Random-{name}"])
        say("mask-all-random", beyond, on=on, variant=f"equal K, {variant}")
    say(
        "mask-all-random",
        tables.change_at_equal_pppl(masks, changes, rows["Dose"]),
        on=f"{encoder}, {sizes[2]} heads",
        variant="equal PPPL, the paper's dose",
    )
    if held_out is None:
        verdicts += [
            not_run(CLAIMS[id], "the model has no LPBS", encoder)
            for id in ("mask-lpbs", "mask-lpbs-all")
        ]
    else:
        at = f"at K = {' and '.join(map(str, held_out['best']))}, chosen on the other words"
        say(
            "mask-lpbs",
            held_out["change"],
            f"{held_out['change']} {at}; random heads {held_out['random']}",
            control=Control("random heads", held_out["random"], held_out["difference"]),
        )
        say("mask-lpbs-all", held_out["all"], f"{held_out['all']} above that {at}")
    louder, random = (
        masks[(masks["strategy"] == name) & (masks["factor"] == masking.LOUDER)]
        for name in ("amplified", "random amplified")
    )
    if len(random):
        moved, control = against(louder, random)
        say(
            "mask-amplify",
            moved,
            f"{moved} at {masking.LOUDER:g} times; beyond random heads {control.difference}",
            control=control,
        )
    return verdicts


# ---- 05: GLUE
def of_glue(runs: pd.DataFrame, model: str, **about) -> list[Verdict]:
    """What the paper says of Table 2; where as many random heads were masked too, All has to cost more than these. Ours
    are over what the unmasked model has learned, a task once, by its first metric there; intervals are over seeds."""
    runs = runs[runs["row"].isin(tables.learned(runs))]
    if runs.empty:
        return [
            not_run(CLAIMS[id], "no task is done that the unmasked model has learned")
            for id in GLUE
        ]
    full, top, every, random3, random_all = (glue.MASKS | glue.RANDOM).values()
    first = runs[runs["row"].isin(runs.groupby("task")["row"].first())]
    scores, verdicts = first.pivot(index=["task", "seed"], columns="mask", values="score"), []
    for id, mask, random in (("glue-top3", top, random3), ("glue-all", every, random_all)):
        (change, tasks), control = _of_tasks(scores[mask] - scores[full]), None
        said = f"{change:+.3f}, {tasks}"
        if random in scores:
            cost, tasks = _of_tasks(scores[random] - scores[full])
            control = Control(random, cost, _of_tasks(scores[mask] - scores[random])[0])
            said += f"; {random} {cost:+.3f}, {tasks}"
        verdicts.append(
            judge(
                CLAIMS[id],
                change,
                found=said,
                models=[model],
                **about,
                control=control if id == "glue-all" else None,
            )
        )  # "comparable" needs none, it is shown
    return verdicts


def _of_tasks(changes: pd.Series) -> tuple[stats.Estimate, str]:
    """The mean change over seeds, of the tasks where every seed has one; and these tasks."""
    whole = changes.unstack("seed").dropna()
    return stats.mean(whole.mean()), ", ".join(whole.index)


# ---- 06: debiased models and LLaMA
def above_zero(folds: np.ndarray) -> np.ndarray:
    """For each head, whether the 95 % interval (Student's, over folds) of its score lies above 0."""
    if len(folds) < 2:
        return np.zeros(folds.shape[1:], dtype=bool)
    return folds.mean(0) > scipy_stats.t.ppf(0.975, len(folds) - 1) * folds.std(
        0, ddof=1
    ) / np.sqrt(len(folds))


def counted(hits: np.ndarray) -> stats.Estimate:
    """How many heads are so, with Wilson's interval, beyond the 2.5 % that chance makes so."""
    return stats.wilson(hits.ravel()) * hits.size - 0.025 * hits.size


def darker(result: dict, base: dict) -> list[np.ndarray]:
    """Of the slightly biased heads of the base (positive, within a quarter of its largest score), as one half of the
    sentences has them, whether they are darker now by the paired difference on the other half. Both ways round."""
    grown = result["folds"] - base["folds"]
    slight = [(before > 0) & (before < np.abs(before).max() / 4) for before in masking.halves(base)]
    return [above_zero(grown[1 - half :: 2])[slight[half]] for half in (0, 1)]


def turned(result: dict, base: dict) -> np.ndarray:
    """[1 + draws]: how many of the base's most anti-biased heads, as one half of the sentences has them, are positive
    in `result` on the other: the mean of both ways, as it is and with folds drawn again."""
    halves = [
        {"scores": own, "folds": result["folds"][half::2]}
        for half, own in enumerate(masking.halves(result))
    ]
    drawn = [
        np.concatenate([judging["scores"][None], tables.redrawn(judging)])
        for judging in halves[::-1]
    ]
    return np.mean(list(map(debiased.count_turned, drawn, masking.halves(base))), axis=0)


def of_debiased(results: dict, base: str, **about) -> list[Verdict]:
    """What the paper says of Fig. 5, for each debiased model: of biased heads only where SEAT is beyond chance."""
    if len(results) == 1:
        return [not_run(CLAIMS[id], "no debiased model at hand", short(base)) for id in DEBIASED]
    verdicts, start = [], results[base]
    precondition = beyond_chance(start, "gender")
    for name in (name for name in results if name != base):
        result, change = results[name], debiased.seat_change(start, results[name])

        def say(id, estimate, found, name=name, **options):
            verdicts.append(
                judge(
                    CLAIMS[id],
                    estimate,
                    on=short(name),
                    found=found,
                    models=[base, name],
                    **options,
                    **about,
                )
            )

        say("debiased-seat", change, f"|SEAT| changes by {change}", preconditions=[precondition])
        # on the same sentences
        now, before = ((stats.settled(one["folds"]) > 0).sum((1, 2)) for one in (result, start))
        fewer = stats.mean(now - before)
        say(
            "debiased-fewer",
            fewer,
            f"{fewer:+.1f} heads of positive score, over folds",
            preconditions=[precondition],
        )
        left = (tables.intervals(result).low > 0).to_numpy()
        say(
            "debiased-remain",
            counted(left),
            f"{left.sum()}, {0.025 * left.size:.1f} expected by chance",
            preconditions=[beyond_chance(result, "gender")],
        )
        both = darker(result, start)
        grown = counted(
            np.arange(n := max(map(len, both))) < round(np.mean([hits.sum() for hits in both]))
        )
        say(
            "debiased-darker",
            grown,
            f"{' and '.join(str(hits.sum()) for hits in both)} of "
            f"{' and '.join(str(len(hits)) for hits in both)}, {0.025 * n:.1f} expected by chance",
            preconditions=[precondition],
        )
        ours, same = turned(result, start), turned(start, start)
        estimate, other, apart = (
            tables.spread(n[0], n[1:], unit="heads") for n in (ours, same, ours - same)
        )
        say(
            "debiased-turned",
            estimate,
            f"{estimate:.1f} of {FOLLOWED}; the base's own on other sentences {other:.1f}",
            preconditions=[precondition],
            control=Control("the base's heads on other sentences", other, apart),
        )
    return verdicts


def of_chat(results: dict, names: list[str], **about) -> list[Verdict]:
    """What the paper says of LLaMA-2 and its chat model, for each pair."""
    verdicts = []
    for base, chat in debiased.pairs(names) or [("", "")]:
        missing = [name for name in (base, chat) if name not in results]
        where = f"{short(chat)} against {short(base) or 'its base'}" if chat else "LLaMA family"
        if missing:
            why = (
                f"{' and '.join(map(short, missing))} not at hand"
                if all(missing)
                else "its base model is not at hand"
                if chat
                else "no model of this family in the run"
            )
            verdicts += [not_run(CLAIMS[id], why, where) for id in CHAT]
            continue
        both = [results[name] for name in (base, chat)]
        most, fewer = debiased.pronounced(
            *(np.concatenate([one["scores"][None], tables.redrawn(one)]) for one in both)
        )
        change = tables.spread((fewer - most)[0], (fewer - most)[1:], unit="heads")
        verdicts += [
            judge(
                CLAIMS[id],
                estimate,
                on=where,
                found=found,
                models=[base, chat],
                preconditions=[beyond_chance(both[0], "gender")],
                **about,
            )
            for id, estimate, found in (
                (
                    "chat-seat",
                    debiased.seat_change(*both),
                    f"|SEAT| changes by {debiased.seat_change(*both)}",
                ),
                ("chat-heads", change, f"{fewer[0]} against {most[0]}, a change of {change:+.0f}"),
            )
        ]
    return verdicts
