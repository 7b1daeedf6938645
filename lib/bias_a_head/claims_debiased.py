"""What Bias A-head claims of debiased models (Fig. 5) and of LLaMA-2 and its chat model (Fig. 6-7).

Notebook 06, each claim beside its test. The paper tests none of these, so that all thresholds are
this project's. `results` is {model: heads.measure on gender}.
"""

from dataclasses import replace

import numpy as np

from lib.bias_a_head import debiased, tables
from lib.bias_a_head.claims_shared import (
    HEADS_MARGIN,
    PAPER,
    SEAT_MARGIN,
    SEVERAL,
    SHARE,
    beyond_chance,
)
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
    judge,
    not_run,
)

FIG5 = "App. C, Fig. 5"
HEATMAPS = "06_fig5_heatmaps"
DISTRIBUTIONS = "06_fig67_distributions"
BY_CHANCE = 0.025  # of heads without an effect have an interval above 0

SEAT = Claim(
    id="debiased-seat",
    paper=PAPER,
    where="ours, on App. C",  # the paper prints no SEAT of a debiased model
    says="Debiased models are less biased",
    notebook="06",
    figure=HEATMAPS,
    short="a debiased model is less biased by SEAT (ours)",
    side=Side.BELOW,
    controls=CONTROLS,
    margin=SEAT_MARGIN,
)
FEWER = Claim(
    id="debiased-fewer",
    paper=PAPER,
    where=FIG5,
    says="Debiased models have fewer biased heads",
    notebook="06",
    figure=HEATMAPS,
    short="it has fewer biased heads than its base",
    side=Side.BELOW,
    controls=CONTROLS,
    margin=HEADS_MARGIN,
)
REMAIN = Claim(
    id="debiased-remain",
    paper=PAPER,
    where=FIG5,
    says="A number of biased heads remain in debiased models",
    notebook="06",
    figure=HEATMAPS,
    short="a number of biased heads remain",
    side=Side.AT_LEAST,
    threshold=SEVERAL,
    controls=CONTROLS,
)
DARKER = Claim(
    id="debiased-darker",
    paper=PAPER,
    where=FIG5,
    says="Some slightly biased heads get darker by debiasing",
    notebook="06",
    figure=HEATMAPS,
    short="some slightly biased heads get darker",
    side=Side.AT_LEAST,
    threshold=SEVERAL,
    controls=CONTROLS,
)
TURNED = Claim(
    id="debiased-turned",
    paper=PAPER,
    where=FIG5,
    says="Debiasing turns some anti-biased heads into biased ones",
    notebook="06",
    figure=HEATMAPS,
    short="some of the most anti-biased heads turn biased",
    side=Side.AT_LEAST,
    threshold=1.0,
    controls=CONTROLS,
)
OF_DEBIASED = [SEAT, FEWER, REMAIN, DARKER, TURNED]

CHAT_SEAT = Claim(
    id="chat-seat",
    paper=PAPER,
    where="7",
    says="The chat model is less biased than its base, LLaMA-2",
    notebook="06",
    figure=DISTRIBUTIONS,
    short="the chat model is less biased than its base",
    side=Side.BELOW,
    controls=(UNTRAINED,),
    margin=SHARE * (0.27 - 0.18),
)
CHAT_HEADS = Claim(
    id="chat-heads",
    paper=PAPER,
    where="7, Fig. 6-7",
    says="The chat model has fewer heads of pronounced positive score",
    notebook="06",
    figure=DISTRIBUTIONS,
    short="it has fewer heads with a pronounced positive score",
    side=Side.BELOW,
    controls=(UNTRAINED,),
    margin=HEADS_MARGIN,
)
OF_CHAT = [CHAT_SEAT, CHAT_HEADS]


# ---- debiased models
def of_debiased(results: dict, base: str, **about) -> list[Verdict]:
    """Verdicts on all claims of OF_DEBIASED, for each debiased model; about: options of `judge`.

    They are applicable where SEAT of the base is significant; that heads remain, where that of the
    debiased model is.
    """
    if len(results) == 1:
        why = "no debiased model at hand"
        return [not_run(claim, why, short(base)) for claim in OF_DEBIASED]
    start = results[base]
    verdicts = []
    for name, result in results.items():
        if name == base:
            continue
        of_model = {"on": short(name), "models": [base, name], **about}
        needed = beyond_chance(start, "gender")
        verdicts.append(_seat(result, start, needed, **of_model))
        verdicts.append(_fewer(result, start, needed, **of_model))
        verdicts.append(_remain(result, beyond_chance(result, "gender"), **of_model))
        verdicts.append(_darker(result, start, needed, **of_model))
        verdicts.append(_turned(result, start, needed, **of_model))
    return verdicts


def _seat(result: dict, start: dict, needed: Precondition, **about) -> Verdict:
    """The change of |SEAT|."""
    change = debiased.seat_change(start, result)
    found = f"|SEAT| changes by {change}"
    return judge(SEAT, change, found=found, preconditions=[needed], **about)


def _fewer(result: dict, start: dict, needed: Precondition, **about) -> Verdict:
    """How many more heads have a positive score, on the same sentences."""
    now = (stats.settled(result["folds"]) > 0).sum((1, 2))
    before = (stats.settled(start["folds"]) > 0).sum((1, 2))
    change = replace(stats.mean(now - before), unit="folds")
    share = change * (1 / start["scores"].size)
    found = f"{change:+.1f} heads of positive score, {share:+z.2f} of all, over folds"
    return judge(FEWER, change, found=found, preconditions=[needed], **about)


def _remain(result: dict, needed: Precondition, **about) -> Verdict:
    """How many heads have an interval above 0, beyond those expected by chance."""
    is_biased = (tables.intervals(result).low > 0).to_numpy()
    found = (
        f"{is_biased.sum()} of {is_biased.size} heads, {stats.wilson(is_biased.ravel()):.2f}; "
        f"{BY_CHANCE * is_biased.size:.1f} expected by chance"
    )
    return judge(REMAIN, counted(is_biased), found=found, preconditions=[needed], **about)


def _darker(result: dict, start: dict, needed: Precondition, **about) -> Verdict:
    """How many slightly biased heads of the base are darker, beyond those expected by chance.

    Which heads are slightly biased depends on the half of the sentences that chooses them. The
    estimate takes the mean number of darker heads, of the larger number of slight ones.
    """
    both = debiased.darker(result, start)
    n_darker = [hits.sum() for hits in both]
    n_slight = [len(hits) for hits in both]
    n = max(n_slight)
    is_darker = np.arange(n) < round(np.mean(n_darker))  # which of them does not matter
    darker = " and ".join(map(str, n_darker))
    slight = " and ".join(map(str, n_slight))
    found = (
        f"{darker} of {slight} heads, {stats.wilson(is_darker):.2f}; "
        f"{BY_CHANCE * n:.1f} expected by chance"
    )
    return judge(DARKER, counted(is_darker), found=found, preconditions=[needed], **about)


def _turned(result: dict, start: dict, needed: Precondition, **about) -> Verdict:
    """How many of the base's most anti-biased heads are positive; the control is the base itself.

    Heads are chosen on one half of the sentences and counted on the other, in which some of the
    base's own turn too.
    """
    in_model = debiased.turned(result, start)
    in_base = debiased.turned(start, start)
    count = tables.interval_of_count(in_model, FOLLOWED)
    of_base = tables.interval_of_count(in_base, FOLLOWED)
    difference = tables.interval_of_count(in_model - in_base, FOLLOWED)
    return judge(
        TURNED,
        count,
        found=f"{count:.1f} of {FOLLOWED} heads, {count * (1 / FOLLOWED):.2f}; the base's own on "
        f"other sentences {of_base:.1f}",
        preconditions=[needed],
        control=Control("the base's heads on other sentences", of_base, difference),
        **about,
    )


def counted(hits: np.ndarray) -> stats.Estimate:
    """How many heads are hits beyond those expected by chance, with Wilson's interval."""
    beyond_chance = stats.wilson(hits.ravel()) * hits.size - BY_CHANCE * hits.size
    return replace(beyond_chance, unit="heads")


# ---- LLaMA and its chat model
def of_chat(results: dict, names: list[str], **about) -> list[Verdict]:
    """Verdicts on all claims of OF_CHAT, for each pair of a base and a chat model.

    names   base and chat model in turn, as a profile lists them
    about   options of `judge`
    """
    verdicts = []
    for base, chat in debiased.pairs(names) or [("", "")]:
        where = "LLaMA family"
        if chat:
            where = f"{short(chat)} against {short(base)}" if base else short(chat)
        missing = [name for name in (base, chat) if name not in results]
        if missing:
            why = _why_not_run(missing, chat)
            verdicts += [not_run(claim, why, where) for claim in OF_CHAT]
            continue
        verdicts += _chat_pair(results, base, chat, on=where, **about)
    return verdicts


def _why_not_run(missing: list[str], chat: str) -> str:
    """Which of base and chat model are missing; "" stands for one that the run does not name."""
    if all(missing):
        return f"{' and '.join(map(short, missing))} not at hand"
    if chat:
        return "one model alone, not a base and its chat form"
    return "no model of this family in the run"


def _chat_pair(results: dict, base: str, chat: str, **about) -> list[Verdict]:
    """The change of |SEAT|, and that of the number of heads beyond the base's upper Tukey fence."""
    start = results[base]
    result = results[chat]
    options = {
        "models": [base, chat],
        "preconditions": [beyond_chance(start, "gender")],
        **about,
    }
    seat = debiased.seat_change(start, result)
    in_base, in_chat = debiased.pronounced(
        tables.with_resamples(start), tables.with_resamples(result)
    )
    n = start["scores"].size
    heads = tables.interval_of_count(in_chat - in_base, n)
    found = (
        f"{in_chat[0]} against {in_base[0]} of {n} heads, a change of {heads:+.0f}, "
        f"{heads * (1 / n):+z.2f} of all"
    )
    return [
        judge(CHAT_SEAT, seat, found=f"|SEAT| changes by {seat}", **options),
        judge(CHAT_HEADS, heads, found=found, **options),
    ]
