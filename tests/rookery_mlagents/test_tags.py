"""Every tag of ML-Agents is written for the trainers it belongs to, or is listed with the reason why not."""

import re

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from recorded import poles
from rookery import DQNConfig, PPOConfig, SACConfig, Trainer
from rookery.algorithms.multi_agent.poca import POCAConfig
from rookery_mlagents.files.run_files import RunFiles
from rookery_mlagents.files.sections import BehaviorOptions
from rookery_mlagents.files.tensorboard_tags import ALL, TAGS, Seen, histograms_of, tags_of

NAMES = """
Environment/Cumulative Reward; Environment/Cumulative Reward_hist; Environment/Episode Length;
Environment/Lesson Number/<parameter>; Environment/Group Cumulative Reward;
Environment/Group Cumulative Reward_hist; Policy/Entropy; Policy/Learning Rate;
Policy/Epsilon; Policy/Beta; Policy/<signal> Reward; Policy/<signal> Value Estimate; Policy/<signal> Value;
Policy/<signal> Baseline Estimate; Policy/Continuous Entropy Coeff; Policy/Discrete Entropy Coeff;
Policy/GAIL Policy Estimate; Policy/GAIL Expert Estimate; Policy/GAIL Beta; Policy/GAIL Grad Mag Loss;
Losses/Policy Loss; Losses/Value Loss; Losses/Baseline Loss; Losses/Q1 Loss; Losses/Q2 Loss;
Losses/Curiosity Forward Loss; Losses/Curiosity Inverse Loss; Losses/GAIL Loss; Losses/GAIL KL Loss; Losses/RND Loss;
Losses/Pretraining Loss; Self-play/ELO; Is Training; Step
"""
"""What ML-Agents 1.1.0 gives to TensorBoard, but the text Hyperparameters."""

NO_VALUES = {"Losses/Value Loss"}
"""What SAC has no network for, as the table says."""


def test_the_table_has_every_tag_once():
    listed = [name for name in re.split(r"[;\n]\s*", NAMES.strip()) if name]
    assert sorted(tag.name for tag in TAGS) == sorted(listed)
    assert all(tag.measure or tag.reason for tag in TAGS)
    assert all(set(tag.trainers) <= set(ALL) for tag in TAGS)


def written(folder, name="main"):
    """Tags that a run has written, with their last values."""
    found = EventAccumulator(str(folder / name), size_guidance={"scalars": 0})
    found.Reload()
    tags = found.Tags()
    assert "Hyperparameters/text_summary" in tags["tensors"]
    return {tag: found.Scalars(tag)[-1].value for tag in tags["scalars"]} | dict.fromkeys(tags["histograms"])


def train(folder, env, cfg, steps=600, **settings):
    """Trains briefly with ML-Agents' files; gives the tags."""
    files = RunFiles({"behaviors": {"main": {}}}, lambda name: BehaviorOptions(summary_freq=100))
    values = {"num_envs": 2, "seed": 1, "config": {"logging.tensorboard": False}, **settings}
    with Trainer(env, cfg, run_dir=folder, callbacks=[files], **values) as trainer:
        trainer.train({"env_steps": steps})
        learning = trainer._last_learning["main"]
    return written(folder), learning


def belonging(trainer, signals=("Extrinsic",), parameters=()):
    """The tags of a trainer, with names of signals and parameters put in."""
    found = set()
    for tag in TAGS:
        if tag.measure and trainer in tag.trainers:
            names = signals if "<signal>" in tag.name else parameters
            found |= {re.sub("<.*>", one, tag.name) for one in names} if "<" in tag.name else {tag.name}
    return found


@pytest.fixture(scope="module")
def ppo(tmp_path_factory):
    """PPO with all that rewards and imitates, and lessons."""
    folder = tmp_path_factory.mktemp("ppo")
    shown = poles(folder / "shown", episodes=1)
    signals = {"curiosity": {}, "rnd": {}, "gail": {"replay": [shown], "bottleneck": 8}}
    cfg = PPOConfig(fragment_length=16, rollout_size=64, epochs=1, signals=signals, imitation={"replay": [shown]})
    return train(folder / "run", "CartPole-v1", cfg)


def test_ppo_with_every_signal(ppo):
    signals = ("Extrinsic", "Curiosity", "Rnd", "Gail")
    alone = {tag for tag in belonging("ppo", signals) if re.search("Group|ELO", tag)}  # groups, opponents: below
    assert set(ppo[0]) == belonging("ppo", signals) - alone


def test_values_mean_what_their_tags_say(ppo):
    tags, learning = ppo
    assert tags["Policy/Extrinsic Reward"] == pytest.approx(tags["Environment/Cumulative Reward"])
    assert tags["Environment/Cumulative Reward"] == pytest.approx(tags["Environment/Episode Length"])  # 1 a step
    assert tags["Policy/Learning Rate"] == pytest.approx(learning["lr"])
    assert tags["Policy/Epsilon"] == pytest.approx(learning["clip"])
    assert tags["Policy/Beta"] == pytest.approx(PPOConfig().entropy_coef)
    assert 0 < tags["Policy/Extrinsic Value Estimate"] < 100
    assert 0 < tags["Policy/Entropy"] < 0.7


@pytest.mark.parametrize(
    ("env", "settings", "coefficient"),
    [("Pendulum-v1", {}, "Continuous"), ("CartPole-v1", {"discrete": True}, "Discrete")],
)
def test_sac(tmp_path, env, settings, coefficient):
    cfg = SACConfig(learning_starts=50, batch_size=16, updates_per_step=0.1, model={"hidden": (16,)}, **settings)
    tags, learning = train(tmp_path, env, cfg, steps=500)
    of_others = {tag for tag in belonging("sac") if re.search("GAIL|Curiosity|RND|Pretraining|Group|ELO", tag)}
    other = {"Policy/Continuous Entropy Coeff", "Policy/Discrete Entropy Coeff"} - {
        f"Policy/{coefficient} Entropy Coeff"
    }
    assert set(tags) == belonging("sac") - of_others - other - NO_VALUES
    assert tags["Policy/Extrinsic Value"] == pytest.approx(learning["q_mean"])
    assert tags[f"Policy/{coefficient} Entropy Coeff"] == pytest.approx(learning["alpha"])
    assert tags["Losses/Q1 Loss"] != tags["Losses/Q2 Loss"]
    assert tags["Losses/Q1 Loss"] + tags["Losses/Q2 Loss"] == pytest.approx(learning["critic_loss"])


@pytest.mark.slow
def test_poca_of_groups(tmp_path):
    cfg = POCAConfig(fragment_length=16, rollout_size=64, epochs=1)
    tags, _ = train(tmp_path, "rookery.tasks:CarryTogether", cfg, steps=1000, num_envs=4)
    of_others = {tag for tag in belonging("poca") if re.search("GAIL|Curiosity|RND|Pretraining|ELO", tag)}
    assert set(tags) == belonging("poca") - of_others


def test_lessons_and_ratings(tmp_path):
    cfg = PPOConfig(fragment_length=16, rollout_size=64, epochs=1)
    lessons = {"wall_height": {"threshold": 1e9, "lessons": [0.0, 1.0]}}
    tags, _ = train(tmp_path / "a", "rookery.tasks.wall_curriculum:WallCurriculum", cfg, curriculum=lessons)
    assert tags["Environment/Lesson Number/wall_height"] == 0
    tags, _ = train(tmp_path / "b", "rookery.tasks:TicTacToe", cfg, self_play={"main": {"rating_games": 0}})
    assert tags["Self-play/ELO"] == pytest.approx(1200, abs=200)


@pytest.mark.slow
def test_an_algorithm_of_ones_own_has_what_it_measures(tmp_path):
    cfg = DQNConfig(batch_size=16, learning_starts=50, model={"hidden": (16,)})
    tags, _ = train(tmp_path, "CartPole-v1", cfg)
    assert {"Environment/Cumulative Reward", "Policy/Learning Rate"} <= set(tags)


def test_returns_of_agents_and_of_groups_are_histograms():
    seen = Seen((1.0, 2.0), (5, 6), (3.0,), {}, {}, {}, {}, {}, {}, None, {}, {})
    assert histograms_of(seen) == {
        "Environment/Cumulative Reward_hist": (1.0, 2.0),
        "Environment/Group Cumulative Reward_hist": (3.0,),
    }


def test_what_there_is_none_of_is_left_out_and_foreign_numbers_keep_their_names():
    nothing = Seen((), (), (), {"kl": 1.0}, {}, {}, {}, {}, {}, None, {}, {"Goals": 3.0})
    assert tags_of(nothing, "ppo") == {"Goals": 3.0}
    broken = Seen((1.0,), (5,), (), {"policy_loss": float("nan")}, {}, {}, {"extrinsic": 2.0}, {}, {}, None, {}, {})
    assert tags_of(broken, "ppo") == {
        "Environment/Cumulative Reward": 1.0,
        "Environment/Episode Length": 5.0,
        "Policy/Extrinsic Reward": 2.0,
    }


@pytest.mark.slow
def test_sac_of_choices_and_numbers_has_both_coefficients(tmp_path):
    cfg = SACConfig(learning_starts=50, batch_size=16, updates_per_step=0.02, model={"hidden": (16,)})
    tags, _ = train(tmp_path, "rookery.tasks:FoodCollector", cfg, steps=100)
    assert tags["Policy/Continuous Entropy Coeff"] > 0
    assert tags["Policy/Discrete Entropy Coeff"] > 0
