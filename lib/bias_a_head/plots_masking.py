"""Figures of notebook 04: Table 1 on a plane, Table 3 as curves, and what goes beyond the paper.

Titles are made from the numbers, so that they state what was found whichever model was measured.
"""

import pandas as pd
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from lib import look as plots
from lib.bias_a_head import lpbs

STRATEGIES = {"top": plots.BAD, "bottom": plots.GOOD, "random": plots.PALE, "amplified": plots.GOOD}
LABELS = {"top": "top heads masked", "bottom": "bottom heads masked", "random": "random heads masked",
          "amplified": "bottom heads amplified"}


def plane(found: pd.DataFrame, made_from: str, k: int = 3):
    """Table 1 on a plane, PPPL across and SEAT up: on the left k heads masked, on the right as many as "All" masks."""
    found = found[found["strategy"] != "amplified"]
    sizes = sorted({k, found.loc[found["strategy"] == "top", "k"].max()})
    figure, axes = plots.panels(2)
    titles = (f"{sizes[0]} heads masked", f"All: {sizes[-1]} heads masked")
    for ax, size, title in zip(axes, sizes, titles):
        for strategy in ("random", "bottom", "top"):
            part = found[(found["strategy"] == strategy) & (found["k"] == size)]
            ax.scatter(part["pppl"], part["seat"], color=STRATEGIES[strategy], s=46, edgecolor="white", zorder=3,
                       label=LABELS[strategy])
        full = found[found["strategy"] == "full"]
        ax.scatter(full["pppl"], full["seat"], color="black", marker="*", s=130, zorder=4, label="full model")
        ax.axhline(full["seat"].iloc[0], color="black", linewidth=.8, linestyle=":")
        ax.set(title=title, xlabel="PPPL, log scale: right is worse", ylabel="|SEAT|: lower is less biased")
        log_ticks(ax.xaxis)
        ax.margins(.12)
    axes[0].legend(fontsize=7.5, loc="best")
    full, top = (found[found["strategy"] == name].iloc[0] for name in ("full", "top"))
    return plots.sign(figure, f"Masking the top {k} heads moves SEAT from {full['seat']:.2f} to {top['seat']:.2f}, "
                              f"PPPL from {full['pppl']:.1f} to {top['pppl']:.1f}", made_from)


def lpbs_curves(curve: pd.DataFrame, printed: pd.DataFrame, made_from: str):
    """Table 3: LPBS over the number of top heads masked, a panel a test, the paper's numbers as crosses."""
    figure, axes = plots.panels(3, width=3.4, height=3.5, sharey=True)
    last = curve["k"].max()
    for ax, test in zip(axes, lpbs.TESTS):
        part = curve[curve["test"] == test]
        ax.fill_between(part["k"], part["low"], part["high"], color=plots.BAD, alpha=.15, linewidth=0)
        ax.plot(part["k"], part["corrected"], color=plots.BAD, marker="o", markersize=3.5, label="corrected prior")
        ax.plot(part["k"], part["published"], color=plots.NEITHER, linestyle="--", label="published notebook's prior")
        theirs = printed[(printed["table"] == 3) & (printed["column"] == test)].replace({"row": {"All": "45"}})
        theirs = theirs[theirs["row"].str.isdigit()]
        ax.plot(theirs["row"].astype(int), theirs["value"], "x", color="black", markersize=5, label="paper, BERT-base")
        ax.axhline(0, color="black", linewidth=.8, linestyle=":")
        best = part.loc[part["corrected"].round(2).abs().idxmin(), "k"]
        ax.set(title=f"{test}\nnearest to 0 at K = {best}", xlabel=f"top heads masked (all: {last})")
    axes[0].set_ylabel("LPBS effect size")
    axes[1].legend(fontsize=7, loc="lower left")
    wide = curve.pivot(index="k", columns="test", values="corrected")[list(lpbs.TESTS)].round(2) + 0.0  # no -0.00
    best = wide.abs().idxmin()
    lows = ", ".join(f"{wide.loc[best[test], test]:.2f}" for test in wide)
    return plots.sign(figure, f"With some top heads masked LPBS falls to {lows}; masking all is best in "
                              f"{(best == last).sum()} of {len(best)} tests", made_from)


def curves(found: pd.DataFrame, made_from: str):
    """SEAT and PPPL over the number of heads masked; random draws as points, their mean as a line.

    PPPL is over the sample of lines that every mask was read on; likewise in `amplified`.
    """
    figure, axes = plots.panels(2)
    full = found[found["strategy"] == "full"]
    for strategy in ("random", "bottom", "top"):
        part = pd.concat([full, found[found["strategy"] == strategy]])
        for ax, column in zip(axes, ("seat", "pppl_sample")):
            mean = part.groupby("k")[column].mean()
            ax.plot(mean.index, mean, color=STRATEGIES[strategy], marker="o", markersize=4, label=LABELS[strategy])
            if strategy == "random":
                ax.scatter(part["k"], part[column], color=STRATEGIES[strategy], s=10, alpha=.5)
    axes[0].set(title="Bias", xlabel="heads masked", ylabel="|SEAT|", ylim=(0, None))
    axes[1].set(title="Language", xlabel="heads masked", ylabel="PPPL, log scale")
    log_ticks(axes[1].yaxis)
    axes[0].legend(fontsize=7.5, loc="lower left")
    masked = found[found["strategy"].isin(["top", "bottom", "random"])]
    middle = sorted(masked["k"].unique())[-2]
    at = masked[masked["k"] == middle].groupby("strategy")["seat"].mean()
    return plots.sign(figure, f"With {middle} heads masked SEAT is {at['top']:.2f} (top), {at['bottom']:.2f} (bottom) "
                              f"and {at['random']:.2f} (random); full {full['seat'].iloc[0]:.2f}", made_from)


def amplified(found: pd.DataFrame, made_from: str, k: int = 3):
    """The k bottom heads multiplied by 0 (masked), by 1 (the full model) and by more; masking the top k beside it."""
    is_masked = (found["strategy"] == "bottom") & (found["k"] == k)
    full = found[found["strategy"] == "full"].assign(factor=1.0)
    rows = pd.concat([found[is_masked], full, found[found["strategy"] == "amplified"]])
    full, top = full.iloc[0], found[(found["strategy"] == "top") & (found["k"] == k)].iloc[0]
    figure, axes = plots.panels(2)
    for ax, column, label in zip(axes, ("seat", "pppl_sample"), ("|SEAT|", "PPPL")):
        ax.plot(rows["factor"], rows[column], color=STRATEGIES["amplified"], marker="o", label=f"bottom {k} times this")
        ax.axhline(full[column], color="black", linewidth=.8, linestyle=":", label="full model")
        ax.axhline(top[column], color=STRATEGIES["top"], linewidth=1, linestyle="--", label=f"top {k} masked")
        ax.set(xlabel="factor on the bottom heads: 0 masked, 1 full", ylabel=label)
    axes[0].set_title("Bias")
    axes[1].set_title("Language")
    axes[1].legend(fontsize=7.5)
    stronger = rows[rows["factor"] > 1]
    cheap = stronger[stronger["pppl_sample"] <= top["pppl_sample"]]
    shown = cheap.iloc[-1] if len(cheap) else stronger.iloc[0]  # the strongest that costs no more than masking does
    return plots.sign(figure, f"Bottom {k} heads times {shown['factor']:g}: SEAT {shown['seat']:.2f}, PPPL "
                              f"{shown['pppl_sample']:.1f}; top {k} masked: {top['seat']:.2f}, "
                              f"{top['pppl_sample']:.1f}", made_from)


def log_ticks(axis):
    """A logarithmic axis with plain numbers, and enough of them, whether it spans a doubling or a thousandfold."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    steps = (1,) if high / low > 20 else (1, 2, 5) if high / low > 4 else (1, 1.1, 1.2, 1.3, 1.5, 2, 3, 5)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.set_minor_formatter(NullFormatter())
