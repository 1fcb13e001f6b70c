"""Policies with a loss of a script's own in trainers: who acts, what is learned from, how often, what is kept."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from restored import check_that_it_goes_on, weights_of

from rookery.core.errors import ConfigError
from rookery_rllib.examples.multi_agent_envs import TwoStepGame
from rookery_rllib.policy.callbacks import DefaultCallbacks
from rookery_rllib.policy.loss_policies import LossActor, ScriptLoss, TorchActor
from rookery_rllib.policy.losses import post_process_advantages, ppo_surrogate_loss
from rookery_rllib.policy.policies import Policy
from rookery_rllib.policy.script_policies import ScriptActor
from rookery_rllib.policy.templates import PPOTorchPolicy, build_policy_class
from rookery_rllib.trainer.trainers import DQNTrainer, PGTrainer, PPOTrainer, build_trainer

SMALL = {"model": {"fcnet_hiddens": [16]}, "seed": 0, "num_workers": 0}


def score(policy, model, dist_class, train_batch):
    outputs, _ = model(train_batch)
    return -(dist_class(outputs, model).logp(train_batch["actions"]) * train_batch["advantages"]).mean()


def trainer_of(base=None, env="CartPole-v1", config=None, **parts):
    policy = build_policy_class(
        "Mine", "torch", **{"loss_fn": score, "postprocess_fn": post_process_advantages, **parts}
    )
    given = {"rollout_fragment_length": 20, "train_batch_size": 20, **SMALL, **(config or {})}
    return build_trainer("Own", default_policy=policy, base=base)(env=env, config=given)


def test_one_step_a_batch_with_the_trainers_rate():
    counts = []

    def counted(policy, model, dist_class, train_batch):
        counts.append(train_batch.count)
        return score(policy, model, dist_class, train_batch)

    trainer = trainer_of(loss_fn=counted, config={"num_envs_per_worker": 2, "train_batch_size": 100, "lr": 0.3})
    counts.clear()
    assert isinstance(trainer.rookery.learners["default_policy"], ScriptLoss)
    assert trainer.train()["timesteps_total"] == 120  # whole rounds of 2 x 20
    assert counts == [120]
    assert trainer.get_policy()._optimizers[0].param_groups[0]["lr"] == 0.3


def test_a_trainer_with_epochs_learns_in_minibatches():
    counts = []

    def counted(policy, model, dist_class, train_batch):
        counts.append(train_batch.count)
        assert abs(float(train_batch["advantages"].mean())) < 3
        return ppo_surrogate_loss(policy, model, dist_class, train_batch)

    cls = PPOTorchPolicy.with_updates(loss_fn=counted)
    config = {"rollout_fragment_length": 20, "train_batch_size": 40, "sgd_minibatch_size": 16, "num_sgd_iter": 3}
    trainer = build_trainer("Own", default_policy=cls, base=PPOTrainer)(env="CartPole-v1", config={**SMALL, **config})
    counts.clear()
    stats = trainer.train()["info"]["learner"]["default_policy"]["learner_stats"]
    assert counts == [counts[0]] + counts[1:] and sum(counts) == 3 * 40
    assert len(counts) == 9
    assert {"total_loss", "kl", "cur_kl_coeff", "vf_explained_var"} <= stats.keys()
    assert trainer.get_policy().kl_coeff in (0.1, 0.2, pytest.approx(0.3))


def test_it_is_learned_from_trajectories_cut_where_fragments_end():
    ends = []

    def look(policy, batch, others, episode):
        ends.append((batch.count, bool(batch["dones"][-1])))
        assert not batch["dones"][:-1].any()
        return post_process_advantages(policy, batch, others, episode)

    trainer = trainer_of(postprocess_fn=look, config={"train_batch_size": 60})
    ends.clear()
    trainer.train()
    assert sum(count for count, _ in ends) == 60
    assert all(done or count <= 20 for count, done in ends)
    assert not all(done for _, done in ends)
    trainer = trainer_of(postprocess_fn=look, config={"train_batch_size": 60, "batch_mode": "complete_episodes"})
    ends.clear()
    trainer.train()
    assert all(done for _, done in ends[:-1])


def test_whoever_plays_has_a_model_of_its_own_with_the_same_weights():
    trainer = trainer_of(config={"lr": 0.1})
    actor, playing = trainer.rookery.policies["default_policy"], trainer.rookery._pool.worker.policies["default_policy"]
    assert type(actor) is LossActor
    learned = dict(trainer.get_policy().model.named_parameters())
    for _ in range(2):
        trainer.train()
        copies = dict(playing.policy.named_parameters())
        assert len(copies) == len(learned)
        for name, weight in learned.items():
            (copied,) = (each for key, each in copies.items() if key.endswith(name))
            assert torch.equal(copied, weight)
            assert copied is not weight
    doubled = {name: 2 * weight for name, weight in trainer.get_policy().get_weights().items()}
    trainer.get_policy().set_weights(doubled)
    for name, weight in doubled.items():
        assert any(key.endswith(name) and (copied.numpy() == weight).all() for key, copied in copies.items())


@pytest.mark.parametrize("way", ["drawn", "own"])
def test_equal_seeds_give_equal_runs(way):
    def sampler(policy, model, input_dict, state, explore, timestep):
        drawn = policy.dist_class(model(input_dict)[0], model)
        actions = drawn.sample()
        return actions, drawn.logp(actions), []

    parts = {} if way == "drawn" else {"action_sampler_fn": sampler}
    one, other = trainer_of(**parts), trainer_of(**parts)
    assert type(one.rookery.policies["default_policy"]) is (LossActor if way == "drawn" else TorchActor)
    for trainer in (one, other):
        torch.rand(trainer is one and 3 or 5)  # what others draw meanwhile
        for _ in range(3):
            trainer.train()
    assert np.array_equal(weights_of(one), weights_of(other))


def test_a_restored_trainer_goes_on_to_the_same_weights(tmp_path):
    config = {"rollout_fragment_length": 20, "train_batch_size": 40, "sgd_minibatch_size": 20, "num_sgd_iter": 2}
    cls = PPOTorchPolicy.with_updates(loss_fn=lambda *given: 1.0 * ppo_surrogate_loss(*given))
    made = build_trainer("Own", default_policy=cls, base=PPOTrainer)
    one, other = (made(env="CartPole-v1", config={**SMALL, **config, "kl_target": 1e-9}) for _ in range(2))
    for _ in range(2):
        one.train()
    check_that_it_goes_on(one, other, tmp_path)
    assert other.get_policy().kl_coeff == one.get_policy().kl_coeff > 0.2


def test_a_model_that_remembers_learns_from_what_it_remembered():
    worst = []

    def watched(policy, model, dist_class, batch):
        outputs, _ = model(batch)
        lengths, steps = batch["seq_lens"], len(outputs) // len(batch["seq_lens"])
        there = (torch.arange(steps) < lengths.unsqueeze(1)).reshape(-1)
        gap = (dist_class(outputs, model).logp(batch["actions"]) - batch["action_logp"]).abs()[there]
        worst.append((float(gap.detach().max()), steps))
        return ppo_surrogate_loss(policy, model, dist_class, batch)

    cls = PPOTorchPolicy.with_updates(loss_fn=watched)
    config = {"rollout_fragment_length": 30, "train_batch_size": 60, "sgd_minibatch_size": 60, "num_sgd_iter": 1}
    config |= {"lr": 1e-12, "model": {"fcnet_hiddens": [8], "use_lstm": True, "lstm_cell_size": 6, "max_seq_len": 7}}
    trainer = build_trainer("Own", default_policy=cls, base=PPOTrainer)(env="CartPole-v1", config={**SMALL, **config})
    worst.clear()
    for _ in range(3):
        trainer.train()
    assert max(gap for gap, _ in worst) < 1e-5
    assert {steps for _, steps in worst} == {7}


def test_pg_learns_with_a_memory():
    config = {**SMALL, "model": {"fcnet_hiddens": [8], "use_lstm": True, "lstm_cell_size": 4}, "train_batch_size": 50}
    trainer = PGTrainer(env="CartPole-v1", config=config)
    before = trainer.get_policy().get_weights()
    trainer.train()
    assert any((weight != before[name]).any() for name, weight in trainer.get_policy().get_weights().items())


class Reach(gymnasium.Env):
    """Shows its last action, which is a number from 1 to 5."""

    observation_space, action_space = Box(-9, 9, (1,)), Box(np.float32([1]), np.float32([5]))

    def __init__(self, config=None):
        self.taken = []

    def reset(self, seed=None, options=None):
        self.taken = []
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.taken.append(float(action[0]))
        return np.float32(action), float(action[0]), len(self.taken) >= 5, False, {}


@pytest.mark.parametrize("way", ["drawn", "own"])
def test_actions_of_bounded_boxes(way):
    seen = []

    def look(policy, model, dist_class, batch):
        seen.append(batch)
        return model(batch)[0].sum() * 0

    def sampler(policy, model, input_dict, state, explore, timestep):
        return torch.full((len(input_dict["obs"]), 1), 4.5), torch.zeros(len(input_dict["obs"])), []

    trainer = trainer_of(env=Reach, loss_fn=look, **({} if way == "drawn" else {"action_sampler_fn": sampler}))
    seen.clear()
    trainer.train()
    batch = seen[-1]
    if way == "own":  # a way of its own to act gives what the environment takes
        assert np.allclose(batch["actions"], 4.5)
        assert np.allclose(batch["rewards"], 4.5)
        assert trainer.compute_action(np.zeros(1, np.float32)) == pytest.approx(4.5)
    else:  # numbers of a distribution, of which -1 to 1 are the bounds
        assert np.allclose(batch["rewards"], np.clip(3 + 2 * batch["actions"][:, 0], 1, 5), atol=1e-5)
        assert 1 <= trainer.compute_action(np.zeros(1, np.float32))[0] <= 5


def test_trajectories_of_the_others_lie_beside():
    seen = []

    class Told(DefaultCallbacks):
        def on_postprocess_trajectory(
            self, *, agent_id, policy_id, postprocessed_batch, original_batches, episode, **kw
        ):
            seen.append((agent_id, policy_id, set(original_batches), "more" in postprocessed_batch, episode.length))

    def look(policy, batch, others, episode):
        if others:
            ((other, (face, theirs)),) = others.items()
            assert face is not policy
            assert np.array_equal(theirs["rewards"], batch["rewards"])  # both get the same in this game
            assert theirs.count == batch.count
            batch["more"] = np.full(batch.count, other)
        return post_process_advantages(policy, batch, others, episode)

    spaces = (None, Discrete(6), TwoStepGame.action_space, {})
    config = {"multiagent": {"policies": {"pol1": spaces, "pol2": spaces},
                             "policy_mapping_fn": lambda agent: "pol1" if agent == 0 else "pol2"}}  # fmt: skip
    trainer = trainer_of(env=TwoStepGame, postprocess_fn=look, config={**config, "callbacks": Told})
    trainer.train()
    assert {(agent, policy) for agent, policy, *_ in seen} == {(0, "pol1"), (1, "pol2")}
    assert all(both == {0, 1} and more for _, _, both, more, _ in seen)
    assert {length for *_, length in seen} == {2}


def test_callbacks_see_the_batch_and_may_report():
    class Told(DefaultCallbacks):
        def on_learn_on_batch(self, *, policy, train_batch, result, **kwargs):
            result["rows"] = train_batch.count

    told = trainer_of(config={"callbacks": Told}).train()
    assert told["info"]["learner"]["default_policy"]["custom_metrics"] == {"rows": 20}


def test_a_trainer_that_learns_from_replay_refuses_an_own_loss():
    with pytest.raises(ConfigError, match=r"Mine has its own loss.*this trainer learns from replay: train it by"):
        trainer_of(base=DQNTrainer)


def test_hand_written_policies_are_told_of_their_last_action_and_reward():
    seen = []

    class Counting(Policy):
        def compute_actions(self, obs_batch, state_batches=None, prev_action_batch=None, prev_reward_batch=None, **kw):
            seen.append((float(obs_batch[0][0]), prev_action_batch[0].copy(), float(prev_reward_batch[0])))
            return np.full((len(obs_batch), 1), 1.5 + len(seen) % 3), [], {}

        def learn_on_batch(self, samples):
            assert np.allclose(samples["actions"][:, 0], samples["rewards"])
            return {}

    trainer = build_trainer("Own", default_policy=Counting)(env=Reach, config={**SMALL, "train_batch_size": 20})
    assert isinstance(trainer.rookery.policies["default_policy"], ScriptActor)
    trainer.train()
    first = [(action[0], reward) for obs, action, reward in seen if obs == 0.0]
    later = [(obs, action[0], reward) for obs, action, reward in seen if obs != 0.0]
    assert first and all(pair == (0.0, 0.0) for pair in first)
    assert later and all(obs == pytest.approx(action) == pytest.approx(reward) for obs, action, reward in later)


@pytest.mark.slow
@pytest.mark.parametrize("weight", [1.0, 0.0])
def test_a_loss_of_a_script_learns_cartpole(weight):
    def loss(policy, model, dist_class, train_batch):
        logits, _ = model({"obs": train_batch["obs"]})
        gains = train_batch["advantages"]
        gains = (gains - gains.mean()) / (gains.std() + 1e-6)
        return -weight * dist_class(logits, model).logp(train_batch["actions"]).dot(gains) / len(gains)

    config = {"num_workers": 2, "num_envs_per_worker": 4, "rollout_fragment_length": 100, "train_batch_size": 800}
    trainer = trainer_of(
        env="CartPole-v0", loss_fn=loss, config={**config, "lr": 0.01, "model": {"fcnet_hiddens": [32]}}
    )
    best = max(trainer.train()["episode_reward_mean"] for _ in range(40))
    assert best > 60 if weight else best < 40
