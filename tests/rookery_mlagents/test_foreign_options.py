"""``configuration.yaml`` of a run is checked where other users have written it; that of one's own run is taken."""

import pytest

from hostile import MODULE, plant
from rookery import ConfigError
from rookery.core.io.signing import signed_text
from rookery.core.settings.layers import yaml_layer
from rookery_mlagents.files.foreign_options import check_reach, objections_in
from rookery_mlagents.learn.learn import Request, options_of

USED = """\
behaviors:
  Cart:
    trainer_type: ppo
    init_path: {own}
env_settings: {{env_path: CartPole-v1, num_envs: 4, seed: -1, base_port: 5005}}
engine_settings: {{width: 84, height: 84, time_scale: 20, target_frame_rate: -1, no_graphics: true}}
checkpoint_settings: {{run_id: another, results_dir: elsewhere, initialize_from: before, resume: false}}
torch_settings: {{device: cpu}}
"""
REACHED = {
    "words for a player": "env_settings: {env_path: games/tank.x86_64, env_args: [--load, theirs/x]}",
    "words for the Editor": "env_settings: {env_args: [--load]}",
    "words for an environment": "env_settings: {env_path: Ant-v5, env_args: [xml_file=theirs/x.xml]}",
    "words that are none": "env_settings: {env_path: Ant-v5, env_args: [theirs]}",
    "copies": "env_settings: {env_path: CartPole-v1, num_envs: 1000000}",
    "pictures": "engine_settings: {width: 1000000}",
    "demonstrations": "behaviors: {Cart: {behavioral_cloning: {demo_path: theirs/x.demo}}}",
    "demonstrations of a signal": "default_settings: {reward_signals: {gail: {demo_path: theirs/x.demo}}}",
}


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Writes what a run has kept in results/cart; gives the file."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "results" / "cart"
    folder.mkdir(parents=True)

    def write(text, config="env: {name: CartPole-v1}\n"):
        (folder / "config.yaml").write_text(config)
        (folder / "configuration.yaml").write_text(text)
        return folder / "configuration.yaml"

    return write


@pytest.mark.regression(
    "foreign code", "The stored options of a foreign ML-Agents run start no program and read no path"
)
@pytest.mark.parametrize("text", REACHED.values(), ids=REACHED)
def test_options_of_others_that_reach_something_are_refused(text, kept):
    file = kept(f"{text}\n")
    with pytest.raises(ConfigError, match="not written by you on this machine") as caught:
        check_reach(file, {}, False)
    assert all(str(line).startswith(f"{file}: ") for line in str(caught.value).splitlines())
    check_reach(file, {}, True)
    kept(f"{text}\n", signed_text("config.yaml", f"env: {{name: CartPole-v1}}\n# {text}\n"))
    check_reach(file, {}, False)


MIXED = "Foreign options beside a signed config.yaml start and import nothing"


@pytest.mark.regression("foreign code", MIXED)
def test_words_for_a_player_that_an_own_run_does_not_have_are_refused(kept):
    file = kept(f"{REACHED['words for a player']}\n", signed_text("config.yaml", "env: {name: games/tank.x86_64}\n"))
    with pytest.raises(ConfigError, match="reaches a program"):
        check_reach(file, {}, False)


@pytest.mark.regression("foreign code", MIXED)
@pytest.mark.parametrize(
    "text",
    [
        f"default_settings: {{trainer_type: '{MODULE}:Thing'}}",
        f"env_settings: {{env_path: {MODULE}, env_args: [--size=3]}}",
        f"env_settings: {{env_path: '{MODULE}:Thing', env_args: [--size=3]}}",
    ],
)
def test_no_option_of_others_names_code(text, kept, monkeypatch, tmp_path):
    mark = plant(tmp_path, monkeypatch)
    for config in ("env: {name: CartPole-v1}\n", signed_text("config.yaml", f"env: {{name: {MODULE}_of_mine}}\n")):
        kept(f"{text}\n", config)
        with pytest.raises(ConfigError, match="reading this would run"):
            options_of(Request(None, {"resume": True, "run_id": "cart"}, "quiet", None, False, False))
    assert not mark.exists()


def test_flags_take_the_place_of_what_others_say(kept):
    file = kept(f"{REACHED['words for the Editor']}\n")
    check_reach(file, {"env_args": ["--mine"], "env": None}, False)


def test_honest_options_of_others_are_taken(kept):
    assert list(objections_in(yaml_layer(kept(USED.format(own="null"))).values)) == []
    given = "env_settings: {env_path: CartPole-v1, env_args: [sutton_barto_reward=true]}\n"
    assert list(objections_in(yaml_layer(kept(given)).values)) == []


@pytest.mark.regression(
    "foreign code", "The stored options of a foreign ML-Agents run start no program and read no path"
)
def test_a_run_goes_on_where_it_was_found_whatever_it_says_of_its_place(kept):
    kept(USED.format(own="null"))
    asked = Request(None, {"resume": True, "run_id": "cart"}, "quiet", None, False, False)
    settings = options_of(asked).checkpoint_settings
    assert (settings.results_dir, settings.run_id) == ("results", "cart")
