"""Places of code, read from its source."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from rookery.core import source
from rookery.core.errors import ConfigError
from rookery.core.timers import PLACES

TEXT = '''
class Config:
    algorithm: str = "own.module:Own"
    """Which class."""
    lr: float = 1.0
    """Step
    size."""
    silent: int = 3

    plain = "text"

    def build(self):
        if True:
            self.maker.make(1)
        return self.maker.make(2)

async def later(): ...
'''


HEIRS = """
import written_module
import written_module as w
from written_module import Config as Base
from nowhere import Stranger

class Heir(Base): ...
class Other(w.Config):
    algorithm = "other:Other"
class Third(Stranger, written_module.Config): ...
class Grandchild(Heir): ...
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    (tmp_path / "written_module.py").write_text(TEXT)
    (tmp_path / "heirs_module.py").write_text(HEIRS)
    (tmp_path / "written_module_2.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    source.module_file.cache_clear()
    source._tree.cache_clear()
    return tmp_path


def test_a_function_a_method_and_a_call_are_found(written):
    assert source.find("written_module:Config").line == 2
    assert source.find("written_module:Config.build").line == 12
    assert source.find("written_module:Config.build self.maker.make").line == 14  # the first of two
    assert source.find("written_module:later").line == 17


def test_what_a_base_class_has_is_found_there(written):
    for heir in ("Heir", "Other", "Third", "Grandchild"):
        place = source.find(f"heirs_module:{heir}.build")
        assert (place.file.name, place.line) == ("written_module.py", 12)
    assert source.class_text("heirs_module:Grandchild", "algorithm") == "own.module:Own"
    assert source.class_text("heirs_module:Other", "algorithm") == "other:Other"
    with pytest.raises(ConfigError):
        source.find("heirs_module:Third.nothing")


def test_nothing_is_imported_to_find_it(written):
    assert source.module_file("written_module_2").name == "written_module_2.py"
    assert "written_module" not in sys.modules


def test_a_place_below_the_working_directory_is_named_from_there(written, monkeypatch):
    monkeypatch.chdir(written)
    assert str(source.find("written_module:Config")) == "written_module.py:2"
    monkeypatch.chdir("/")
    assert str(source.Place(Path("relative.py"), 3)) == "relative.py:3"


def test_texts_of_a_class_are_read(written):
    assert source.class_text("written_module:Config", "algorithm") == "own.module:Own"
    assert source.class_text("written_module:Config", "plain") == "text"
    assert source.class_text("written_module:Config", "missing") == ""
    assert source.field_texts("written_module:Config") == {"algorithm": "Which class.", "lr": "Step size."}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.such.module:f", "no.such.module: there is no source of that module here"),
        ("math:sin", "math: there is no source of that module here"),
        ("written_module:nothing", "written_module: there is no 'nothing'"),
        ("written_module:Config.nothing", "written_module: there is no 'Config.nothing'"),
        ("written_module:Config.build self.f", "written_module: Config.build has no call of self.f"),
    ],
)
def test_what_is_not_there_is_named(written, name, message):
    with pytest.raises(ConfigError) as caught:
        source.find(name)
    assert str(caught.value) == message


def test_every_timer_label_has_a_place_and_every_place_exists():
    code = Path(source.__file__).parents[1]
    texts = [path.read_text(encoding="utf-8") for path in code.rglob("*.py")]
    labels = {label for text in texts for label in re.findall(r'timers\["([^"]+)"\]', text)}
    labels |= {label for text in texts for label in re.findall(r'timers?(?:\["[^"]+"\])?\.add\("([^"]+)"', text)}
    assert labels == PLACES.keys()
    for name in PLACES.values():
        assert source.find(name).line > 1
