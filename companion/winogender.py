"""Winogender's correlations (lib/winogender.py) beside what MultiBERTs published, as a figure."""

import pandas as pd

from companion import look, printed

# Whom a pronoun is about, as the legend says it: colour, and height in a model's row.
PRONOUNS = {
    "occupation": ("the pronoun is about the occupation", look.BAD, 0.13),
    "participant": ("about the other person", look.NEITHER, -0.13),
}


def published() -> tuple[float, float]:
    """(mean, standard deviation over 25 seeds) of MultiBERTs' correlation."""
    known = printed.reference().set_index("what")["value"]
    mean = known["Winogender occupation correlation, mean of 25 seeds"]
    deviation = known["Winogender occupation correlation, sd over seeds"]
    return float(mean), float(deviation)


def figure(correlations: pd.DataFrame, known: tuple[float, float]):
    """Correlations of log odds with labour statistics: a dot with its interval per model and
    pronoun, and a band for MultiBERTs.

    correlations   of `table`
    known          MultiBERTs' mean and standard deviation over seeds, of `published`
    """
    models = list(dict.fromkeys(correlations["model"]))
    drawing, (ax,) = look.panels(1, width=0.8 * look.PAGE, height=1.4 + 0.5 * len(models))
    mean, deviation = known
    label = "MultiBERTs' coreference score (another measure): mean and sd of 25 seeds"
    ax.axvspan(mean - deviation, mean + deviation, color=look.SKY, alpha=0.25, lw=0, label=label)
    ax.axvline(mean, color=look.SKY, lw=1)
    ax.axvline(0, color="black", lw=0.8, ls=":")
    for about, (label, color, shift) in PRONOUNS.items():
        rows = correlations[correlations["about"] == about].set_index("model")
        for place, name in enumerate(models):
            r = rows.loc[name, "r"]
            ax.errorbar(
                r.value,
                len(models) - 1 - place + shift,
                xerr=look.arms(*r),
                fmt="o",
                markersize=5,
                color=color,
                label=label if place == 0 else None,
            )
    ax.set_yticks(range(len(models)), models[::-1])
    ax.set(ylim=(-0.6, len(models) - 0.4), xlabel="Pearson's r with the share of women (BLS)")
    drawing.legend(loc="outside lower center", ncols=2, fontsize=8)
    return drawing
