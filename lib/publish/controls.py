"""Control models: what networks that cannot have an effect show of it, beside what a run shows.

Two runs are controls. `null` is untrained networks, ten draws (figures/null is the first,
figures/null/draws/K another); `balanced` is a BERT trained on text whose gender words and first
names were swapped at random. A test of a run is held against the control's test of the same claim,
on a model of the same family: the difference has to lie on the claim's side (lib/verdict.py). On
the papers' data it is the control's test on the same data (null-real, balanced-real), where it was
made.

A control was not run for a model whose family has no such network, or cannot be told. It says
nothing where it has no value, is the same in every draw, or could not have shown the effect, since
it cannot do the task. The gender-swapped model also says nothing where it has the bias itself.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lib import CompanionError, results, verdict
from lib.engine import models, stats
from lib.engine.stats import Estimate
from lib.publish import records
from lib.publish.papers import CLAIMS, RETRAININGS
from lib.verdict import APPLICABLE, GENDER_SWAPPED, NO_VALUE, UNTRAINED, Control, Verdict

NOT_RUN = "control not run"
# Preconditions that ask whether the bias is there; all others ask whether a model can do the task.
OF_BIAS = ("SEAT of gender", "SEAT of race", "biased", "a preference in the base prompts")
NAMES = {UNTRAINED: "untrained networks", GENDER_SWAPPED: "the gender-swapped model"}


@dataclass(frozen=True)
class Controls:
    """The tests of control runs: by control and data ("null", "null-real"), those of each draw."""

    draws: dict[str, list[list[Verdict]]]

    @classmethod
    def stored(cls, folders: dict[str, Path] | None = None) -> "Controls":
        """Those of the control runs among some folders, of all stored runs where left out."""
        draws = {}
        for run, folder in (folders or results.runs()).items():
            control = records.control_of(run)
            if not control:
                continue
            for draw in [folder, *sorted(folder.glob("draws/*"))]:
                tests = [one for one in records.stored(run, draw) if _is_of(control, one)]
                draws.setdefault(control + _data_of(run), []).append(tests)
        return cls(draws)

    def beside(self, tests: list[Verdict], run: str = "") -> list[Verdict]:
        """The tests of a run, each held against the control models of its claim."""
        held = []
        seen = Counter()
        for one in tests:
            place = (one.claim, _families(one), _is_on_race(one), one.variant)
            claim = CLAIMS[one.claim]
            found = [self._control(name, run, one, seen[place]) for name in claim.controls]
            seen[place] += 1
            held.append(verdict.beside_models(claim, one, found))
        return held

    def _counterparts(self, name: str, one: Verdict, order: int) -> list[Verdict]:
        """The tests of a control's draws that correspond to the `order`th test of its kind."""
        found = [_counterpart(one, order, tests) for tests in self.draws.get(name, [])]
        return [counterpart for counterpart in found if counterpart is not None]

    def _control(self, name: str, run: str, one: Verdict, order: int) -> Control:
        """What a control shows in place of one test of a run, the `order`th of its kind."""
        counterparts = self._counterparts(name + _data_of(run), one, order)
        counterparts = counterparts or self._counterparts(name, one, order)
        idle = _why_idle(name, counterparts)
        if idle or one.estimate is None:
            nothing = Estimate(np.nan)
            return Control(NAMES[name], nothing, nothing, idle)
        able = [counterpart for counterpart in counterparts if not _unable(counterpart)]
        shown = _over_draws([counterpart.estimate for counterpart in able])
        return Control(NAMES[name], shown, stats.difference(one.estimate, shown))


def _data_of(run: str) -> str:
    """What marks controls on the data of a run: "-real" for the papers', "" for our sentences.

    The papers' models and the retrainings are measured on the papers' data alone, so that the names
    of their runs do not say it.
    """
    is_papers = "real" in run.split("-") or run.startswith(("paper", RETRAININGS))
    return "-real" if is_papers else ""


def _is_of(control: str, one: Verdict) -> bool:
    """Whether a test of a control's run is of the control itself, and has something to say."""
    if one.outcome not in APPLICABLE or one.estimate is None:
        return False
    if control == UNTRAINED:
        return all(models.draw_of(name) for name in one.models)
    return all(Path(name).name.startswith(GENDER_SWAPPED) for name in one.models)


def _counterpart(one: Verdict, order: int, tests: list[Verdict]) -> Verdict | None:
    """The control's test of the same claim, family and bias: of the same variant if it has it, or
    of the one that is the variant but for the sentences ("raw" of "raw, r/TheRedPill alone").
    """
    alike = []
    for other in tests:
        is_alike = other.claim == one.claim and _families(other) == _families(one)
        if is_alike and _is_on_race(other) == _is_on_race(one):
            alike.append(other)
    of_variant = [other for other in alike if other.variant == one.variant]
    of_variant = of_variant or [
        other for other in alike if other.variant and one.variant.startswith(f"{other.variant}, ")
    ]
    alike = of_variant or alike
    return alike[min(order, len(alike) - 1)] if alike else None


def _families(one: Verdict) -> tuple[str, ...]:
    """Of the models that a test is about."""
    return tuple(_family(str(name)) for name in one.models)


def _family(name: str) -> str:
    """A model's family: of one that goes by a name, by what the registry says; of a folder, by its
    config. "" where neither tells: no control is of this family.
    """
    bare = name.partition("@")[0]
    if bare in models.REGISTRY:
        return models.REGISTRY[bare].family
    if Path(name).name.startswith(GENDER_SWAPPED):
        return "bert"  # these all are
    for entry in models.REGISTRY.values():
        if entry.source == name:
            return entry.family
    try:
        return models.config_of(Path(name)).get("model_type") or ""
    except (OSError, CompanionError):  # no folder here: a model of the hub, or one that was removed
        return ""


def _is_on_race(one: Verdict) -> bool:
    """Words of race were not swapped: on race the gender-swapped model is no control."""
    return "race" in one.on


def _why_idle(control: str, tests: list[Verdict]) -> str:
    """Why a control's tests, one of each draw, say nothing; "" where they do."""
    if not tests:
        return NOT_RUN
    able = [one for one in tests if not _unable(one)]
    if all(np.isnan(one.estimate.value) for one in able or tests):
        return NO_VALUE
    if not able:
        return f"cannot show it ({_unable(tests[0])})"
    if control == GENDER_SWAPPED:
        if _is_on_race(tests[0]):
            return "words of race were not swapped"
        has_bias = [name for name in OF_BIAS if tests[0].preconditions.get(name)]
        return f"has the bias itself ({has_bias[0]})" if has_bias else ""
    ends = np.array([[*one.estimate] for one in able])
    is_pinned = len(able) > 1 and not np.nan_to_num(np.ptp(stats.settled(ends), axis=0)).any()
    return "the same in every draw" if is_pinned else ""


def _unable(one: Verdict) -> str:
    """The precondition of being able that a control does not meet; "" where it meets all."""
    for name, is_met in one.preconditions.items():
        if not is_met and name not in OF_BIAS:
            return f"{name}: not met"
    return ""


def _over_draws(estimates: list[Estimate]) -> Estimate:
    """The mean over draws with Student's interval; of one draw its own.

    Random networks react to items each in its own way, so that what items do is part of what
    differs between draws.
    """
    known = [one for one in estimates if not np.isnan(one.value)]
    return known[0] if len(known) == 1 else stats.mean([one.value for one in known])


def in_words(one: Verdict) -> str:
    """untrained networks: 2 % of it; the gender-swapped model: has the bias itself (...)"""
    parts = []
    for control in one.control_models or ():
        said = control.why_idle
        if not said:
            share = 100 * verdict.share_of(control, one.estimate)
            said = f"{share:z.0f} % of it" if np.isfinite(share) else f"{control.estimate:z.3g}"
        parts.append(f"{control.name}: {said}")
    return "; ".join(parts)
