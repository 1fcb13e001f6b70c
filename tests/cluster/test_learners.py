"""A run on two learners is the run on one with doubled minibatches, and refuses what learners cannot agree on."""

from __future__ import annotations

import re

import pytest
import torch

from rookery import MultiAgentArena, PPOConfig, Trainer
from rookery.algorithms.off_policy.dqn import DQNConfig
from rookery.algorithms.off_policy.sac import SACConfig
from rookery.algorithms.off_policy.td3 import TD3Config
from rookery.algorithms.offline.bc import BCConfig
from rookery.algorithms.on_policy.a2c import A2CConfig
from rookery.algorithms.on_policy.appo import APPOConfig
from rookery.algorithms.on_policy.impala import IMPALAConfig
from rookery.cluster.ranks import Ranks, meet
from rookery.core.errors import ConfigError, TrainingError
from rookery.models.cells.table import CELLS
from selection import slow, slow_except
from small_envs import Comings
from threads import in_threads

CLUSTER = {"cluster.learners": 2}


def on_two(folder, work):
    """Returns the results of `work(ranks)` on each of two ranks, which are threads here."""

    def one(rank):
        return work(meet(folder / "ranks", rank, 2, timeout=60))

    return in_threads(one, 2)


def weights(trainer, policy="main"):
    return torch.cat([value.flatten().double() for value in trainer.policies[policy].state_dict().values()])


def learned(trainer, iterations=6):
    """By policy, the gradient of the first update, and the weights before and after so many; and the last result."""
    flat = {name: learner.optimizer.flat for name, learner in trainer.learners.items()}
    before = {name: one.data.clone() for name, one in flat.items()}
    result = trainer.train_iteration()
    first = {name: one.grad.clone() for name, one in flat.items()}
    for _ in range(iterations - 1):
        result = trainer.train_iteration()
    return {name: (first[name], before[name], one.data.clone()) for name, one in flat.items()}, result


def agree(one, both):
    """Asserts that ranks did as one learner: gradients within 1e-5, weights within 1e-4 of their change, equal
    counts.
    """
    (expected, standing), names = one, list(one[0])
    for mine, result in both:
        for name in names:
            (gradient, before, after), (own, _, end) = expected[name], mine[name]
            assert torch.linalg.vector_norm(gradient) > 0
            assert torch.linalg.vector_norm(own - gradient) <= 1e-5 * torch.linalg.vector_norm(gradient)
            assert torch.linalg.vector_norm(end - after) <= 1e-4 * torch.linalg.vector_norm(after - before)
            assert result.policies[name].decisions == standing.policies[name].decisions
        assert result.env_steps == standing.env_steps
    for name in names:
        assert torch.equal(both[0][0][name][2], both[1][0][name][2]), "ranks differ"


def test_a_run_on_two_learners_is_that_on_one_with_the_doubled_minibatch(tmp_path):
    def run(ranks, size, config):
        cfg = PPOConfig(fragment_length=32, minibatch_size=size, epochs=2, lr=3e-4, model={"normalize_obs": True})
        settings = {"warmup_steps": 0, "num_envs": 4, "seed": 5, "config": config}
        with Trainer("CartPole-v1", cfg, ranks=ranks, **settings) as trainer:
            before = weights(trainer)
            results = [trainer.train_iteration() for _ in range(2)]
            return before, weights(trainer), results[0], results[1]

    # a minibatch is the whole batch: then the rows of a gradient step are the same, in whatever order
    before, after, *one = run(Ranks(), 128, {})
    for _, mine, *ranked in on_two(tmp_path, lambda ranks: run(ranks, 64, CLUSTER)):
        assert torch.linalg.vector_norm(mine - after) <= 1e-4 * torch.linalg.vector_norm(after - before)
        for ours, theirs in zip(ranked, one, strict=True):
            assert ours.env_steps == theirs.env_steps
            assert ours.episodes == theirs.episodes
            assert ours.return_mean == pytest.approx(theirs.return_mean)
            assert ours.policies["main"].decisions == theirs.policies["main"].decisions


@pytest.mark.parametrize("normalize", [True, slow(False)])
def test_a_run_of_a2c_on_two_learners_is_that_on_one(tmp_path, normalize):
    def run(ranks, config):
        cfg = A2CConfig(normalize_advantage=normalize, model={"normalize_obs": True})
        settings = {"warmup_steps": 0, "num_envs": 4, "seed": 5, "config": config}
        with Trainer("CartPole-v1", cfg, ranks=ranks, **settings) as trainer:
            before = weights(trainer)
            for _ in range(4):
                trainer.train_iteration()
            return before, weights(trainer)

    before, after = run(Ranks(), {})
    for _, mine in on_two(tmp_path, lambda ranks: run(ranks, CLUSTER)):
        assert torch.linalg.vector_norm(mine - after) <= 1e-4 * torch.linalg.vector_norm(after - before)


REPLAYING = {"learning_starts": 64, "batch_size": 16, "model": {"normalize_obs": True}}


@pytest.mark.parametrize(
    ("env", "cfg"), [("CartPole-v1", DQNConfig(**REPLAYING)), slow("Pendulum-v1", TD3Config(**REPLAYING))]
)
def test_learners_from_replay_end_with_the_same_weights(tmp_path, env, cfg):
    def run(ranks):
        with Trainer(env, cfg, ranks=ranks, num_envs=4, seed=5, config=CLUSTER) as trainer:
            before = weights(trainer)
            assert trainer.train({"env_steps": 200}).env_steps == 200
            assert not torch.equal(before, weights(trainer))
            return weights(trainer)

    first, second = on_two(tmp_path, run)
    assert torch.equal(first, second)


def shared(size, **settings):
    """PPO whose minibatch is the whole batch: the rows of a gradient step are then the same, in whatever order."""
    return PPOConfig(
        fragment_length=16, minibatch_size=size, epochs=1, lr=3e-4, model={"normalize_obs": True}, **settings
    )


ARENA = {"agent1": "north", "agent2": "south"}


@pytest.mark.parametrize(
    ("env", "mapping", "more"),
    [slow(MultiAgentArena, ARENA, {}), (MultiAgentArena, ARENA, {"rollout_size": 70}), (Comings, None, {})],
    ids=["together", "by a batch", "in turn"],
)
def test_policies_on_two_learners_are_those_on_one(tmp_path, env, mapping, more):
    def run(ranks, size, config):
        policies = {"north": shared(size, **more), "south": shared(size, gamma=0.9, entropy_coef=0.0, **more)}
        policies |= {"guest": shared(size, rollout_size=2)} if mapping is None else {}  # often of one rank alone
        settings = {"policies": policies, "policy_mapping": mapping, "warmup_steps": 0, "num_envs": 4, "seed": 5}
        with Trainer(env, ranks=ranks, config=config, **settings) as trainer:
            found, result = learned(trainer, 6 if mapping else 5)
            assert mapping is not None or result.policies["guest"].decisions > 5
            # who comes first has the first slot of all ranks or of its own, and other noise
            return {name: found[name] for name in ("north", "south")}, result

    one, both = run(Ranks(), 100_000, {}), on_two(tmp_path, lambda ranks: run(ranks, 50_000, CLUSTER))
    agree(one, both)
    for _, result in both:
        assert result.episodes == one[1].episodes
        assert result.return_mean == pytest.approx(one[1].return_mean)


REMEMBERS = {"hidden": (16,), "normalize_obs": True}


@pytest.mark.parametrize("kind", slow_except("lstm", of=CELLS))
@pytest.mark.parametrize("algorithm", [PPOConfig, slow(A2CConfig)])
def test_a_policy_that_remembers_on_two_learners_is_that_on_one(tmp_path, algorithm, kind):
    model = {**REMEMBERS, "memory": {"kind": kind, "size": 16, "sequence_length": 8}}

    def run(ranks, size, config):
        ppo = {"minibatch_size": size, "epochs": 1} if algorithm is PPOConfig else {"normalize_advantage": True}
        cfg = algorithm(fragment_length=20, lr=3e-4, model=model, **ppo)
        settings = {"warmup_steps": 0, "num_envs": 4, "seed": 5, "config": config}
        with Trainer("CartPole-v1", cfg, ranks=ranks, **settings) as trainer:
            return learned(trainer)

    agree(run(Ranks(), 100_000, {}), on_two(tmp_path, lambda ranks: run(ranks, 50_000, CLUSTER)))


@pytest.mark.parametrize("algorithm", [slow("impala"), "appo", slow("appo with memory")])
def test_importance_sampling_on_two_learners_is_that_on_one(tmp_path, algorithm):
    def run(ranks, size, config):
        model = {**REMEMBERS, **({"memory": {"kind": "lstm", "size": 8}} if "memory" in algorithm else {})}
        more = {"minibatch_size": size, "buffered_batches": 1, "kl_coef": 0.1, "target_every": 3}
        kind, more = (IMPALAConfig, {"normalize_advantage": True}) if algorithm == "impala" else (APPOConfig, more)
        cfg = kind(fragment_length=16, rollout_size=62, lr=3e-4, model=model, **more)
        settings = {"warmup_steps": 0, "num_envs": 4, "seed": 5, "config": config}
        with Trainer("CartPole-v1", cfg, ranks=ranks, **settings) as trainer:
            return learned(trainer)

    agree(run(Ranks(), 100_000, {}), on_two(tmp_path, lambda ranks: run(ranks, 50_000, CLUSTER)))


@pytest.mark.parametrize("env", [MultiAgentArena, slow(Comings)])
def test_what_is_played_ahead_on_two_learners_is_that_of_one(tmp_path, env):
    names = ["agent1", "agent2"] if env is MultiAgentArena else ["north", "south", "guest"]

    def run(ranks, size, config):
        policies = {name: shared(size, **({"rollout_size": 2} if name == "guest" else {})) for name in names}
        settings = {"policies": policies, "warmup_steps": 0, "num_envs": 4, "seed": 5, "staleness": 1}
        with Trainer(env, ranks=ranks, config=config, **settings) as trainer:
            found, result = learned(trainer)
            assert 0 < result.policies[names[0]].learning["stale_fraction"] <= 1
            return {name: found[name] for name in names[:2]}, result

    agree(run(Ranks(), 100_000, {}), on_two(tmp_path, lambda ranks: run(ranks, 50_000, CLUSTER)))


def test_policies_of_other_algorithms_learn_beside_each_other(tmp_path):
    def run(ranks):
        policies = {"north": shared(32), "south": DQNConfig(**REPLAYING), "guest": shared(8, rollout_size=2)}
        with Trainer(Comings, policies=policies, ranks=ranks, num_envs=4, seed=5, config=CLUSTER) as trainer:
            while not trainer.replays["south"].gradient_steps:
                result = trainer.train_iteration()
            made = trainer.replays["south"].gradient_steps
            return {name: weights(trainer, name) for name in policies}, result.policies["south"].decisions, made

    (first, decisions, made), second = on_two(tmp_path, run)
    assert (decisions, made) == second[1:]
    for name, mine in first.items():
        assert torch.equal(mine, second[0][name])


def test_signals_learn_in_step_only_where_decisions_are_as_many(tmp_path):
    def run(ranks):
        policies = {"north": shared(32, signals={"rnd": {}}), "south": shared(32), "guest": shared(32)}
        with Trainer(Comings, policies=policies, ranks=ranks, num_envs=4, seed=5, config=CLUSTER) as trainer:
            with pytest.raises(TrainingError) as caught:  # of the slower one perhaps that the other has gone
                trainer.train({"iterations": 20})
            return str(caught.value)

    said = " ".join(on_two(tmp_path, run))
    assert re.search(r"policies\.north\.signals: the learners have \d+, \d+ decisions", said)


def test_replay_of_a_policy_that_one_learner_never_plays_is_an_error(tmp_path):
    def run(ranks):
        def first_half(agent, episode):
            return "left" if episode.lane < 2 else "right"

        policies = {"left": DQNConfig(learning_starts=8, batch_size=8), "right": shared(32)}
        settings = {"policies": policies, "policy_mapping": first_half, "num_envs": 4, "seed": 5}
        with Trainer("CartPole-v1", ranks=ranks, config=CLUSTER, **settings) as trainer:
            with pytest.raises(TrainingError) as caught:  # of the slower one perhaps that the other has gone
                trainer.train({"iterations": 20})
            return str(caught.value)

    assert "'left': learner 1 of 2 has never played it" in " ".join(on_two(tmp_path, run))


def test_a_policy_that_one_learner_never_plays_is_learned_by_what_the_others_play(tmp_path):
    def run(ranks, size, config):
        def first_half(agent, episode):
            return "left" if episode.lane < 2 else "right"

        policies = {"left": shared(size), "right": shared(size)}
        settings = {"policies": policies, "policy_mapping": first_half, "num_envs": 4, "seed": 5, "warmup_steps": 0}
        with Trainer("CartPole-v1", ranks=ranks, config=config, **settings) as trainer:
            return learned(trainer, 3)

    one, both = run(Ranks(), 100_000, {}), on_two(tmp_path, lambda ranks: run(ranks, 50_000, CLUSTER))
    for found, _ in (one, *both):
        found.pop("right")  # its slots are the first of the run, and not the first of rank 1
    agree(one, both)


class Two(Ranks):
    size = 2


@pytest.mark.parametrize(
    ("env", "cfg", "settings", "message"),
    [
        ("CartPole-v1", PPOConfig(), {"num_envs": 1}, r"num_envs = 1 are too few"),
        ("CartPole-v1", PPOConfig(), {"num_envs": 3}, r"write num_envs=4"),
        (
            "CartPole-v1",
            BCConfig(),
            {},
            r"algorithm\.name = bc does .*use ppo, a2c, impala, appo, dqn, sac, td3 or ddpg",
        ),
        ("Pendulum-v1", SACConfig(critic={"norm": "batch"}), {}, r"critic\.norm = batch: .*set .*critic\.norm=none"),
        ("CartPole-v1", PPOConfig(), {"workers": 2}, r"sampling\.workers"),
    ],
)
def test_what_learners_cannot_agree_on_is_refused(env, cfg, settings, message):
    with pytest.raises(ConfigError, match=r"cluster\.learners = 2.*" + message):
        Trainer(env, cfg, ranks=Two(), **{"num_envs": 4, "config": CLUSTER, **settings})


class Three(Ranks):
    size = 3


def test_as_many_learners_are_asked_for_as_there_are():
    with pytest.raises(ConfigError, match=r"cluster\.learners = 2: the run has 3 learner\(s\)"):
        Trainer("CartPole-v1", PPOConfig(), ranks=Three(), config=CLUSTER)
