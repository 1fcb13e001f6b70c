"""A process runs scripts of RLlib of 2021, or of 2.x: names of the other are refused."""

import pytest

from rookery_rllib.base import release
from rookery_rllib.script.finder import find_for_script, note_imports_of


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ("ray.rllib.algorithms.ppo", "ray.rllib.agents.ppo", "agents.ppo is a name of RLlib of 2021.*algorithms.ppo"),
        ("ray.rllib.agents.ppo", "ray.rllib.algorithms.ppo", "algorithms.ppo is a name of RLlib 2.x.*agents.ppo"),
        ("ray.rllib.agents", "ray.air", "ray.air is a name of RLlib 2.x.*process of its own"),
    ],
)
def test_names_of_both_in_one_script_are_refused(first, second, text):
    find_for_script(first)
    find_for_script("ray.tune", ["run"])
    with pytest.raises(ImportError, match=text):
        find_for_script(second)


def test_the_release_follows_from_the_first_name_that_only_one_has():
    assert not release.is_2_x()
    find_for_script("ray.rllib", ["agents"])
    assert not release.is_2_x()
    release.begin()
    find_for_script("ray.rllib", ["algorithms"])
    assert release.is_2_x()


def test_a_name_of_2_x_in_a_module_of_both_decides():
    find_for_script("ray.rllib.utils.test_utils", ["check"])
    assert not release.is_2_x()
    find_for_script("ray.rllib.utils.test_utils", ["add_rllib_example_script_args"])
    assert find_for_script("ray.tune.registry").get_trainable_cls("PPO").get_default_config().lr == 5e-5


@pytest.mark.parametrize(
    ("text", "is_2_x"),
    [
        ("from ray.rllib.env.multi_agent_env import MultiAgentEnv\nfrom ray.rllib.core.columns import Columns", True),
        ("import ray\nfrom ray import tune\ntune.Tuner", False),
        ("from ray.rllib.utils.test_utils import add_rllib_example_script_args", True),
        ("import ray.rllib.agents.ppo as ppo\nimport ray.rllib.algorithms.ppo", False),
        ("try:\n    from ray.rllib.algorithms.ppo import PPO\nexcept ImportError:\n    import ray.rllib.agents", True),
        ("no python", False),
    ],
)
def test_the_imports_of_a_script_decide_before_it_runs(text, is_2_x):
    note_imports_of(text)
    assert release.is_2_x() is is_2_x


def test_a_failed_import_decides_nothing():
    with pytest.raises(ImportError):
        find_for_script("ray.rllib.agents.dreamer")
    find_for_script("ray.rllib.algorithms.ppo", ["PPOConfig"])
    assert release.is_2_x()
