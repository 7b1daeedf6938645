"""Figures state their finding, name their model, can be read, and are colour-blind safe."""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.font_manager import findfont
from matplotlib.ft2font import FT2Font

from companion import claims, look
from lib.engine.stats import Estimate

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


# ----------------------------------------------------------------------------- titles and legends


# ---------------------------------------------------------------------------------- marks and names


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
