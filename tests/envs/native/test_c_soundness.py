"""``rookery envs check`` of an environment in C plays it in another process, in parts and under sanitizers; it reports
all.
"""

import pytest
from sources import RACE, SMALL, breach, needs_compiler

from rookery.envs.check import check_env
from rookery.envs.native import soundness
from rookery.envs.native.compiler import command_of
from selection import slow

pytestmark = needs_compiler

PLAYED = "played under sanitizers of addresses and of undefined behaviour"

needs_sanitizer = pytest.mark.skipif(soundness._runtime() is None, reason="no libasan")


def findings_of(env, **config):
    found = check_env(str(env), config, (), episodes=1, max_steps=200, seed=0)
    return [(one.severity, one.text) for one in found]


def errors_of(name):
    return [text for severity, text in findings_of(SMALL, breach=breach(name)) if severity == "error"]


@needs_sanitizer
def test_a_sound_environment_has_no_errors():
    assert findings_of(RACE) == [("note", PLAYED), ("note", "race plays many environments in one call, 2 agents each")]


@needs_sanitizer
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("BEYOND_ROWS", ["small.c:46: observe() writes memory behind an array: the numbers of rows and elements"]),
        slow("CRASH", [
            "small.c:75: store to null pointer of type 'volatile int'",
            "small.c:75: step() touches memory that does not exist: the program crashes",
        ]),
        slow("OVERFLOW", [
            "small.c:74: signed integer overflow: 3 + 9223372036854775807 cannot be represented",
            "step: observation tile, element 0, of agent: category -5, expected 0 to 5",
        ]),
        slow("BEHIND_FIELD", [
            "small.c:57: reset() writes memory around a field of the state, whose number of elements comes from",
            "small.c: writes behind the field 'place'",
        ]),
        slow("FORGETFUL", [
            "differs if environments are stepped in two calls, not one",
            "differs in another process with the same seeds and actions",
            "differs where a saved state is resumed in another process",
        ]),
        slow("NAN_SEEN", ["step: observation far, element 1, of agent: nan, expected a finite number"]),
    ],
)  # fmt: skip
def test_every_breach_is_told_with_its_line(name, expected):
    errors = errors_of(name)
    assert len(errors) == len(expected)
    for text, part in zip(errors, expected, strict=True):
        assert part in text and "more like it" not in text


@pytest.mark.slow
def test_a_library_without_its_source_is_played_elsewhere_all_the_same(tmp_path):
    import subprocess

    library = tmp_path / "small.so"
    subprocess.run(command_of(SMALL, library), check=True)
    text = "ends a process that plays it alone, by signal SIGSEGV"
    assert ("error", text) in findings_of(library, breach=breach("CRASH"))
    assert ("note", "not played under sanitizers: it came as a library: check its source, FILE.c") in findings_of(
        library
    )
