"""The tests of Bias A-head's claims of notebooks 05 and 06, and the notebooks' tables of them.

The paper tests none of them, so all thresholds are this project's. The arguments are those of tables_tuned.py.
"""

import pandas as pd

from lib import printed
from lib.bias_a_head import debiased, glue, tables
from lib.bias_a_head.claims import CLAIMS
from lib.bias_a_head.debiased import FOLLOWED, short
from lib.bias_a_head.tables_tuned import PAPER, TABLE2, learned
from lib.engine import stats
from lib.verdict import Outcome, Verdict, judge, not_run

GLUE, DEBIASED, CHAT = (tuple(id for id in CLAIMS if id.startswith(kind)) for kind in ("glue-", "debiased-", "chat-"))


# ---- 05: GLUE

def of_glue(runs: pd.DataFrame, model: str) -> list[Verdict]:
    """What the paper says of Table 2.

    Ours are over what the unmasked model has learned, each task by its first metric there, so that a task with two does
    not count twice; intervals are over seeds.
    """
    runs = runs[runs["row"].isin(learned(runs))]
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


def glue_table(verdicts: list[Verdict]) -> pd.DataFrame:
    """claim, paper, ours, verdict; the paper's are over the first metric of each task, and over all metrics."""
    theirs, first = printed.printed(PAPER, TABLE2), [f"{task} {rule.names[0]}" for task, rule in glue.TASKS.items()]
    full, top, every = glue.MASKS.values()
    mean, above = theirs.loc[first].mean(), int((theirs[top] > theirs[every]).sum())
    paper = {"glue-top3": f"{mean[top] - mean[full]:+.3f}, 9 tasks",
             "glue-all": f"{mean[every] - mean[full]:+.3f}, 9 tasks", "glue-order": f"{above} of {len(theirs)}"}
    return pd.DataFrame([{"claim": CLAIMS[verdict.claim].short, "paper": paper[verdict.claim], "ours": verdict.found,
                          "verdict": str(verdict)} for verdict in verdicts])


# ---- 06: debiased models and LLaMA

def darker(result: dict, base: dict) -> int:
    """Slightly biased heads of the base (positive, within a quarter of its largest score) that are darker now: the two
    95 % intervals do not meet."""
    before, after = (tables.intervals(scored).sort_values(["layer", "head"], ignore_index=True)
                     for scored in (base, result))
    slight = (before.score > 0) & (before.score < before.score.abs().max() / 4)
    return int((slight & (after.low > before.high)).sum())


def of_debiased(results: dict, base: str, tested: dict) -> list[Verdict]:
    """What the paper says of Fig. 5, for each debiased model."""
    if len(results) == 1:
        return [not_run(CLAIMS[id], "no debiased model at hand", short(base)) for id in DEBIASED]
    verdicts, start = [], tables.intervals(results[base])
    positive, sure = int((start.score > 0).sum()), int((start.low > 0).sum())
    for name in (name for name in results if name != base):
        frame, change = tables.intervals(results[name]), debiased.seat_change(tested[base], tested[name])
        now, now_sure = int((frame.score > 0).sum()), int((frame.low > 0).sum())
        grown = darker(results[name], results[base])
        crossed = int(debiased.count_turned(results[name]["scores"], results[base]["scores"]))
        verdicts += [judge(CLAIMS[id], estimate, short(name), found, models=[base, name]) for id, estimate, found in (
            ("debiased-seat", change, f"|SEAT| changes by {change}"),
            ("debiased-fewer", now - positive, f"{now} against {positive}; surely biased {now_sure} against {sure}"),
            ("debiased-remain", now_sure, f"{now_sure} surely"),
            ("debiased-darker", grown, f"{grown} surely"),
            ("debiased-turned", crossed, f"{crossed} of {FOLLOWED}"))]
    return verdicts


def of_chat(results: dict, names: list[str]) -> list[Verdict]:
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
        before, after = (abs(results[name]["seat"]) for name in (base, chat))
        most, fewer, p = debiased.pronounced(results[base]["scores"], results[chat]["scores"])
        verdicts += [judge(CLAIMS[id], estimate, where, found, models=[base, chat]) for id, estimate, found in (
            ("chat-seat", after - before, f"|SEAT| {after:.2f} against {before:.2f}"),
            ("chat-heads", p, f"{fewer} against {most}, p {tables.p_text(p)}"))]
    return verdicts


def debiased_table(verdicts: list[Verdict]) -> pd.DataFrame:
    """claim, where, ours, verdict."""
    def shown(verdict):
        return f"{verdict.outcome}: {verdict.reason}" if verdict.outcome == Outcome.NOT_RUN else str(verdict)

    return pd.DataFrame([{"claim": CLAIMS[verdict.claim].short, "where": verdict.on, "ours": verdict.found,
                          "verdict": shown(verdict)} for verdict in verdicts])
