"""Every figure is one of the family: its finding above it, its model in the corner, print that can be read; and colours
keep apart for the colour-blind."""

import io
import re
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from lib import CompanionError, look

# what a dichromat sees of linear red, green and blue (Machado, Oliveira and Fernandes 2009, severity 1)
DICHROMATS = {
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


@pytest.fixture(autouse=True)
def closed():
    look.style()
    yield
    plt.close("all")


def drawn(
    title="A finding in so many words", made_from="mini-bert, data mini", width=look.COLUMN, **label
):
    figure, (ax,) = look.panels(1, width)
    ax.plot([1, 2], color=look.GOOD)
    ax.set_xlabel("what is measured", **label)
    return look.sign(figure, title, made_from)


@pytest.mark.parametrize(
    "figure, named",
    [
        (lambda: drawn("Losses"), "no finding"),
        (lambda: look.panels(1)[0], "no finding"),
        (lambda: drawn("word " * 40), "title is too long"),
        (lambda: drawn(width=1.4 * look.PAGE), "too wide"),
        (lambda: drawn(made_from="another model"), "corner"),
        (lambda: drawn(fontsize=5), "too small"),
        (lambda: drawn(width=1.25 * look.PAGE, fontsize=6.5), "too small"),
    ],
)
def test_another_is_refused(figure, named):
    with pytest.raises(CompanionError, match=named):
        look.check(figure(), models=["mini-bert"])


def lab(linear):
    """CIE L*a*b* of linear sRGB."""
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    t = to_xyz @ np.clip(linear, 0, 1) / [0.9505, 1, 1.089]
    f = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eye", DICHROMATS)
def test_the_palette_keeps_apart_for_the_colour_blind(eye):
    """By 14 in L*a*b*, where 2 can just be told apart; female and male by 50."""
    seen = {}
    for color in (
        look.FEMALE,
        look.MALE,
        look.ACCENT,
        look.GOOD,
        look.BAD,
        look.SKY,
        look.PALE,
        "#000000",
    ):
        value = np.array(to_rgb(color))
        seen[color] = lab(
            DICHROMATS[eye]
            @ np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
        )
    apart = {pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]]) for pair in combinations(seen, 2)}
    assert min(apart.values()) > 14, min(apart, key=apart.get)
    assert np.linalg.norm(seen[look.FEMALE] - seen[look.MALE]) > 50


def test_no_line_of_a_title_ends_within_an_interval_or_a_name():
    title = "From mini-gpt2 to mini-gpt2-chat it falls by 0.20 [0.12, 0.28], 5 %, to mini-bert's"
    for width in (3, 4, 5, 6):
        figure = look.sign(look.panels(1, width)[0], title, "m")
        for part in ("0.20 [0.12, 0.28]", "5 %", "mini-gpt2-chat", "mini-bert's"):
            assert any(part in line for line in figure.get_suptitle().split("\n"))


@pytest.mark.parametrize("title", ["Short", "word " * 40, "a-title-that-has-no-space-" * 2])
def test_a_title_takes_the_lines_it_needs(title):
    figure = look.sign(look.panels(2)[0], title, "m")
    lengths = [len(line) for line in figure.get_suptitle().split("\n")]
    assert figure.get_suptitle().split() == title.split() and max(lengths) - min(lengths) <= 10
    assert figure._suptitle.get_window_extent().width <= 0.96 * figure.bbox.width


def test_a_signed_figure_is_one_of_the_family_and_names_and_legend_keep_apart():
    rng = np.random.default_rng(0)
    x, y = rng.normal(0.9, 0.02, (2, 60)).clip(0, 0.99)  # crowded into a corner
    figure, (ax,) = look.panels(1)
    ax.scatter(x, y)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    look.name_points(ax, x, y, {i: f"occupation {i}" for i in range(8)})
    figure.draw_without_rendering()
    boxes = [
        Text.get_window_extent(text) for text in ax.texts
    ]  # an annotation's own has its line in it
    inside = ax.get_window_extent()
    assert [text.get_text() for text in ax.texts] == [f"occupation {i}" for i in range(8)]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    assert all(
        inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
        for box in boxes
    )
    # however the figure is saved: a tight frame once moved it there
    figure, axes = look.panels(2)
    for ax in axes:
        ax.plot([1, 2], label="what is drawn")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center")
    look.sign(figure, "A finding", "the corner")
    file = io.StringIO()
    figure.savefig(
        file, format="svg", bbox_inches="tight"
    )  # letters are paths in it; what they say is a comment
    placed = re.findall(r"<!-- (.*?) -->\s*<g [^>]*translate\([-\d.]+ ([-\d.]+)\)", file.getvalue())
    places = {text: float(y) for text, y in placed}
    assert places["the corner"] - places["what is drawn"] > 10
    axis = max(y for text, y in places.items() if text not in ("the corner", "what is drawn"))
    assert 10 < places["what is drawn"] - axis < 40
    for width in (look.COLUMN, look.PAGE, 1.25 * look.PAGE):
        look.check(drawn(width=width), models=["mini-gpt2", "mini-bert"])
