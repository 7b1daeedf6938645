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
    "protan": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deutan": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritan": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


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
    return [Line(text, float(y), 100 * float(scale)) for text, y, scale in re.findall(pattern, svg)]


def faults(svg: str, finding: str, models: list[str]) -> list[str]:
    """What has to be changed in a figure before it is stored.

    finding   the title, on one line; models: those that the figure was made from
    """
    lines = lines_in(svg)
    width = float(re.search(r'width="([\d.]+)pt"', svg)[1]) / 72
    lowest = max(lines, key=lambda line: line.y)
    corner = " ".join(line.text for line in lines if line.points == lowest.points)
    smallest = min(line.points for line in lines)
    is_so = {
        "its title says no finding": len(finding.split()) < 4,
        "its title is too long": sum(line.points == 12 for line in lines) > 3,
        "its corner names no model": models and not any(name in corner for name in models),
        "it is too wide": width > WIDEST,
        "its print is too small": smallest / max(1, width / look.PAGE) < SMALLEST,
    }
    return [fault for fault, is_there in is_so.items() if is_there]


def saved(figure) -> str:
    """A figure as svg, in the tight frame in which all of them are stored."""
    file = io.StringIO()
    figure.savefig(file, format="svg", bbox_inches="tight")
    return file.getvalue()


# with a model of another name than those of the two default runs, titles may be longer
STORED = [file for run in ("mini", "mini-real") for file in (paths.FIGURES / run).glob("*.svg")]


@pytest.mark.parametrize("file", STORED, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_stored_figure_states_its_finding_names_its_model_and_can_be_read(file):
    record = json.loads(file.with_suffix(".json").read_text())
    assert not faults(file.read_text(), record["finding"], list(record["models"]))


@pytest.mark.parametrize(
    "width, size, title, made_from, expected",
    [
        (look.COLUMN, 10, "A finding in so many words", "mini-bert", []),
        (1.25 * look.PAGE, 10, "A finding in so many words", "mini-bert, data mini", []),
        (look.COLUMN, 10, "Losses", "mini-bert", ["its title says no finding"]),
        (look.COLUMN, 10, "word " * 40, "mini-bert", ["its title is too long"]),
        (look.COLUMN, 10, "Four words of finding", "other", ["its corner names no model"]),
        (1.4 * look.PAGE, 10, "Four words of finding", "mini-bert", ["it is too wide"]),
        (1.25 * look.PAGE, 6.5, "Four words of finding", "mini-bert", ["its print is too small"]),
    ],
)
def test_a_fault_of_a_figure_is_found(width, size, title, made_from, expected):
    figure, (ax,) = look.panels(1, width)
    ax.set_xlabel("what is measured", fontsize=size)
    look.sign(figure, title, made_from)
    finding = figure.get_suptitle().replace("\n", " ")
    assert faults(saved(figure), finding, models=["mini-gpt2", "mini-bert"]) == expected


# ----------------------------------------------------------------------------- titles and legends


@pytest.mark.parametrize("width", [3, 4, 6])
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


def test_a_legend_stays_between_the_axes_and_the_corner():
    """In a tight frame too, which once moved it onto the text in the corner."""
    figure, axes = look.panels(2)
    axes[0].plot([1, 2], label="what is drawn")
    look.legend_below(figure, axes[0], 1)
    look.sign(figure, "A finding", "the corner")
    height = {line.text: line.y for line in lines_in(saved(figure))}
    corner = height.pop("the corner")
    legend = height.pop("what is drawn")
    assert corner - legend > 10
    assert 10 < legend - max(height.values()) < 40


# ---------------------------------------------------------------------------------- marks and names


def test_names_of_crowded_points_are_apart_and_inside_the_axes_each_time_in_the_same_places():
    def named():
        x, y = np.random.default_rng(0).normal(0.9, 0.02, (2, 60)).clip(0, 0.99)
        figure, (ax,) = look.panels(1)
        ax.set(xlim=(0, 1), ylim=(0, 1))
        look.name_points(ax, x, y, {i: f"occupation {i}" for i in range(8)})
        figure.draw_without_rendering()
        return ax

    ax = named()
    assert [text.get_text() for text in ax.texts] == [f"occupation {i}" for i in range(8)]
    assert ax.get_xlim() == ax.get_ylim() == (0, 1)
    boxes = [Text.get_window_extent(text) for text in ax.texts]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    frame = ax.get_window_extent().padded(0.5)  # half a pixel, for rounding
    assert all(frame.contains(*corner) for box in boxes for corner in (box.min, box.max))
    again = [text.get_position() for text in named().texts]
    assert [text.get_position() for text in ax.texts] == again


def test_arms_reach_from_a_value_to_the_ends_of_its_interval_and_never_below_zero():
    value, low, high = np.array([[1.0, 0.5, 1.25], [2.0, 2.25, 3.0]]).T
    assert look.arms(value, low, high).tolist() == [[0.5, 0.0], [0.25, 1.0]]


@pytest.mark.parametrize("upright", [False, True])
def test_a_dot_has_the_interval_of_its_estimate(upright):
    _, (ax,) = look.panels(1)
    drawn = look.dots(ax, [Estimate(1.0, 0.5, 1.25), (3.0, 2.0, 4.0)], [7, 8], upright=upright)
    points = np.transpose(drawn.lines[0].get_data())
    assert points.tolist() == ([[7, 1], [8, 3]] if upright else [[1, 7], [3, 8]])
    (bars,) = drawn.lines[2]
    ends = np.array(bars.get_segments())[:, :, int(upright)]
    assert ends.tolist() == [[0.5, 1.25], [2.0, 4.0]]


# ------------------------------------------------------------------------------------------ colours


def linear(color: str) -> np.ndarray:
    """Linear red, green and blue of an sRGB colour."""
    value = np.array(to_rgb(color))
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear sRGB."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    t = np.array(to_xyz) @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089]
    f = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def apart(eye: str, one: str, other: str) -> float:
    """How far two colours are apart in L*a*b*, where 2 can just be told, to a dichromat."""
    seen = [lab(DICHROMATS[eye] @ linear(color)) for color in (one, other)]
    return np.linalg.norm(seen[0] - seen[1])


def contrast(one: str, other: str) -> float:
    """Of two colours, from 1 to 21, as WCAG 2 defines it."""
    lights = sorted(np.dot([0.2126, 0.7152, 0.0722], linear(color)) for color in (one, other))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


@pytest.mark.parametrize("eye", DICHROMATS)
def test_the_palette_and_the_outcomes_that_decide_are_told_apart_by_everyone(eye):
    palette = [look.FEMALE, look.MALE, look.ACCENT, look.GOOD, look.BAD, look.SKY, look.PALE]
    tiles = [look.OUTCOMES[kind].tile for kind in ("supported", "contradicted", "undecided")]
    for colors in ([*palette, "#000000"], tiles):
        for pair in combinations(colors, 2):
            assert apart(eye, *pair) > 14, pair
    assert apart(eye, look.FEMALE, look.MALE) > 50


def test_every_outcome_has_one_sign_that_can_be_read():
    assert contrast("#000000", "#FFFFFF") == pytest.approx(21)
    signs = look.OUTCOMES
    assert set(signs) == set(map(str, claims.Outcome))
    assert len({sign.mark for sign in signs.values()}) == len(signs)
    assert len({sign.tile for sign in signs.values()}) == len(signs)
    glyphs = FT2Font(findfont("DejaVu Sans")).get_charmap()
    for kind, sign in signs.items():
        assert contrast(sign.tile, sign.ink) >= 3, kind  # as WCAG 2 asks of a mark
        assert ord(sign.mark) in glyphs, kind
        assert {look.FEMALE, look.MALE}.isdisjoint({sign.tile, sign.ink}), kind
