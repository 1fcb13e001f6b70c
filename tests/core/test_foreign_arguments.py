"""Arguments of other packages that others have written: texts are taken where they are looked up among known ones."""

import gymnasium
import pytest

from rookery.core.settings.foreign_arguments import WORDS, why_not


def test_robots_are_those_that_come_with_gymnasium():
    assert why_not("xml_file", "half_cheetah.xml") == ""
    for value in ("mine.xml", "./ant.xml", "../assets/ant.xml", "/tmp/ant.xml", "~/ant.xml", "", ["ant.xml"], 3):
        assert why_not("xml_file", value), value


def test_maps_are_letters():
    assert why_not("desc", ["SF", "HG"]) == ""
    for value in ("theirs/map.txt", ["SF", "theirs"], ["S" * 65], [["S"] * 100], {"a": "S"}, ["SF"] * 65):
        assert why_not("desc", value), value


def test_words_of_registered_ids_are_known():
    # what Gymnasium, MiniGrid and ALE register their own ids with is what a user would say, too
    pytest.importorskip("minigrid")
    texts = {
        (key, value)
        for spec in gymnasium.registry.values()
        if str(spec.entry_point).startswith(("minigrid.", "gymnasium.envs."))
        for key, value in spec.kwargs.items()
        if isinstance(value, str)
    }
    assert texts
    assert {(key, value) for key, value in texts if value not in WORDS.get(key, ())} == set()
