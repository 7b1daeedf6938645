"""Drawing what models make of other authors' sentences."""

import pandas as pd

from lib import look

# Whom a pronoun is about, as the legend says it: colour, and height in a model's row.
PRONOUNS = {
    "occupation": ("the pronoun is about the occupation", look.BAD, 0.13),
    "participant": ("about the other person", look.NEITHER, -0.13),
}


def winogender(table: pd.DataFrame, published: tuple[float, float], made_from: str):
    """Correlations of log odds with labour statistics: a dot with its interval per model and
    pronoun, and a band for MultiBERTs.

    table       of winogender.table
    published   MultiBERTs' mean and standard deviation over seeds
    """
    models = list(dict.fromkeys(table["model"]))
    figure, (ax,) = look.panels(1, width=0.8 * look.PAGE, height=1.4 + 0.5 * len(models))
    mean, deviation = published
    label = "MultiBERTs: mean and sd of 25 seeds"
    ax.axvspan(mean - deviation, mean + deviation, color=look.SKY, alpha=0.25, lw=0, label=label)
    ax.axvline(mean, color=look.SKY, lw=1)
    ax.axvline(0, color="black", lw=0.8, ls=":")
    for about, (label, color, shift) in PRONOUNS.items():
        rows = table[table["about"] == about].set_index("model")
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
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return look.sign(figure, _finding(table), made_from)


def _finding(table: pd.DataFrame) -> str:
    """How many models follow the labour statistics, and whether less where another is meant."""
    other = table[table["about"] == "participant"]
    own = table[table["about"] == "occupation"]
    n_models = len(own)
    follow = sum(r.is_above() for r in own["r"])
    follow_too = sum(r.is_above() for r in other["r"])
    less = sum(difference.is_above() for difference in own["less"])
    return (
        f"Where it is about the occupation, she follows the labour statistics in {follow} of "
        f"{n_models} models; where it is about somebody else, in {follow_too}, clearly less in "
        f"{less}"
    )
