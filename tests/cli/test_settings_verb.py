"""The list of settings, their short names on the command line, and their completion."""

from __future__ import annotations

import pytest

from rookery.algorithms.names import ALGORITHMS
from rookery.cli import completion
from rookery.cli.settings.listing import all_settings, paths_text
from rookery.core.errors import ConfigError
from rookery.core.settings import short_paths
from rookery.core.settings.fields import paths_of
from rookery.core.settings.layers import import_object, override_layer
from rookery.core.settings.short_paths import full_path, known_paths, with_full_paths


def shown(rookery, *words):
    code, out, err = rookery("config", "show", *words)
    assert (code, err) == (0, "")
    assert all(len(line) <= 80 for line in out.splitlines()), out
    return out.splitlines()


def test_the_list_has_every_setting_of_every_algorithm():
    for name, path in ALGORITHMS.own.items():
        for setting in paths_of(import_object(path)):
            assert any(found.only == name for found in all_settings()[f"algorithm.{setting}"]), (name, setting)
    assert all(found.text for path, variants in all_settings().items() for found in variants if "NAME" not in path)


def test_sections_and_their_settings_are_listed(rookery):
    lines = shown(rookery)
    assert [line.split()[0] for line in lines[1:5]] == ["env", "sampling", "cluster", "algorithm"]
    lines = shown(rookery, "checkpoint")
    assert lines[0] == "checkpoint: Checkpoints."
    assert lines[-2] == "checkpoint.keep_last = 3  (a whole number of at least 1)"
    assert any(line.startswith("algorithm.clip ") for line in shown(rookery, "algorithm"))
    sac = shown(rookery, "algorithm", "--algo", "sac")
    assert any(line.startswith("algorithm.alpha ") for line in sac)
    assert not any(line.startswith("algorithm.clip ") for line in sac)
    assert shown(rookery, "model") == shown(rookery, "algorithm.model")
    assert "tune.scheduler.mutations" in " ".join(shown(rookery, "tune.scheduler"))


def test_a_setting_is_shown_with_its_defaults_by_algorithm(rookery):
    lines = shown(rookery, "lr")
    assert lines[0] == "algorithm.lr"
    assert "0.0007 (a2c)" in " ".join(line.strip() for line in lines)
    assert shown(rookery, "policies.main.lr") == lines
    assert shown(rookery, "algorithm.lr", "--algo", "a2c")[2] == "  default  0.0007"
    assert shown(rookery, "policies.main.frozen")[0] == "policies.NAME.frozen"


def test_a_part_of_a_name_is_searched(rookery):
    found = [line.split()[0] for line in shown(rookery, "grad_norm") if line[0] != " "]
    assert {"algorithm.max_grad_norm", "algorithm.signals.rnd.max_grad_norm"} <= set(found)
    found = [line.split()[0] for line in shown(rookery, "every") if line[0] != " "]
    assert {"checkpoint.every", "evaluation.every", "algorithm.target.every"} <= set(found)
    assert "checkpoint.every_seconds" not in found


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["algorithm.learning_rate"], "there is no such setting; did you mean 'algorithm.lr'?"),
        (["sede"], "did you mean 'seed'?"),
        (["xyzzy"], "rookery config show lists the sections"),
        (["lr", "--algo", "pppo"], "--algo pppo: there is no such algorithm; did you mean 'ppo'?"),
        (["clip", "--algo", "sac"], "algorithm.clip: sac has no such setting; it is one of ppo, "),
        (["--algo", "sac", "--changed", "cart"], "--changed and --algo exclude each other"),
    ],
)
def test_mistakes_name_the_nearest(rookery, words, problem):
    code, _, err = rookery("config", "show", *words)
    assert code == 2
    assert problem in err


def test_the_changed_settings_of_a_run_have_value_default_and_source(rookery, runs):
    lines = shown(rookery, "--changed", "cart")
    at = lines.index("algorithm.fragment_length = 8")
    assert lines[at + 1] == "    command line; default 128"
    assert not any(line.startswith("policies.main.fragment_length") for line in lines)
    assert shown(rookery, "sampling", "--changed", "cart")[0].startswith("sampling.num_envs = 2")
    assert shown(rookery, "cluster", "--changed", "cart") == ["no setting in cluster differs from its default"]


def test_the_file_of_paths_is_current():
    assert (short_paths.Path(short_paths.__file__).with_name("paths.txt")).read_text() == paths_text()


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("lr", "algorithm.lr"),
        ("hidden", "algorithm.model.hidden"),
        ("model.hidden", "algorithm.model.hidden"),
        ("memory.kind", "algorithm.model.memory.kind"),
        ("config.size", "env.config.size"),
        ("lr.start", "algorithm.lr.start"),
        ("batch_size", "algorithm.batch_size"),
        ("seed", "seed"),
        ("algorithm.lr", "algorithm.lr"),
        ("algorithm.hidden", "algorithm.hidden"),
        ("policies.main.lr", "policies.main.lr"),
        ("stop.env_steps", "stop.env_steps"),
        ("learning_rate", "learning_rate"),
        ("frozen", "frozen"),
    ],
)
def test_the_end_of_a_path_stands_for_it_and_a_full_path_for_itself(short, full):
    assert full_path(short) == full


@pytest.mark.parametrize("path", [path for path in known_paths() if not path.endswith(".")])
def test_no_full_path_changes(path):
    assert full_path(path) == path


def test_an_end_of_several_paths_names_them():
    with pytest.raises(ConfigError, match=r"^num_envs: .* write sampling\.num_envs or evaluation\.num_envs$"):
        full_path("num_envs")
    with pytest.raises(ConfigError) as caught:
        with_full_paths(override_layer(["num_envs=3", "every=2", "lr=1"]))
    assert [problem.split(":")[1].strip() for problem in caught.value.problems] == ["num_envs", "every"]


def test_of_a_short_and_a_full_path_the_later_counts():
    layer, written = with_full_paths(override_layer(["algorithm.lr=1", "seed=3", "lr=2"]))
    assert list(layer.values.items()) == [("seed", 3), ("algorithm.lr", 2)]
    assert written == {"lr": "algorithm.lr"}


def test_a_training_says_what_a_short_name_means_and_a_file_takes_none(rookery, tmp_path):
    words = ["--preset", "none", "--stop", "env_steps=8", "--evaluate", 0, "--quiet", "fragment_length=4", "epochs=1"]
    code, _, err = rookery("train", "CartPole-v1", *words, "lr=2e-3", "--run-id", "short")
    assert code == 0, err
    assert err.splitlines() == [
        "fragment_length = algorithm.fragment_length",
        "epochs = algorithm.epochs",
        "lr = algorithm.lr",
    ]
    code, out, _ = rookery("explain", "short", "lr")
    assert out.splitlines()[0] == "algorithm.lr = 0.002  (command line)"
    code, _, err = rookery("explain", "short", "every")
    assert code == 2
    assert "evaluation.every or checkpoint.every" in err
    (tmp_path / "file.yaml").write_text("lr: 1e-3\n")
    code, _, err = rookery("train", "CartPole-v1", "file.yaml")
    assert code == 2
    assert "file.yaml:1: lr = 0.001" in err


@pytest.mark.parametrize("verb", ["bench", "tune"])
def test_other_verbs_take_short_names_too(rookery, verb):
    code, _, err = rookery(verb, "CartPole-v1", "lr=fast")
    assert code == 2
    assert err.startswith("lr = algorithm.lr\n")
    assert "algorithm.lr = 'fast'" in err


def test_settings_are_completed_by_path_and_by_name():
    assert "algorithm.gamma=" in list(completion.words("algorithm.g"))
    assert list(completion.words("hidd")) == ["hidden="]
    assert "algorithm.model" in list(completion.paths("algorithm.m"))
    assert "algorithm.model=" not in list(completion.words("algorithm.m"))
    assert not any(word.endswith("=") for word in completion.words(""))
