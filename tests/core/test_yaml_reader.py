"""Bounds on what a YAML text may ask for: aliases, depth, size, digits."""

import time
import tracemalloc

import pytest

from rookery.algorithms.names import ALGORITHMS
from rookery.core.config import resolve
from rookery.core.errors import ConfigError
from rookery.core.io.yaml_reader import MAX_CHARACTERS, load_yaml
from rookery.core.settings.layers import Layer, override_layer, yaml_layer
from rookery.run.settings import RunConfig
from rookery_mlagents.files.yaml_file import read_tree
from rookery_mlagents.old.old_files import read_trainer
from rookery_rllib.script.command_line import experiments_in

NAMES = "abcdefghij"
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip(NAMES, NAMES[1:], strict=False)
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 9)}]}}\n"
    for before, name in zip(NAMES, NAMES[1:], strict=False)
)


@pytest.mark.regression("exhausted memory or time", "A YAML file takes time and memory in proportion to its bytes")
@pytest.mark.parametrize("reader", [yaml_layer, read_tree, read_trainer, lambda path: experiments_in(str(path))])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LAUGHS, r":5: \*d: with its aliases written out"),
        (MERGES, r":5: \*d: with its aliases written out"),
        ("a: &a " + "x" * 9000 + "\nb: [" + "*a, " * 500 + "]\n", r":2: \*a: with its aliases written out"),
        ("seed: 1\nlr: &b [*b]\n", r":2: \*b: the section or list contains itself"),
        ("seed: 1\nb: " + "[" * 500, r":2: sections or lists are nested too deeply"),
        ("\n".join(" " * depth + "a:" for depth in range(500)), r":65: sections or lists are nested too deeply"),
        ("a: 1\n" * (MAX_CHARACTERS // 5 + 1), rf":{MAX_CHARACTERS // 5 + 1}: not read beyond this line"),
        ("a: 0x" + "f" * 5000, r":1: a whole number has 5,002 characters"),
    ],
    ids=["aliases", "merges", "long text", "itself", "flow depth", "block depth", "size", "digits"],
)
def test_a_text_that_stands_for_too_much_is_refused_with_its_line(tmp_path, reader, text, said):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    began = time.process_time()
    tracemalloc.start()
    with pytest.raises(ConfigError, match=rf"run\.yaml{said}"):
        reader(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert time.process_time() - began < 5 and peak < 20 << 20


@pytest.mark.regression("exhausted memory or time", "A YAML file takes time and memory in proportion to its bytes")
def test_an_override_has_the_same_bounds():
    with pytest.raises(ConfigError, match="algorithm.lr = .*: the value is not YAML"):
        override_layer(["algorithm.lr=&b [*b]"])


@pytest.mark.regression("exhausted memory or time", "A YAML file takes time and memory in proportion to its bytes")
def test_of_many_unknown_keys_the_first_are_named_and_the_rest_counted():
    values = {f"key_{number}": number for number in range(50_000)}
    began = time.process_time()
    with pytest.raises(ConfigError) as refused:
        resolve(RunConfig, [Layer("run.yaml", values)], ALGORITHMS)
    assert len(refused.value.problems) == 51
    assert "key_50: from here on 49,950 more keys are not settings either" in refused.value.problems[-1]
    assert time.process_time() - began < 5


def test_honest_aliases_and_lists_are_read():
    shared = "base: &base {lr: 3e-4, sizes: [64, 64]}\n" + "".join(
        f"p{n}: {{<<: *base, seed: {n}}}\n" for n in range(50)
    )
    values = load_yaml(shared, "run.yaml")
    assert values["p49"] == {"lr": 3e-4, "sizes": [64, 64], "seed": 49}
    low = load_yaml("low: &low [" + "0.5, " * 5000 + "]\nhigh: *low\nagain: [*low, *low]\n", "spaces.yaml")
    assert low["again"] == [low["low"]] * 2
