"""Reading of the source by scripts/source_reading.py: imports by texts, circles, layers, lines of code."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "scripts"))

from count_house import by_text, upward  # noqa: E402
from source_reading import Source, circles, code_lines, package_of  # noqa: E402


def source_of(folder, **files):
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Source(folder)


def test_a_module_that_a_call_names_by_a_text_is_an_import(tmp_path):
    source = source_of(
        tmp_path,
        rookery__core__low='A = "rookery.tune.high:Name"\nimport_object(A)\nimport_module(f"{__package__}.other")\n',
        rookery__core__other='print("rookery.tune.high")\n',
        rookery__tune__high="from rookery.core import low\n",
    )
    assert {found.module for found in source.all_imports_of(tmp_path / "rookery/core/low.py")} == {
        "rookery.tune.high",
        "rookery.core.other",
    }
    assert source.imports_of(tmp_path / "rookery/core/low.py") == []
    assert not source.all_imports_of(tmp_path / "rookery/core/other.py")
    assert not circles(source.graph())
    assert circles(source.graph(texts=True)) == [["rookery.core.low", "rookery.tune.high"]]
    assert upward(source, [{"core"}, {"tune"}]) == ["core/low.py:2 imports rookery.tune.high"]
    assert len(by_text(source)) == 2


def test_rooms_of_a_face_point_down_in_its_order(tmp_path):
    source = source_of(
        tmp_path,
        rookery__core__low="",
        rookery_rllib__gym__ids="from rookery.core import low\nfrom rookery_rllib.trainer import base\n",
        rookery_rllib__trainer__base="from rookery_rllib.gym import other\n",
        rookery_rllib__gym__other="",
    )
    wrong = ["rookery_rllib/gym/ids.py:2 imports rookery_rllib.trainer.base"]
    assert upward(source, [{"core"}, {"rookery_rllib"}]) == wrong
    assert {package_of(name) for name in source.modules} == {"core", "rookery_rllib"}


def test_lines_of_code_hold_a_token_and_are_no_docstring():
    text = '"""A file."""\n\nA = 1  # one\n# two\n\n\ndef f():\n    """F."""\n'
    text += "    return (\n        # three\n        A\n    )\n"
    assert code_lines(text) == {3, 7, 9, 11, 12}
