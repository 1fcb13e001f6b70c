"""Reports: what is drawn of which experiment, and that the page needs nothing but itself."""

import math
import re
import sys
from html.parser import HTMLParser

import pytest
from experiments import Experiment

from rookery.core.errors import ConfigError
from rookery.report.experiment_page import FigureDrawer, Scale, ancestry, changed_paths, scale
from rookery.tune.analysis import Analysis, write_report

SPACE = {"algorithm.lr": {"loguniform": [0.001, 1.0]}, "algorithm.net": {"choice": ["mlp", "cnn"]}}


class Page(HTMLParser):
    """Its text, the addresses it names, and rows of its table."""

    def __init__(self, path):
        super().__init__()
        self.text, self.links, self.rows = [], [], 0
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        self.rows += tag == "tr"
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href") and value[:1] != "#"]

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def searched(tmp_path):
    """Six trials with two parameters, one of them failed."""
    made = Experiment(tmp_path / "searched", SPACE)
    for number in range(6):
        params = {"algorithm.lr": 0.002 * 3**number, "algorithm.net": ["mlp", "cnn"][number % 2]}
        made.whole(f"{number:05d}", params, [1.0 * number, 3.0 * number - number**2 / 2])
    made.trial("00006", {"algorithm.lr": 0.5, "algorithm.net": "cnn"})
    made.begin("00006")
    made.fail("00006", "ValueError: <b>too steep</b>")
    made.end("00006", "ERROR", "ValueError: <b>too steep</b>")
    return made.folder


@pytest.fixture
def population(tmp_path):
    """Trial 1 becomes a copy of 0 at age 2, and trial 2 one of 1 at age 4."""
    space = {"lr": {"loguniform": [0.001, 1.0]}}
    made = Experiment(tmp_path / "population", space, scheduler={"name": "pbt", "time": "iteration"})
    names = ("00000", "00001", "00002")
    for number, name in enumerate(names):
        made.trial(name, {"lr": 0.01 * (number + 1)})
    made.begin(*names)
    for age in range(1, 7):
        actions = {2: {"00001": {"donor": "00000", "params": {"lr": 0.012}}},
                   4: {"00002": {"donor": "00001", "params": {"lr": 0.015}}}}.get(age)  # fmt: skip
        for number, name in enumerate(names):
            made.row(name, age, age * (number + 1.0), actions=actions if name == "00002" else None)
        for clone in actions or ():
            made.record("adopted", trial=clone, iteration=age)
            made.begin(clone)
    for name in names:
        made.end(name)
    return made.folder


def test_a_clone_descends_from_its_donors(population):
    lives = Analysis(population).summary().stages
    assert [(stage.begin, stage.end, stage.params["lr"]) for stage in lives["00002"]] == [(0, 4, 0.03), (4, 6, 0.015)]
    line = [(stage.trial, begin, end) for stage, begin, end in ancestry(lives["00002"][-1])]
    assert line == [("00000", 0, 2), ("00001", 2, 4), ("00002", 4, 6)]
    assert changed_paths(lives) == ["lr"]


def test_the_page_needs_nothing_else_and_shows_every_trial(searched, tmp_path):
    pytest.importorskip("matplotlib")
    target = tmp_path / "made" / "report.html"
    write_report(Analysis(searched), target)
    page = Page(target)
    assert page.links == []
    assert not re.search(r"url\((?!#)|@import|<link", target.read_text())
    text = "".join(page.text)
    for title in ("Learning curves", "Parameters and score", "Score against each parameter", "Trials"):
        assert title in text
    assert "Family tree" not in text and "Length of trials" not in text
    assert page.rows == 1 + 7
    assert "Traceback (most recent call last)" in text and "<b>too steep</b>" in text  # shown, not obeyed


HOSTILE = """<script>alert("1")</script> {{ 7 * 7 }} {% raw %} 'quoted' & &lt;"""


def test_the_page_shows_hostile_names_as_text(tmp_path):
    pytest.importorskip("matplotlib")
    space = {HOSTILE: {"choice": [HOSTILE, "mlp"]}}
    made = Experiment(tmp_path / HOSTILE.replace("/", "-"), space, metric=[f"score {HOSTILE}"], mode=["max"])
    for number, value in enumerate([HOSTILE, "mlp"]):
        name = f"{number:05d}"
        made.trial(name, {HOSTILE: value})
        made.begin(name)
        made.record("result", trial=name, iteration=1, row={"iteration": 1, f"score {HOSTILE}": 1.0}, reason=HOSTILE)
        made.end(name, reason=HOSTILE)
    write_report(Analysis(made.folder), tmp_path / "hostile.html")
    page, source = Page(tmp_path / "hostile.html"), (tmp_path / "hostile.html").read_text()
    assert source.count("<script>") == 1 and "&lt;script&gt;" in source
    text = "".join(page.text)
    for words in (f"best score {HOSTILE}, trial 00000", f"{HOSTILE} {HOSTILE}", HOSTILE.replace("/", "-")):
        assert words in text
    assert page.rows == 1 + 2


def test_a_population_has_its_family_tree_and_a_halved_field_its_rungs(population, tmp_path):
    pytest.importorskip("matplotlib")
    write_report(Analysis(population), tmp_path / "population.html")
    text = "".join(Page(tmp_path / "population.html").text)
    assert "Family tree" in text and "Schedules that the population found" in text
    made = Experiment(tmp_path / "halved", SPACE, scheduler={"name": "asha", "time": "iteration"})
    for number in range(4):
        made.trial(f"{number:05d}", {"algorithm.lr": 0.1 / (number + 1), "algorithm.net": "mlp"})
        made.begin(f"{number:05d}")
        for age in range(1, 5 if number == 0 else 3):
            made.row(f"{number:05d}", age, float(age - number))
        made.end(f"{number:05d}", reason="stopped by the scheduler" if number else "iterations 4 reached 4")
    write_report(Analysis(made.folder), tmp_path / "halved.html")
    assert "Length of trials" in "".join(Page(tmp_path / "halved.html").text)


def test_the_pictures_alone_are_a_png(searched, tmp_path):
    pytest.importorskip("matplotlib")
    write_report(Analysis(searched), tmp_path / "report.png")
    assert (tmp_path / "report.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_seeds_become_a_mean_and_several_aims_a_front(tmp_path):
    pytest.importorskip("matplotlib")
    made = Experiment(tmp_path / "aims", SPACE, metric=["score", "loss"], mode=["max", "min"], repeats=2)
    for number in range(3):
        for repeat in range(2):
            name = f"{number:05d}-{repeat}"
            made.trial(name, {"algorithm.lr": 0.1 * (number + 1), "algorithm.net": "mlp"})
            for age in range(1, 4):
                row = {"iteration": age, "score": 1.0 * number + repeat, "loss": 2.0 * number}
                made.record("result", trial=name, iteration=age, row=row, actions={}, reason="")
    write_report(Analysis(made.folder), tmp_path / "aims.html")
    text = "".join(Page(tmp_path / "aims.html").text)
    assert "Aims against each other" in text
    assert "One line per suggestion: mean over seeds; thin lines: single seeds." in text


def test_one_trial_of_one_row_is_drawn_too(tmp_path):
    pytest.importorskip("matplotlib")
    made = Experiment(tmp_path / "one", SPACE)
    made.whole("00000", {"algorithm.lr": 0.1, "algorithm.net": "mlp"}, [math.pi])
    write_report(Analysis(made.folder), tmp_path / "one.html")
    assert "3.14" in "".join(Page(tmp_path / "one.html").text)


def test_a_long_curve_is_thinned_but_keeps_its_end_and_its_gaps(tmp_path):
    made = Experiment(tmp_path / "long", SPACE)
    made.whole("00000", {"algorithm.lr": 0.1, "algorithm.net": "mlp"}, [float(n) for n in range(1000)])
    made.row("00000", 600, 7.0)  # it became a copy of one that was not as far
    x, y = FigureDrawer(Analysis(made.folder).summary()).points(Analysis(made.folder)["00000"])
    assert 200 < len(x) < 400
    assert (x[-1], y[-1]) == (60000.0, 7.0)
    assert math.isnan(x[-2])


def test_what_cannot_be_written_is_told(searched, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"must end with .html or .png; did you mean '.html'"):
        write_report(Analysis(searched), tmp_path / "report.htm")
    young = Experiment(tmp_path / "young", SPACE)
    young.trial("00000", {"algorithm.lr": 0.1, "algorithm.net": "mlp"})
    if "matplotlib" in sys.modules:
        with pytest.raises(ConfigError, match="no trial has a number of score yet"):
            write_report(Analysis(young.folder), tmp_path / "young.html")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install 'rookery-rl\[plot\]'"):
        write_report(Analysis(searched), tmp_path / "report.html")


def test_an_axis_is_even_in_what_its_domain_is_even_in():
    log = scale({"loguniform": [0.001, 1.0]}, [0.01])
    assert [log.place(value) for value in (0.001, 0.1, 1.0)] == pytest.approx([0.0, 2 / 3, 1.0])
    assert [word for _, word in log.ticks()] == ["0.001", "0.01", "0.1", "1"]
    assert log.place(-1.0) is None
    line = scale({"randint": [0, 11]}, [5])  # its upper end is no value
    assert (line.place(0), line.place(5), line.place(10)) == (0.0, 0.5, 1.0)
    assert [word for _, word in line.ticks()] == ["0", "2", "4", "6", "8", "10"]
    nets = scale({"choice": [[64, 64], [128, 128]]}, [[64, 64]])
    assert nets.ticks() == [(0.25, "64,64"), (0.75, "128,128")]
    assert scale({"choice": [32, 8, 16]}, [8]).choices == ("8", "16", "32")
    assert scale({"uniform": [0.0, 1.0]}, [1.5]).high == 1.5  # a clone's value outside of its domain
    assert scale({}, [0.1, 100.0]) == Scale(0.1, 100.0, log=True)
    assert scale({"uniform": [2.0, 2.0]}, [2.0]).ticks() == [(0.5, "2")]
