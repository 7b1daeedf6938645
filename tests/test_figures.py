"""Every stored figure is one of the family: its finding above it, its model in the corner, print that can be read, and
colours of the palette, which keep apart for the colour-blind."""

import colorsys
import json
import re
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text
from PIL import Image

from lib import look as plots
from lib import paths
from lib.publish.run import _images

DRAWINGS = sorted(paths.FIGURES.glob("*/[0-9][0-9]_*.svg"))
HUES = {plots.FEMALE, plots.MALE, plots.ACCENT, plots.GOOD, plots.BAD, plots.SKY}
# what a dichromat sees of linear red, green and blue (Machado, Oliveira and Fernandes 2009, severity 1)
DICHROMATS = {
    "protan": [[.152286, 1.052583, -.204868], [.114503, .786281, .099216], [-.003882, -.048116, 1.051998]],
    "deutan": [[.367322, .860646, -.227968], [.280085, .672501, .047413], [-.011820, .042940, .968881]],
    "tritan": [[1.255528, -.076749, -.178779], [-.078411, .930809, .147602], [.004733, .691367, .303900]]}
PAGE = 72 * plots.PAGE  # points


def texts(drawing):
    """(text, size in points, x, y) of all that is written in a drawing. Letters are paths; what they say, a comment."""
    found = re.findall(r"<!-- (.*?) -->\s*<g [^>]*translate\(([-\d.]+) ([-\d.]+)\)[^>]*?scale\(([\d.]+)",
                       drawing.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [(text, 100 * float(size), float(x), float(y)) for text, x, y, size in found]


def size(drawing):
    """Width and height in points."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing.read_text(encoding="utf-8"))
    return float(found[1]), float(found[2])


@pytest.fixture(params=DRAWINGS, ids=lambda drawing: f"{drawing.parent.name}-{drawing.stem}")
def drawing(request):
    return request.param


def test_a_figure_is_kept_in_pixels_too(drawing):
    (width, height), image = size(drawing), Image.open(drawing.with_suffix(".png"))
    assert image.size == pytest.approx((width / 72 * 150, height / 72 * 150), rel=.02)  # letters are hinted


def test_its_finding_stands_above_it_and_inside_it(drawing):
    width, height = size(drawing)
    title = [text for text in texts(drawing) if text[1] == pytest.approx(12)]
    assert 0 < len(title) <= 3 and all(x < .05 * width and y < .2 * height for _, _, x, y in title)
    assert len(" ".join(line for line, *_ in title).split()) > 3
    assert width < 1.28 * PAGE  # a title that runs out of the frame widens it


def test_its_models_stand_in_the_corner(drawing):
    made = json.loads(drawing.with_suffix(".json").read_text(encoding="utf-8"))
    width, height = size(drawing)
    corner = [text for text, _, x, y in texts(drawing) if x > .3 * width and y > height - 16]
    assert len(corner) == 1
    assert not made["models"] or any(model in corner[0] for model in made["models"])


def test_it_can_be_read_on_a_page(drawing):
    shrunk = min(1, PAGE / size(drawing)[0])
    small = {text: shrunk * points for text, points, *_ in texts(drawing) if shrunk * points < 5.6}
    assert not small


def test_its_colours_are_of_the_palette(drawing):
    """Or tints of these. A map has more, which run from one of the palette to another."""
    used = {color.upper() for color in re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", drawing.read_text())}
    vivid = {color for color in used if colorsys.rgb_to_hls(*rgb(color))[2] > .25 and 0 < rgb(color).sum() < 2.9}
    assert len(vivid) > 20 or not {color for color in vivid if not any(is_tint(color, hue) for hue in HUES)}


def is_tint(color, hue):
    """Whether a colour lies between a hue and white."""
    share = np.linspace(0, 1, 101)[:, None]
    return np.abs(share * rgb(hue) + 1 - share - rgb(color)).max(axis=1).min() < .03


@pytest.mark.parametrize("color, answer", [("#009E73", True), ("#9BD8C4", True), ("#FF0000", False),
                                           ("#1F77B4", False), ("#4C72B0", False)])
def test_what_is_a_tint_of_the_palette(color, answer):
    """Among the others: the first colours of matplotlib and of seaborn, which stand where none was chosen."""
    assert any(is_tint(color, hue) for hue in HUES) == answer


def rgb(color):
    return np.array([int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)])


def lab(linear):
    """CIE L*a*b* of linear sRGB."""
    to_xyz = np.array([[.4124, .3576, .1805], [.2126, .7152, .0722], [.0193, .1192, .9505]])
    t = to_xyz @ np.clip(linear, 0, 1) / [.9505, 1, 1.089]
    f = np.where(t > .008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eye", DICHROMATS)
def test_the_palette_keeps_apart_for_the_colour_blind(eye):
    """By 14 in L*a*b*, where 2 can just be told apart; female and male by 50."""
    seen = {}
    for color in sorted(HUES | {plots.PALE, "#000000"}):
        value = rgb(color)
        seen[color] = lab(DICHROMATS[eye] @ np.where(value <= .04045, value / 12.92, ((value + .055) / 1.055) ** 2.4))
    apart = {pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]]) for pair in combinations(seen, 2)}
    assert min(apart.values()) > 14, min(apart, key=apart.get)
    assert np.linalg.norm(seen[plots.FEMALE] - seen[plots.MALE]) > 50


def test_red_and_green_would_not():
    """What the test above rests on."""
    red, green = (lab(DICHROMATS["deutan"] @ np.where(rgb(c) > .5, rgb(c) ** 2.2, 0)) for c in ("#C00000", "#608000"))
    assert np.linalg.norm(red - green) < 10


@pytest.mark.parametrize("n, width, shape", [
    (1, 4.2, (1, 1)), (2, 4.2, (1, 2)), (3, 4.2, (2, 2)), (4, 3.3, (2, 2)), (5, 4.2, (3, 2)), (3, 3.5, (1, 3)),
    (7, 1.75, (2, 4))])
def test_panels_stay_on_the_page(n, width, shape):
    figure, axes = plots.panels(n, width)
    assert len(axes) == n and axes[0].get_gridspec().get_geometry() == shape
    assert figure.get_figwidth() <= 1.25 * plots.PAGE
    plt.close(figure)


@pytest.mark.parametrize("title", ["Short", "word " * 40, "a-title-that-has-no-space-" * 2])
def test_a_title_takes_the_lines_it_needs(title):
    figure, _ = plots.panels(2)
    plots.sign(figure, title, "m")
    assert figure.get_suptitle().split() == title.split()
    assert figure._suptitle.get_window_extent().width <= .96 * figure.bbox.width
    lengths = [len(line) for line in figure.get_suptitle().split("\n")]
    assert max(lengths) - min(lengths) <= 10
    plt.close(figure)


def test_names_of_points_do_not_cover_each_other():
    rng = np.random.default_rng(0)
    x, y = rng.normal(.9, .02, (2, 60)).clip(0, .99)  # crowded into a corner
    figure, (ax,) = plots.panels(1)
    ax.scatter(x, y)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    plots.name_points(ax, x, y, {i: f"occupation {i}" for i in range(8)})
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in ax.texts]  # an annotation's own has its line in it
    inside = ax.get_window_extent()
    assert [text.get_text() for text in ax.texts] == [f"occupation {i}" for i in range(8)]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    assert all(inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
               for box in boxes)
    plt.close(figure)


def test_a_legend_keeps_out_of_the_corner(tmp_path):
    """However the figure is saved: a tight frame once moved it there."""
    figure, axes = plots.panels(2)
    for ax in axes:
        ax.plot([1, 2], label="what is drawn")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center")
    plots.sign(figure, "A finding", "the corner")
    for suffix, content in _images(figure).items():
        (tmp_path / f"drawing{suffix}").write_bytes(content)
    places = {text: y for text, _, _, y in texts(tmp_path / "drawing.svg")}
    assert places["the corner"] - places["what is drawn"] > 10
    axis = max(y for text, y in places.items() if text not in ("the corner", "what is drawn"))
    assert 10 < places["what is drawn"] - axis < 40
