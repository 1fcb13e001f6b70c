"""Policies with replay that learn from batches of a script, and DQN by a loss of a script."""

import pickle

import numpy as np
import pytest
import torch

from rookery.core.errors import ConfigError
from rookery_rllib.base.imports import find
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.policy.batch_steps import with_windows
from rookery_rllib.trainer.trainers import DDPGTrainer, DQNTrainer, R2D2Trainer, SACTrainer, SimpleQTrainer, TD3Trainer

DQNTorchPolicy = find("ray.rllib.agents.dqn.DQNTorchPolicy")
build_q_losses = find("ray.rllib.agents.dqn.dqn_torch_policy.build_q_losses")
compute_q_values = find("ray.rllib.agents.dqn.dqn_torch_policy.compute_q_values")

NAME = "default_policy"
SMALL = {"num_workers": 0, "learning_starts": 20, "train_batch_size": 16, "timesteps_per_iteration": 80, "seed": 5}
OF_DQN = {**SMALL, "env": "CartPole-v1", "model": {"fcnet_hiddens": [8]}, "hiddens": [8], "framework": "torch"}
OF_CRITICS = {**SMALL, "env": "Pendulum-v1"}
EXPLORATION = ("epsilon", "temperature", "random", "std")
"""Names that are no weights."""

NETWORKS = {
    SACTrainer: {"policy_model": {"fcnet_hiddens": [8]}, "Q_model": {"fcnet_hiddens": [8]}},
    DDPGTrainer: {"actor_hiddens": [8], "critic_hiddens": [8], "exploration_config": {"random_timesteps": 20}},
    TD3Trainer: {"actor_hiddens": [8], "critic_hiddens": [8], "exploration_config": {"random_timesteps": 20}},
}


def trained(kind, **config):
    base = OF_DQN if kind in (DQNTrainer, SimpleQTrainer) else {**OF_CRITICS, **NETWORKS[kind]}
    if kind is SimpleQTrainer:
        base = {key: value for key, value in base.items() if key != "hiddens"}
    trainer = kind(config={**base, **config})
    trainer.train()
    return trainer


def drawn(trainer):
    return trainer.local_replay_buffer.replay().policy_batches[NAME]


def weights(trainer):
    found = trainer.get_policy().get_weights().items()
    return {name: value.copy() for name, value in found if not name.endswith(EXPLORATION)}


def targets(trainer):
    learner = trainer.rookery.learners[NAME]
    found = [learner.target_net] if hasattr(learner, "target_net") else [learner.critics.target]
    found += [learner.actor_target] if hasattr(learner, "actor_target") else []
    return torch.cat([parameter.detach().flatten().clone() for net in found for parameter in net.parameters()])


def equal(one, other):
    assert one.keys() == other.keys()
    return all(np.allclose(one[name], other[name], atol=1e-6) for name in one)


KINDS = [DQNTrainer, SimpleQTrainer, SACTrainer, DDPGTrainer, TD3Trainer]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_the_script_is_learned_from_as_in_training(kind):
    one, other = trained(kind), trained(kind)
    before = weights(one)
    assert equal(before, weights(other))
    told = one.get_policy().learn_on_batch(drawn(one))  # the rows that the other one draws by itself
    other.rookery.learn(gradient_steps=1)
    assert not equal(before, weights(one))
    assert equal(weights(one), weights(other))
    assert told["td_error"].shape == (16,) and (told["td_error"] >= 0).all()
    assert told["learner_stats"]["cur_lr"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_computed_and_applied_gradients_are_one_step(kind):
    one, other = trained(kind), trained(kind)
    for _ in range(2):  # of TD3, the actor moves in one of both
        batch = drawn(one)
        one.get_policy().learn_on_batch(batch)
        before = weights(other)
        gradients, told = other.get_policy().compute_gradients(batch)
        assert equal(before, weights(other))  # nothing moves yet
        assert "learner_stats" in told
        other.get_policy().apply_gradients(gradients)
        assert equal(weights(one), weights(other))


@pytest.mark.parametrize("kind", KINDS)
def test_target_networks_wait_for_update_target(kind):
    trainer = trained(kind)
    policy, before = trainer.get_policy(), targets(trainer)
    for _ in range(3):
        policy.learn_on_batch(drawn(trainer))
    assert torch.equal(targets(trainer), before)
    policy.update_target()
    assert not torch.equal(targets(trainer), before)


def test_a_target_network_of_dqn_is_a_copy():
    trainer = trained(DQNTrainer)
    trainer.get_policy().update_target()
    learner = trainer.rookery.learners[NAME]
    assert torch.equal(targets(trainer), torch.cat([part.detach().flatten() for part in learner.net.parameters()]))


def test_a_batch_may_come_from_the_worker():
    trainer = trained(DQNTrainer, n_step=3, gamma=0.5)
    batch = trainer.workers.local_worker().sample()
    assert {"obs", "actions", "rewards", "new_obs", "dones", "discount", "weights"} <= batch.keys()
    assert trainer.workers.local_worker().learn_on_batch(batch)[NAME]["td_error"].shape == (batch.count,)


def test_rows_become_windows_of_several_decisions():
    trainer = trained(DQNTrainer, n_step=3, gamma=0.5)
    obs = np.arange(5.0)[:, None]
    ends = {"dones": np.array([False, False, False, False, True])}
    batch = SampleBatch(obs=obs, new_obs=obs + 1, actions=np.zeros(5), rewards=np.array([1, 2, 4, 8, 16.0]), **ends)
    found = with_windows(trainer.rookery.learners[NAME], batch)
    assert found["rewards"].tolist() == [1 + 1 + 1, 2 + 2 + 2, 4 + 4 + 4, 8 + 8, 16]
    assert found["new_obs"][:, 0].tolist() == [3, 4, 5, 5, 5]
    assert found["dones"].tolist() == [False, False, True, True, True]
    assert found["discount"].tolist() == [0.125, 0.125, 0, 0, 0]
    running = SampleBatch(obs=obs, new_obs=obs + 1, rewards=np.ones(5), dones=np.zeros(5, bool))
    found = with_windows(trainer.rookery.learners[NAME], running)
    assert found["discount"].tolist() == [0.125, 0.125, 0.125, 0.25, 0.5]


def test_importance_weights_of_a_batch_count():
    one, other = trained(DQNTrainer), trained(DQNTrainer)
    batch = drawn(one)
    before = weights(one)
    one.get_policy().learn_on_batch(SampleBatch({**batch, "weights": np.zeros(16, np.float32)}))
    plain = {name: column for name, column in batch.items() if name not in ("weights", "batch_indexes", "discount")}
    other.get_policy().learn_on_batch(SampleBatch(plain))
    change = {name: np.abs(value - before[name]).max() for name, value in weights(other).items()}
    kept = {name: np.abs(value - before[name]).max() for name, value in weights(one).items()}
    assert max(change.values()) > 0
    assert max(kept.values()) < 1e-3  # by Adam's momentum alone


def test_a_recurrent_policy_does_not_learn_from_rows():
    trainer = R2D2Trainer(config={"env": "CartPole-v1", "model": {"use_lstm": True, "fcnet_hiddens": [8]}})
    with pytest.raises(ConfigError, match="is recurrent: rows of a batch have no state"):
        trainer.get_policy().learn_on_batch(SampleBatch(obs=np.zeros((1, 4))))
    with pytest.raises(ConfigError, match="is recurrent, and draws sequences"):
        trainer.local_replay_buffer.replay_buffers[NAME].sample(1)
    trainer.rookery.collect(env_steps=300)
    copied = pickle.loads(pickle.dumps(trainer.local_replay_buffer))
    held = len(trainer.local_replay_buffer.replay_buffers[NAME])
    assert len(copied.replay_buffers[NAME]) == held > 200
    trainer.local_replay_buffer.set_state(copied.get_state())
    trainer.rookery.learn(gradient_steps=1)


def test_callbacks_see_the_batch():
    callbacks = find("ray.rllib.agents.callbacks.DefaultCallbacks")
    seen = []

    class Watching(callbacks):
        def on_learn_on_batch(self, *, policy, train_batch, result, **kwargs):
            seen.append(train_batch.count)

    trainer = trained(DQNTrainer, callbacks=Watching)
    seen.clear()
    trainer.get_policy().learn_on_batch(drawn(trainer))
    assert seen == [16]


# --- losses of scripts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [{}, {"n_step": 3}, {"dueling": False}, {"double_q": False},
                                    {"num_atoms": 7, "v_min": 0.0, "v_max": 30.0}])  # fmt: skip
def test_the_own_loss_of_dqn_can_be_called_by_a_script(config):
    plain, cls = trained(DQNTrainer, **config), DQNTorchPolicy.with_updates(loss_fn=build_q_losses)
    scripted = DQNTrainer.with_updates(default_policy=cls)(config={**OF_DQN, **config})
    scripted.train()
    assert equal(weights(plain), weights(scripted))
    rows = drawn(plain), drawn(scripted)
    assert all((rows[0][name] == rows[1][name]).all() for name in ("obs", "batch_indexes"))  # by equal priorities


def test_another_loss_is_what_is_learned():
    def nothing(policy, model, dist_class, train_batch):
        return 0.0 * build_q_losses(policy, model, dist_class, train_batch)

    cls = DQNTorchPolicy.with_updates(loss_fn=nothing)
    first = DQNTrainer.with_updates(default_policy=cls)(config=OF_DQN)
    before = weights(first)
    first.train()
    assert equal(before, weights(first))
    assert not equal(before, weights(trained(DQNTrainer)))


def test_a_loss_of_values_needs_priorities_if_replay_is_prioritized():
    def towards_zero(policy, model, dist_class, train_batch):
        values, *_ = compute_q_values(policy, model, {"obs": train_batch["obs"]})
        return values.square().mean()

    made = DQNTrainer.with_updates(default_policy=DQNTorchPolicy.with_updates(loss_fn=towards_zero))
    with pytest.raises(ConfigError, match="loss_fn must set policy.q_loss"):
        made(config=OF_DQN).train()
    trainer = made(config={**OF_DQN, "prioritized_replay": False, "lr": 0.05, "timesteps_per_iteration": 400})
    trainer.train()
    policy = trainer.get_policy()
    batch = {"obs": torch.from_numpy(drawn(trainer)["obs"])}
    values, logits, probs, state = compute_q_values(policy, policy.model, batch)
    assert values.shape == (16, 2) and logits.shape == probs.shape == (16, 2, 1) and state == []
    assert values.abs().max() < 0.1
    old, *_ = compute_q_values(policy, policy.target_q_model, batch)
    assert not torch.equal(values, old)
    features, _ = policy.target_q_model(batch)
    assert features.shape == (16, 8)

    wrong = DQNTrainer.with_updates(default_policy=DQNTorchPolicy.with_updates(loss_fn=lambda *given: 1.0))
    with pytest.raises(ConfigError, match="must return a scalar tensor"):
        wrong(config=OF_DQN).train()


def test_statistics_of_a_script_are_reported():
    def stats(policy, train_batch):
        return {"rows": len(train_batch["rewards"]), "rate": policy.cur_lr, "error": policy.q_loss.td_error.mean()}

    made = DQNTrainer.with_updates(default_policy=DQNTorchPolicy.with_updates(stats_fn=stats))
    trainer = made(config=OF_DQN)
    told = trainer.train()["info"]["learner"][NAME]["learner_stats"]
    assert (told["rows"], told["rate"]) == (16, 5e-4)
    assert told["error"] > 0
    assert equal(weights(trainer), weights(trained(DQNTrainer)))  # the loss is DQN's own
    assert trainer.get_policy().learn_on_batch(drawn(trainer))["learner_stats"]["rows"] == 16
