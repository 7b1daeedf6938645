"""What Bias A-head claims of masking heads (Tables 1 and 3), each claim beside its test.

Notebook 04. Heads are judged on the half of the sentences that did not choose them, beside as many
random ones.
"""

from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter

import numpy as np
import pandas as pd

from lib.bias_a_head import masking, tables
from lib.bias_a_head.claims_shared import PAPER, SEAT_MARGIN, SEVERAL, SHARE, beyond_chance
from lib.engine import stats
from lib.verdict import (
    CONTROLS,
    Asks,
    Claim,
    Control,
    Precondition,
    Side,
    Verdict,
    judge,
    not_run,
)

LITTLE = 0.05  # "little cost" in PPPL is at most this; the paper has .017
MUCH = 0.20  # "much worse" in PPPL is at least this; the paper has .38
# Of |SEAT|: a further fall that would count, half of what the paper's Top-3 lower it by.
FURTHER = 0.07
# SEAT and LPBS say something of a language model: claims on masks of many heads are judged where
# PPPL stays below so many times the full model's. The paper's dearest mask costs 1.4 times; a
# smaller model gets more room, but not where it guesses worse than a unigram. Post hoc: the PPPL
# of version 0.18 was known.
STILL_LANGUAGE = 3.0

TABLE1 = "App. A, Table 1"
TABLE3 = "App. B, Table 3"
PLANE = "04_table1_plane"
ALL_POSITIVE = "all of positive score"  # how the paper says which heads "All" are

TOP3_SEAT = Claim(
    id="mask-top3-seat",
    paper=PAPER,
    where=TABLE1,
    says="Masking the Top-3 lowers SEAT",
    notebook="04",
    figure=PLANE,
    short="Top-3 lowers SEAT",
    side=Side.BELOW,
    controls=CONTROLS,
    margin=SEAT_MARGIN,
)
TOP3_PPPL = Claim(
    id="mask-top3-pppl",
    paper=PAPER,
    where=TABLE1,
    says="Masking the Top-3 costs little PPPL",
    notebook="04",
    figure=PLANE,
    short="Top-3 costs little PPPL",
    side=Side.AT_MOST,
    threshold=1 + LITTLE,
    bounds=(0, np.inf),
    controls=CONTROLS,
    asks=Asks.COST,
)
# The Top-3 beside the better of Bottom-3 and All. Post hoc: the numbers of version 0.19 were known.
# The paper's Top-3 and All have one SEAT, 1.21, so that a tie is lowest and there is no margin.
LOWEST_SEAT = Claim(
    id="mask-lowest-seat",
    paper=PAPER,
    where=TABLE1,
    says="Of three targeted strategies the Top-3 has the lowest SEAT",
    notebook="04",
    figure=PLANE,
    short="Top-3 has the lowest SEAT of Top-3, Bottom-3 and All",
    side=Side.AT_MOST,
    controls=CONTROLS,
)
LOWEST_PPPL = Claim(
    id="mask-lowest-pppl",
    paper=PAPER,
    where=TABLE1,
    says="Of three targeted strategies the Top-3 has the lowest PPPL",
    notebook="04",
    figure=PLANE,
    short="Top-3 has the lowest PPPL of Top-3, Bottom-3 and All",
    side=Side.BELOW,
    threshold=1.0,
    controls=CONTROLS,
    asks=Asks.COST,
)
BOTTOM3 = Claim(
    id="mask-bottom3",
    paper=PAPER,
    where=TABLE1,
    says="Masking the Bottom-3 raises SEAT",
    notebook="04",
    figure=PLANE,
    short="Bottom-3 raises SEAT",
    controls=CONTROLS,
    margin=SEAT_MARGIN,
)
RANDOM = Claim(
    id="mask-random",
    paper=PAPER,
    where=TABLE1,
    says="Masking random heads raises SEAT",
    notebook="04",
    figure=PLANE,
    short="Random heads raise SEAT",
    controls=CONTROLS,
    margin=SEAT_MARGIN,
)
ALL_SEAT = Claim(
    id="mask-all-seat",
    paper=PAPER,
    where=TABLE1,
    says="Masking all biased heads lowers SEAT no further than the Top-3",
    notebook="04",
    figure=PLANE,
    short="All lowers SEAT no further than Top-3",
    side=Side.AT_LEAST,
    threshold=-FURTHER,
    controls=CONTROLS,
    asks=Asks.NO_EFFECT,  # none beyond the Top-3
    main=ALL_POSITIVE,
)
ALL_PPPL = Claim(
    id="mask-all-pppl",
    paper=PAPER,
    where=TABLE1,
    says="Masking all biased heads makes PPPL much worse",
    notebook="04",
    figure=PLANE,
    short="All has a much worse PPPL than Top-3",
    side=Side.AT_LEAST,
    threshold=1 + MUCH,
    bounds=(0, np.inf),
    controls=CONTROLS,
    asks=Asks.COST,
    main=ALL_POSITIVE,
)
ALL_RANDOM = Claim(
    id="mask-all-random",
    paper=PAPER,
    where="ours",
    says="Masking all biased heads lowers SEAT by more than masking random ones",
    notebook="04",
    figure="04_curves",
    short="All lowers SEAT more than random heads (ours)",
    side=Side.BELOW,
    controls=CONTROLS,
    margin=SEAT_MARGIN,
    main=f"equal K, {ALL_POSITIVE}",
)
LPBS = Claim(
    id="mask-lpbs",
    paper=PAPER,
    where=TABLE3,
    says="Masking top heads can lower LPBS too",
    notebook="04",
    figure="04_table3_curves",
    short="Masking top heads lowers LPBS",
    side=Side.BELOW,
    controls=CONTROLS,
    margin=SHARE * (1.20 - 0.87),  # the means of Table 3 at K = 0 and 35, its lowest
)
LPBS_ALL = Claim(
    id="mask-lpbs-all",
    paper=PAPER,
    where=TABLE3,
    says="Masking all of them does not give the lowest LPBS",
    notebook="04",
    figure="04_table3_curves",
    short="All does not give the lowest LPBS",
    controls=CONTROLS,
    margin=SHARE * (1.06 - 0.87),  # the means of Table 3 at All and K = 35
)
AMPLIFY = Claim(
    id="mask-amplify",
    paper=PAPER,
    where="9",
    says="Amplifying anti-biased heads may lower the bias (a conjecture)",
    notebook="04",
    figure="04_amplified",
    short="Amplifying the Bottom-3 lowers SEAT (conjecture)",
    side=Side.BELOW,
    controls=CONTROLS,
    margin=SEAT_MARGIN,
)
OF_MASKING = [
    TOP3_SEAT,
    TOP3_PPPL,
    LOWEST_SEAT,
    LOWEST_PPPL,
    BOTTOM3,
    RANDOM,
    ALL_SEAT,
    ALL_PPPL,
    ALL_RANDOM,
    LPBS,
    LPBS_ALL,
    AMPLIFY,
]


@dataclass(frozen=True)
class Masked:
    """What was measured of a model under masks, and how it is judged."""

    encoder: str
    masks: pd.DataFrame  # of masking.measure
    changes: np.ndarray  # of tables.seat_changes
    sizes: tuple[int, int, int]  # of masking.sizes
    preconditions: list[Precondition]
    about: dict = field(default_factory=dict)  # options of `judge`

    @cached_property
    def rows(self) -> dict[str, pd.DataFrame]:
        """The masks of Table 1 by their names there."""
        return tables.rows_by_name(self.masks, self.sizes)

    def on(self, name: str) -> str:
        """The encoder and how many heads the row of Table 1 masks."""
        n_heads = self.rows[name]["k"].iloc[0]
        return f"{self.encoder}, {n_heads} heads"

    def change(self, rows: pd.DataFrame, less: pd.DataFrame | None = None) -> stats.Estimate:
        """The mean change of |SEAT| under some masks, minus that under the masks `less`."""
        return tables.mean_change(self.changes, rows, less)

    def speaks(self, times: float) -> Precondition:
        """Whether a model whose PPPL is so many times the full one's still models language."""
        why = f"PPPL is {tables.three_digits(times):g} times the full model's"
        return Precondition("language", times < STILL_LANGUAGE, why)

    def speaks_under(self, name: str) -> Precondition:
        """The same of the masks of a row of Table 1."""
        return self.speaks(tables.pppl_ratio(self.masks, self.rows[name]).value)

    def judged(
        self, claim: Claim, estimate: stats.Estimate, *needed: Precondition, **options
    ) -> Verdict:
        """A verdict; unless told otherwise it says the estimate, and is on the encoder."""
        texts = {"on": self.encoder, "found": str(estimate)} | options
        return judge(
            claim,
            estimate,
            models=[self.encoder],
            preconditions=[*self.preconditions, *needed],
            **texts,
            **self.about,
        )

    def beside_random(
        self, claim: Claim, chosen: pd.DataFrame, random: pd.DataFrame, at: str = ""
    ) -> Verdict:
        """A verdict on the change of SEAT under chosen masks, with random ones as its control."""
        moved = self.change(chosen)
        control = Control(
            name=f"{len(random)} draws of random heads",
            estimate=self.change(random),
            difference=self.change(chosen, random),
        )
        found = f"{moved}{at}; beyond random heads {control.difference}"
        return self.judged(claim, moved, found=found, control=control)


def of_masking(
    masks: pd.DataFrame,
    changes: np.ndarray,
    held_out: dict | None,
    result: dict,
    encoder: str,
    **about,
) -> list[Verdict]:
    """Verdicts on all claims of OF_MASKING.

    changes    tables.seat_changes
    held_out   the second value of lpbs.top_k (keys: see lpbs.held_out); None: LPBS is not run
    result     heads.measure of the encoder on gender: the claims are not applicable unless SEAT is
               significant and SEVERAL heads have a positive score
    about      options of `judge`
    """
    n_positive = int((stats.settled(result["scores"]) > 0).sum())
    enough_heads = Precondition(
        name="biased heads",
        is_met=n_positive >= SEVERAL,
        why=f"{n_positive} heads have a positive score, not {SEVERAL}",
    )
    measured = Masked(
        encoder=encoder,
        masks=masks,
        changes=changes,
        sizes=masking.sizes(result["scores"]),
        preconditions=[beyond_chance(result, "gender"), enough_heads],
        about=about,
    )
    return [
        *_three_heads(measured),
        *_best_of_three(measured),
        *_random_heads(measured),
        *_all_heads(measured),
        *_lpbs(measured, held_out),
        *_amplified(measured),
    ]


def _three_heads(measured: Masked) -> list[Verdict]:
    """The Top-3 and the Bottom-3."""
    rows = measured.rows
    random = rows["Random-3"]
    cost = tables.pppl_ratio(measured.masks, rows["Top-3"])
    of_random = tables.pppl_ratio(measured.masks, random)
    found = f"{tables.ratio_text(cost)} times; random heads {tables.number_text(of_random.value)}"
    return [
        measured.beside_random(TOP3_SEAT, rows["Top-3"], random),
        measured.beside_random(BOTTOM3, rows["Bottom-3"], random),
        measured.judged(TOP3_PPPL, cost, found=found),
    ]


def _best_of_three(measured: Masked) -> list[Verdict]:
    """The Top-3 against whichever of Bottom-3 and All is better: by SEAT, and by PPPL."""
    top, *others = (measured.rows[name] for name in ("Top-3", "Bottom-3", "All"))
    value = attrgetter("value")
    seat = max((measured.change(top, other) for other in others), key=value)
    cost = max((tables.pppl_ratio(measured.masks, top, other) for other in others), key=value)
    return [
        measured.judged(LOWEST_SEAT, seat, measured.speaks_under("All")),
        measured.judged(LOWEST_PPPL, cost, found=f"{tables.ratio_text(cost)} times"),
    ]


def _random_heads(measured: Masked) -> list[Verdict]:
    """As many random heads as the Top-3, and as "All"."""
    verdicts = []
    for name in ("Random-3", "Random-All"):
        change = measured.change(measured.rows[name])
        needed = measured.speaks_under(name)
        verdicts.append(measured.judged(RANDOM, change, needed, on=measured.on(name)))
    return verdicts


def _all_heads(measured: Masked) -> list[Verdict]:
    """All biased heads: those of positive score, or as large a share of all heads as the paper's.

    They are compared with the Top-3, with as many random heads, and with random heads that cost as
    much PPPL.
    """
    rows = measured.rows
    verdicts = []
    for name, variant in (("All", ALL_POSITIVE), ("Dose", "the paper's dose")):
        on = measured.on(name)
        needed = measured.speaks_under(name)
        further = measured.change(rows[name], rows["Top-3"])
        verdicts.append(measured.judged(ALL_SEAT, further, needed, on=on, variant=variant))
        cost = tables.pppl_ratio(measured.masks, rows[name], rows["Top-3"])
        found = f"{tables.ratio_text(cost)} times"
        verdicts.append(measured.judged(ALL_PPPL, cost, found=found, on=on, variant=variant))
        beyond = measured.change(rows[name], rows[f"Random-{name}"])
        beside = f"equal K, {variant}"
        verdicts.append(measured.judged(ALL_RANDOM, beyond, needed, on=on, variant=beside))
    beyond = tables.change_at_equal_pppl(measured.masks, measured.changes, rows["Dose"])
    _, _, dose = measured.sizes
    verdicts.append(
        measured.judged(
            ALL_RANDOM,
            beyond,
            measured.speaks_under("Dose"),
            on=f"{measured.encoder}, {dose} heads",
            variant="equal PPPL, the paper's dose",
        )
    )
    return verdicts


def _lpbs(measured: Masked, held_out: dict | None) -> list[Verdict]:
    """Mean |LPBS| (an effect size), judged on the words that did not choose the best K."""
    if held_out is None:
        why = "the model has no LPBS"
        return [not_run(claim, why, measured.encoder) for claim in (LPBS, LPBS_ALL)]
    sizes = " and ".join(map(str, held_out["best"]))
    at = f"at K = {sizes}, chosen on the other words"
    change = held_out["change"]
    random = held_out["random"]
    above = held_out["all"]
    costs = []
    for k in held_out["best"]:
        times = tables.pppl_ratio_at(measured.masks, measured.sizes, k)
        costs.append(measured.speaks(times))
    lowers = measured.judged(
        LPBS,
        change,
        *costs,
        found=f"{change} {at}; random heads {random}",
        control=Control("random heads", random, held_out["difference"]),
    )
    needed = measured.speaks_under("All")
    return [lowers, measured.judged(LPBS_ALL, above, needed, found=f"{above} above that {at}")]


def _amplified(measured: Masked) -> list[Verdict]:
    """The Bottom-3 amplified, where random heads were too."""
    masks = measured.masks
    louder = masks[masks["factor"] == masking.LOUDER]
    chosen = louder[louder["strategy"] == "amplified"]
    random = louder[louder["strategy"] == "random amplified"]
    if not len(random):
        return []
    at = f" at {masking.LOUDER:g} times"
    return [measured.beside_random(AMPLIFY, chosen, random, at)]
