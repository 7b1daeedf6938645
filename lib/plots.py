"""Figures that look like one family: one palette, titles that state the finding, the model's name in a corner.

Female is blue and male orange, as in the figures of Counteracts; the two, and the three greys beside them, keep apart
for the colour-blind (Okabe and Ito's set) and in print. Sizes are those of a paper's column.
"""

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns

FEMALE, MALE, NEITHER = "#0072B2", "#E69F00", "#7F7F7F"
ACCENT, GOOD, BAD = "#CC79A7", "#009E73", "#D55E00"
COLUMN, PAGE = 4.2, 8.4  # inches


def style():
    """Set the look of every figure; a notebook calls it once."""
    sns.set_theme(style="ticks", context="notebook", font_scale=.85, rc={
        "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left", "axes.titlesize": 11,
        "axes.titleweight": "bold", "axes.grid": True, "axes.axisbelow": True, "grid.color": "#E5E5E5",
        "grid.linewidth": .6, "legend.frameon": False, "figure.dpi": 110, "font.family": "DejaVu Sans"})


def panels(n: int = 1, width: float = COLUMN, height: float = 3.4, **options):
    """A figure of n panels side by side: (figure, list of axes)."""
    figure, axes = plt.subplots(1, n, figsize=(width * n, height), layout="constrained", squeeze=False, **options)
    return figure, list(axes[0])


def sign(figure, title: str, made_from: str):
    """The finding above the figure, and in its lower corner which model and data it comes from."""
    figure.suptitle(title, x=.01, ha="left", fontsize=12, fontweight="bold")
    figure.text(.995, -.01, made_from, ha="right", va="top", fontsize=7, color=NEITHER)
    return figure


def bars(ax, labels, values, title: str, color=NEITHER, format: str = "{:.2f}"):
    """Horizontal bars, first on top, each with its value."""
    places = range(len(labels))[::-1]
    drawn = ax.barh(places, values, color=color, height=.7)
    ax.bar_label(drawn, [format.format(v) for v in values], padding=3, fontsize=8)
    ax.set_yticks(places, labels)
    ax.set(title=title, xlim=(0, max(values) * 1.25))
    ax.grid(axis="y", visible=False)


def odds_by_share(ax, frame: pd.DataFrame, title: str):
    """Odds of she against he in a model (log2) over the share of women in each occupation, in percent.

    Columns of the frame: occupation, percent_women, log_odds. The line is least squares, its band the bootstrap's;
    the two occupations at either end are named.
    """
    sns.regplot(frame, x="percent_women", y="log_odds", ax=ax, seed=0, n_boot=500, color="#333333",
                scatter=False, line_kws={"linewidth": 1.4})
    ax.scatter(frame.percent_women, frame.log_odds, s=18, alpha=.9, edgecolor="white", linewidth=.4,
               c=[FEMALE if share > 50 else MALE for share in frame.percent_women])
    ax.axhline(0, color=NEITHER, linewidth=.8, linestyle=":")
    ax.axvline(50, color=NEITHER, linewidth=.8, linestyle=":")
    ends = frame.sort_values("log_odds").iloc[[0, 1, -2, -1]]
    for _, row in ends.iterrows():
        left = row.percent_women > 60  # or the name would run out of the frame
        ax.annotate(row.occupation, (row.percent_women, row.log_odds), fontsize=7.5, xytext=(-5 if left else 5, 3),
                    textcoords="offset points", ha="right" if left else "left")
    ax.set(title=title, xlabel="women in the occupation, percent", ylabel="log2 odds, she : he", xlim=(0, 100))


def fillers(ax, frame: pd.DataFrame, title: str):
    """The likeliest words for a blank (columns word, probability), pronouns in their gender's colour."""
    colors = [{"she": FEMALE, "he": MALE}.get(word.lower(), "#C8C8C8") for word in frame.word]
    bars(ax, frame.word, frame.probability, title, color=colors)
    ax.set_xlabel("probability")


def next_sentences(ax, frame: pd.DataFrame):
    """p(next) of each example's three continuations (columns context, label, probability): a row an example."""
    labels = {"stereotype": BAD, "anti_stereotype": GOOD, "unrelated": "#333333"}
    contexts = list(dict.fromkeys(frame.context))
    for (label, color), shift in zip(labels.items(), (.12, -.12, 0)):
        part = frame[frame.label == label]
        ax.scatter(part.probability, [-contexts.index(c) + shift for c in part.context], s=46, color=color,
                   label=label.replace("_", "-"), marker="X" if label == "unrelated" else "o", zorder=3)
    ax.set_yticks([-i for i in range(len(contexts))], contexts)
    ax.set(xlabel="p(next sentence)", xlim=(-.03, 1.03), ylim=(.6 - len(contexts), .6))
    ax.axvline(.5, color=NEITHER, linewidth=.8, linestyle=":")
    ax.legend(loc="upper center", bbox_to_anchor=(.35, -.22), ncols=3, handletextpad=.2)
