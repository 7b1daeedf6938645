"""README.md says what the stored runs found, and nobody else writes that."""

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib import CompanionError, paths
from lib.publish import readme, report


def test_the_readme_says_what_the_runs_found():
    """When this fails: ./reproduce.sh readme"""
    text = readme.PAGE.read_text(encoding="utf-8")
    assert readme.renewed(text) == text
    assert all(f"<!-- {name} -->" in text for name in ("scoreboard", "figures"))


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The stored runs' tables and the README's figures, in a folder where they can be changed."""
    for run, folder in report.runs().items():
        (tmp_path / "figures" / run).mkdir(parents=True)
        for file in folder.glob("*"):
            if file.suffix == ".csv" or (file.stem in readme.BEST.values() and file.is_file()):
                shutil.copy(file, tmp_path / "figures" / run)
    shutil.copytree(paths.NOTEBOOKS, tmp_path / "notebooks")
    for name in ("ROOT", "FIGURES", "NOTEBOOKS"):
        monkeypatch.setattr(paths, name, tmp_path if name == "ROOT" else tmp_path / name.lower())
    shutil.copy(readme.PAGE, tmp_path)
    monkeypatch.setattr(readme, "PAGE", tmp_path / "README.md")
    return tmp_path


def test_another_result_is_another_readme(project):
    before = readme.PAGE.read_text()
    claims = project / "figures" / "mini" / "11_claims.csv"
    claims.write_text(claims.read_text().replace("holds", "fails"))
    assert readme.write()
    after = readme.PAGE.read_text()
    old, new = (next(line for line in text.splitlines() if "*Counteracts* |" in line) for text in (before, after))
    assert old != new and "| 0 hold" in new
    assert before.replace(old, "").split("<!-- /figures -->")[1] == after.replace(new, "").split("<!-- /figures -->")[1]
    assert not readme.write()  # once is enough

    for run in ("mini", "mini-real"):
        drawing = project / "figures" / run / "02_fig2_heatmaps.svg"
        title = next(result.finding for result in report.collect(report.runs())
                     if result.file == drawing.with_suffix(".png"))
        drawing.write_text(drawing.read_text().replace(f"<!-- {title} -->", "<!-- No layer has -->"))
    assert readme.write() and "**No layer has.**" in readme.PAGE.read_text()


def test_a_figure_is_taken_from_the_run_nearest_to_the_papers(project):
    assert "(figures/mini-real/02_fig2_heatmaps.png)" in readme.figures_part()
    shutil.copytree(project / "figures" / "mini-real", project / "figures" / "paper")
    assert "(figures/paper/02_fig2_heatmaps.png)" in readme.figures_part()
    for run in ("paper", "mini-real", "mini"):
        (project / "figures" / run / "02_fig2_heatmaps.png").unlink()
    with pytest.raises(CompanionError, match="No run has the figure 02_fig2_heatmaps: make it with"):
        readme.figures_part()


@given(st.text(), st.text(), st.text())
def test_what_stands_around_a_part_stays(before, between, after):
    parts = {"scoreboard_part": lambda: "S", "figures_part": lambda: "F"}
    with pytest.MonkeyPatch.context() as patch:
        for name, make in parts.items():
            patch.setattr(readme, name, make)
        text = f"{before}<!-- scoreboard -->old<!-- /scoreboard -->{between}<!-- figures --><!-- /figures -->{after}"
        new = (f"{before}<!-- scoreboard -->\nS\n<!-- /scoreboard -->{between}<!-- figures -->\nF\n"
               f"<!-- /figures -->{after}")
        assert readme.renewed(text) == new == readme.renewed(new)
        assert readme.renewed(before) == before


@pytest.mark.parametrize("text", ["<!-- figures -->", "<!-- /figures -->", "<!-- /figures --><!-- figures -->",
                                  "<!-- figures --><!-- figures --><!-- /figures -->"])
def test_marks_that_do_not_fit_are_told(text):
    with pytest.raises(CompanionError, match="README.md must have <!-- figures --> and then <!-- /figures -->, once"):
        readme.renewed(text)
