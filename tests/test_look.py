"""Figures state their finding, name their model, can be read, and are colour-blind safe."""

import io
import json
import re
from dataclasses import dataclass
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.font_manager import findfont
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

from companion import claims, look
from lib import paths
from lib.engine.stats import Estimate

WIDEST = 1.28 * look.PAGE  # inches
SMALLEST = 5.6  # points of print, when the figure is printed as wide as a page

# What a dichromat sees of linear red, green and blue (Machado, Oliveira and Fernandes 2009,
# severity 1).
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
PALETTE = (
    look.FEMALE,
    look.MALE,
    look.ACCENT,
    look.GOOD,
    look.BAD,
    look.SKY,
    look.PALE,
    "#000000",
)


@pytest.fixture(autouse=True)
def closed():
    look.style()
    yield
    plt.close("all")


# ------------------------------------------------------------------------------- figures as stored


@dataclass(frozen=True)
class Line:
    """A line of text in a figure."""

    text: str
    y: float  # points from the top
    points: float  # its size


def lines_in(svg: str) -> list[Line]:
    """All lines of text in a figure: its letters are paths, what they say is a comment."""
    pattern = r"<!-- (.*?) -->\s*<g [^>]*translate\([-\d.]+ ([-\d.]+)\)[^>]*scale\(([\d.]+)"
    lines = []
    for text, y, scale in re.findall(pattern, svg):
        lines.append(Line(text, float(y), points=100 * float(scale)))
    return lines


def faults(svg: str, finding: str, models: list[str]) -> list[str]:
    """What has to be changed in a figure before it is stored.

    finding   the title, on one line; models: those that the figure was made from
    """
    lines = lines_in(svg)
    width = float(re.search(r'width="([\d.]+)pt"', svg)[1]) / 72
    title_lines = [line for line in lines if line.points == 12]
    lowest = max(lines, key=lambda line: line.y)
    corner = " ".join(line.text for line in lines if line.points == lowest.points)
    smallest = min(line.points for line in lines)
    found = []
    if len(finding.split()) < 4:
        found.append("its title says no finding")
    if len(title_lines) > 3:
        found.append("its title is too long")
    if models and not any(name in corner for name in models):
        found.append("its corner names no model")
    if width > WIDEST:
        found.append("it is too wide")
    if smallest / max(1, width / look.PAGE) < SMALLEST:
        found.append("its print is too small")
    return found


def saved(figure) -> str:
    """A figure as svg, in the tight frame in which all of them are stored."""
    file = io.StringIO()
    figure.savefig(file, format="svg", bbox_inches="tight")
    return file.getvalue()


def stored_figures() -> list:
    """Those of the two default runs. With a model of another name, titles may be longer."""
    files = []
    for run in ("mini", "mini-real"):
        files += sorted((paths.FIGURES / run).glob("*.svg"))
    return files


@pytest.mark.parametrize(
    "file", stored_figures(), ids=lambda file: f"{file.parent.name}/{file.stem}"
)
def test_a_stored_figure_states_its_finding_names_its_model_and_can_be_read(file):
    record = json.loads(file.with_suffix(".json").read_text())
    assert not faults(file.read_text(), record["finding"], list(record["models"]))


def drawn(
    title="A finding in so many words", made_from="mini-bert, data mini", width=look.COLUMN, **label
):
    """A signed figure of one panel."""
    figure, (ax,) = look.panels(1, width)
    ax.plot([1, 2], color=look.GOOD)
    ax.set_xlabel("what is measured", **label)
    return look.sign(figure, title, made_from)


@pytest.mark.parametrize(
    "options, fault",
    [
        ({"title": "Losses"}, "its title says no finding"),
        ({"title": "word " * 40}, "its title is too long"),
        ({"made_from": "another model"}, "its corner names no model"),
        ({"width": 1.4 * look.PAGE}, "it is too wide"),
        ({"fontsize": 5}, "its print is too small"),
        ({"width": 1.25 * look.PAGE, "fontsize": 6.5}, "its print is too small"),
    ],
)
def test_a_fault_of_a_figure_is_found(options, fault):
    figure = drawn(**options)
    finding = figure.get_suptitle().replace("\n", " ")
    assert faults(saved(figure), finding, models=["mini-bert"]) == [fault]


# -------------------------------------------------------------------------------------- the palette


def linear(color: str) -> np.ndarray:
    """Linear red, green and blue of an sRGB colour."""
    value = np.array(to_rgb(color))
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear sRGB."""
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    t = to_xyz @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089]
    f = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eye", DICHROMATS)
def test_the_palette_is_colour_blind_safe(eye):
    """Colours are 14 apart in L*a*b*, where 2 can just be told apart; female and male are 50."""
    seen = {color: lab(DICHROMATS[eye] @ linear(color)) for color in PALETTE}
    apart = {}
    for one, other in combinations(seen, 2):
        apart[one, other] = np.linalg.norm(seen[one] - seen[other])
    assert min(apart.values()) > 14, min(apart, key=apart.get)
    assert apart[look.FEMALE, look.MALE] > 50


# ----------------------------------------------------------------------------- titles and corners


@pytest.mark.parametrize("width", [3, 4, 5, 6])
@pytest.mark.parametrize("part", ["0.20 [0.12, 0.28]", "5 %", "mini-gpt2-chat", "mini-bert's"])
def test_no_line_of_a_title_ends_inside_an_interval_or_a_name(width, part):
    title = "From mini-gpt2 to mini-gpt2-chat it falls by 0.20 [0.12, 0.28], 5 %, to mini-bert's"
    figure = look.sign(look.panels(1, width)[0], title, "m")
    assert any(part in line for line in figure.get_suptitle().split("\n"))


@pytest.mark.parametrize("title", ["Short", "word " * 40, "a-title-that-has-no-space-" * 2])
def test_a_title_takes_the_lines_it_needs(title):
    figure = look.sign(look.panels(2)[0], title, "m")
    lengths = [len(line) for line in figure.get_suptitle().split("\n")]
    assert figure.get_suptitle().split() == title.split()
    assert max(lengths) - min(lengths) <= 10
    assert figure._suptitle.get_window_extent().width <= 0.96 * figure.bbox.width


# --------------------------------------------------------------------------------- names of points


def test_names_of_crowded_points_do_not_overlap_and_stay_inside():
    """Eight named points among sixty, crowded into a corner."""
    x, y = np.random.default_rng(0).normal(0.9, 0.02, (2, 60)).clip(0, 0.99)
    figure, (ax,) = look.panels(1)
    ax.scatter(x, y)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    look.name_points(ax, x, y, {i: f"occupation {i}" for i in range(8)})
    figure.draw_without_rendering()
    assert [text.get_text() for text in ax.texts] == [f"occupation {i}" for i in range(8)]
    assert ax.get_xlim() == (0, 1) and ax.get_ylim() == (0, 1)
    boxes = [Text.get_window_extent(text) for text in ax.texts]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    frame = ax.get_window_extent().padded(0.5)  # half a pixel, for rounding
    for box in boxes:
        assert frame.x0 <= box.x0 and box.x1 <= frame.x1
        assert frame.y0 <= box.y0 and box.y1 <= frame.y1


def test_points_are_named_in_the_same_places_each_time():
    def places():
        figure, (ax,) = look.panels(1)
        x, y = np.random.default_rng(1).random((2, 30))
        ax.scatter(x, y)
        look.name_points(ax, x, y, {i: f"occupation {i}" for i in range(5)})
        return [text.get_position() for text in ax.texts]

    assert places() == places()


def test_arms_reach_from_a_value_to_the_ends_of_its_interval_and_never_below_zero():
    value = np.array([1.0, 2.0])
    low = np.array([0.5, 2.25])
    high = np.array([1.25, 3.0])
    assert look.arms(value, low, high).tolist() == [[0.5, 0.0], [0.25, 1.0]]
    assert look.arms(1.0, 0.5, 1.25).tolist() == [[0.5], [0.25]]


@pytest.mark.parametrize("upright", [False, True])
def test_a_dot_has_the_interval_of_its_estimate(upright):
    _, (ax,) = look.panels(1)
    drawn = look.dots(ax, [Estimate(1.0, 0.5, 1.25), (3.0, 2.0, 4.0)], [7, 8], upright=upright)
    points = np.transpose(drawn.lines[0].get_data())
    assert points.tolist() == ([[7, 1], [8, 3]] if upright else [[1, 7], [3, 8]])
    (bars,) = drawn.lines[2]
    ends = np.array(bars.get_segments())[:, :, int(upright)]
    assert ends.tolist() == [[0.5, 1.25], [2.0, 4.0]]


# ---------------------------------------------------------------------------------------- outcomes


def contrast(one: str, other: str) -> float:
    """Of two colours, from 1 to 21, as WCAG 2 defines it."""
    weights = [0.2126, 0.7152, 0.0722]
    lights = sorted(float(np.dot(weights, linear(color))) for color in (one, other))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def test_every_outcome_has_one_sign_that_can_be_read():
    signs = look.OUTCOMES
    assert set(signs) == set(map(str, claims.Outcome))
    assert len({sign.mark for sign in signs.values()}) == len(signs)
    assert len({sign.tile for sign in signs.values()}) == len(signs)
    glyphs = FT2Font(findfont("DejaVu Sans")).get_charmap()
    for kind, sign in signs.items():
        assert contrast(sign.tile, sign.ink) >= 3, kind  # as WCAG 2 asks of a mark
        assert ord(sign.mark) in glyphs, kind
        assert {look.FEMALE, look.MALE}.isdisjoint({sign.tile, sign.ink}), kind


@pytest.mark.parametrize("eye", DICHROMATS)
def test_outcomes_that_decide_are_told_apart_by_everyone(eye):
    deciding = ["supported", "contradicted", "undecided"]
    tiles = [DICHROMATS[eye] @ linear(look.OUTCOMES[kind].tile) for kind in deciding]
    for one, other in combinations(map(lab, tiles), 2):
        assert np.linalg.norm(one - other) > 14
