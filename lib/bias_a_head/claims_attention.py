"""What Bias A-head claims of attention in the counter-stereotype test, each claim beside its test.

Notebook 03, Fig. 3 and 4. The claim is about the contrast: by how much more biased heads react than
regular ones, on the same sentences, with both groups of people weighted alike. The paper's own
tests of either group of heads are beside it.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from lib.bias_a_head import counter, tables
from lib.bias_a_head.claims_shared import PAPER, beyond_chance
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

# Of the attention on a word: what a regular head may change (Fig. 3's biased one has .56).
NEGLIGIBLE = 0.05
EXAMPLE_STUDY = "4a"  # the study whose model reads Fig. 3's sentence
FIG4 = "03_fig4a"
PAPERS_TEST = "paper's test"  # the variant that the paper describes
ALONE = "r/TheRedPill alone"  # beside the six subreddits: the one that the paper uses
# The claims have no margin: Fig. 3's weights are of another scale, and Fig. 4 prints t alone.

CONTRAST = Claim(
    id="counter-contrast",
    paper=PAPER,
    where="1, 5.2, 6, Fig. 4",
    says="The swap changes the attention of biased heads more than that of regular ones",
    notebook="03",
    figure=FIG4,
    short="biased heads react more than regular ones",
    controls=CONTROLS,
    main=counter.VARIANTS[0],
)
BIASED = Claim(
    id="counter-biased",
    paper=PAPER,
    where="5.2, 6, Fig. 4",
    says="Biased heads attend more to the stereotyped word",
    notebook="03",
    figure=FIG4,
    short="biased heads attend more to the stereotyped pair",
    controls=CONTROLS,
    main=PAPERS_TEST,
)
REGULAR = Claim(
    id="counter-regular",
    paper=PAPER,
    where="5.2, 6, Fig. 4",
    says="Regular heads do not",
    notebook="03",
    figure=FIG4,
    short="regular heads do not",
    side=Side.WITHIN,
    threshold=0.0,
    margin=NEGLIGIBLE,
    controls=CONTROLS,
    asks=Asks.NO_EFFECT,
    main=PAPERS_TEST,
)
EXAMPLE = Claim(
    id="counter-example",
    paper=PAPER,
    where="5.2, Fig. 3",
    says="In the running example biased heads look away from the swapped word, and regular ones do "
    "not",
    notebook="03",
    figure="03_fig3",
    short="in Fig. 3's sentence biased heads look away, regular ones do not",
    controls=CONTROLS,
)
OF_ATTENTION = [CONTRAST, BIASED, REGULAR, EXAMPLE]


@dataclass(frozen=True)
class Study:
    """One panel of Fig. 4: a model on a bias."""

    panel: str
    model: str
    bias: str
    result: dict  # of heads.measure

    @property
    def on(self) -> str:
        return f"{self.panel} {self.model} {self.bias}"

    def judged(self, claim: Claim, estimate: stats.Estimate, **options) -> Verdict:
        """The verdict on a claim that is applicable where SEAT is significant."""
        needed = [beyond_chance(self.result, self.bias), *options.pop("preconditions", ())]
        return judge(
            claim, estimate, on=self.on, models=[self.model], preconditions=needed, **options
        )


def of_attention(
    tests: dict, shifts: dict, studies: dict, results: dict, example, alone=({}, {}), **about
) -> list[Verdict]:
    """Verdicts on all claims of OF_ATTENTION.

    tests     {panel: {kind of heads: counter.test}}
    shifts    {panel: {(variant, kind of heads): counter.balanced}}
    studies   {panel: (model, bias)}
    results   {panel: heads.measure}
    example   [2 (original, counter), n_layers, n_heads]: the normalised weight on the attribute in
              Fig. 3's sentence
    alone     (tests, shifts) of the panels that were tested on the paper's subreddit ALONE too
    about     options of `judge`
    """
    verdicts = []
    for panel, (model, bias) in studies.items():
        study = Study(panel, model, bias, results[panel])
        if len(tests[panel]) < 2:
            verdicts += _not_run(study, tests[panel])
            continue
        verdicts += _both_kinds(study, tests[panel], shifts[panel], "", **about)
        if panel in alone[0]:
            verdicts += _both_kinds(study, alone[0][panel], alone[1][panel], f", {ALONE}", **about)
    verdicts.append(of_example(*studies[EXAMPLE_STUDY], results[EXAMPLE_STUDY], example, **about))
    return verdicts


def of_example(model: str, bias: str, result: dict, example: np.ndarray, **about) -> Verdict:
    """The verdict on Fig. 3's sentence; arguments as in `of_attention`."""
    return _example(Study(EXAMPLE_STUDY, model, bias, result), example, **about)


def _not_run(study: Study, tests: dict) -> list[Verdict]:
    """The verdicts where a kind of heads has no head."""
    lacking = "biased" if "biased" not in tests else "regular"
    verdicts = []
    for claim in (CONTRAST, BIASED, REGULAR):
        verdicts.append(not_run(claim, f"no head is {lacking}", study.on, models=[study.model]))
    return verdicts


def _both_kinds(study: Study, tests: dict, shifts: dict, of: str, **about) -> list[Verdict]:
    """The contrast, and either kind of heads; `of`: what is added to the names of the variants."""
    verdicts = _contrasts(study, shifts, of, **about)
    for kind, tested in tests.items():
        verdicts += _kind_of_heads(study, kind, tested, shifts["raw", kind], of, **about)
    return verdicts


def _contrasts(study: Study, shifts: dict, of: str, **about) -> list[Verdict]:
    """By how much more biased heads react than regular ones, under either variant of a weight."""
    verdicts = []
    for variant in counter.VARIANTS:
        gap = shifts[variant, "contrast"]
        found = f"{gap:+.2f} percentage points of {variant} attention"
        verdicts.append(study.judged(CONTRAST, gap, found=found, variant=variant + of, **about))
    return verdicts


def _kind_of_heads(
    study: Study, kind: str, tested: pd.DataFrame, shift: stats.Estimate, of: str, **about
) -> list[Verdict]:
    """What the swap does to one kind of heads: by the paper's test, and with groups weighted alike.

    Biased heads are judged in percentage points, regular ones relative to the attention that they
    give. Where more sentences are weighted alike than the paper's test has, the variant says so.
    """
    row = tested.loc["sentence"]
    if kind == "biased":
        claim = BIASED
        whole = 0.01
        unit = "percentage points"
    else:
        claim = REGULAR
        whole = float(row["original"])
        unit = "of their attention"
    paper = stats.Estimate(
        value=float(row["difference"]) / whole,
        low=float(row["low"]) / whole,
        high=float(row["high"]) / whole,
        n=int(row["n"]),
        unit="sentences",
    )
    balanced = shift * (0.01 / whole)
    variant = "balanced" if balanced.n <= paper.n else f"balanced, all {balanced.n:,} sentences"
    p = np.nan_to_num(row["p"], nan=1.0)  # nan: no difference
    of_paper = f"t {row['t']:.1f}, p {tables.p_text(p)}; {paper:+.2f} {unit}"
    of_balanced = f"{balanced:+.2f} {unit}"
    return [
        study.judged(claim, paper, found=of_paper, variant=PAPERS_TEST + of, **about),
        study.judged(claim, balanced, found=of_balanced, variant=variant + of, **about),
    ]


def _example(study: Study, example: np.ndarray, **about) -> Verdict:
    """By how much heads look away from the swapped word of Fig. 3, beside regular heads."""
    original, swapped = example
    fall = original - swapped
    scores = study.result["scores"]
    biased = fall[scores > 0]
    regular = fall[scores < 0]
    is_enough = min(len(biased), len(regular)) > 1
    if is_enough:
        of_biased = replace(stats.mean(biased), unit="heads")
        of_regular = stats.mean(regular)
    else:
        of_biased = of_regular = stats.Estimate(np.nan)
    # Student's interval of the difference of two independent means
    difference = of_biased.value - of_regular.value
    reach = float(np.hypot(of_biased.high - of_biased.value, of_regular.high - of_regular.value))
    apart = stats.Estimate(difference, difference - reach, difference + reach)
    needed = Precondition("heads", is_enough, "no two heads are biased and two regular")
    return study.judged(
        EXAMPLE,
        of_biased,
        found=f"{of_biased:.3f} in {len(biased)} biased heads, {of_regular:.3f} in "
        f"{len(regular)} regular ones",
        preconditions=[needed],
        control=Control("regular heads", of_regular, apart),
        **about,
    )
