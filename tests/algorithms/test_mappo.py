"""MAPPO: what its critic sees of a group, who is learned from, and the loss of PPO but for large errors of values."""

import itertools

import numpy as np
import pytest
import torch
from gymnasium import spaces
from pettingzoo import ParallelEnv
from test_loss_gradients import PPO_SETTINGS, TOLERANCE, Learning, cases

from rookery import ConfigError, EnvError, MAPPOConfig, PPOConfig, Trainer
from rookery.algorithms.multi_agent.mappo import acting_rows, mappo_gradient, mappo_kernel, mappo_loss, mappo_steps
from rookery.algorithms.on_policy.actor_critic import values_of
from rookery.algorithms.on_policy.ppo import ppo_gradient, ppo_loss
from rookery.core.errors import SpaceError
from rookery.core.spaces.arrays import CENTRAL
from rookery.models.heads import Outputs
from selection import slow, slow_repeats

ACTED = f"{CENTRAL}/acted"


class Pair(ParallelEnv):
    """Two who each see a number of their own, and are paid for the product of both; the left one leaves early."""

    metadata = {"render_modes": [], "name": "pair"}
    possible_agents = ["left", "right"]
    groups = {"both": ["left", "right"]}

    def __init__(self, state=False, leaves=False):
        self.state_too, self.leaves = state, leaves

    def observation_space(self, agent):
        own = spaces.Box(-5, 5, (1,), np.float32)
        if not self.state_too:
            return own
        return spaces.Dict({"own": own, CENTRAL: spaces.Dict({"state": spaces.Box(-5, 5, (2,), np.float32)})})

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.rng = np.random.default_rng(seed) if seed is not None else self.rng
        self.agents, self.time = list(self.possible_agents), 0
        return self.seen(), {agent: {} for agent in self.agents}

    def seen(self):
        self.numbers = self.rng.choice([-1.0, 1.0], 2).astype(np.float32)
        shown = {}
        for agent, number in zip(self.possible_agents, self.numbers, strict=True):
            own = np.array([number], np.float32)
            shown[agent] = {"own": own, CENTRAL: {"state": self.numbers.copy()}} if self.state_too else own
        return {agent: shown[agent] for agent in self.agents}

    def step(self, actions):
        self.time += 1
        here = list(self.agents)
        reward = dict.fromkeys(here, float(self.numbers.prod()))
        gone = {agent: self.leaves and agent == "left" and self.time == 2 for agent in here}
        over = dict.fromkeys(here, self.time == 4)
        self.agents = [agent for agent in here if not gone[agent] and not over[agent]]
        shown = self.seen()
        shown = {agent: shown.get(agent, self.nothing()) for agent in here}
        ended = {agent: gone[agent] or over[agent] for agent in here}
        return shown, reward, ended, dict.fromkeys(here, False), {agent: {} for agent in here}

    def nothing(self):
        own = np.zeros(1, np.float32)
        return {"own": own, CENTRAL: {"state": np.zeros(2, np.float32)}} if self.state_too else own

    def render(self):
        return None

    def close(self):
        pass


def trainer_of(algorithm=MAPPOConfig, env=None, seed=0, lanes=4, **settings):
    model = settings.pop("model", {"hidden": (16,)})
    cfg = algorithm(**{"fragment_length": 8, "minibatch_size": 32, "model": model, **settings})
    return Trainer(Pair, cfg, seed=seed, config={"env.config": env or {}}, sampling={"num_envs": lanes})


def rollout_of(trainer):
    (rollout,) = trainer._pool.sample(1000).rollouts.values()
    return rollout


def paths(trainer):
    return {leaf.path for leaf in trainer.policies["main"].obs_spec.leaves}


MEMBERS = {f"{CENTRAL}/members/own", f"{CENTRAL}/alive"}
GROUP_PATHS = {f"{CENTRAL}/me", ACTED}


@pytest.mark.parametrize(
    ("sees", "wanted"),
    [
        ("auto", {f"{CENTRAL}/state"}),
        ("state", {f"{CENTRAL}/state"}),
        ("members", MEMBERS),
        ("both", {f"{CENTRAL}/state", *MEMBERS}),
    ],
)
def test_critics_see_the_state_the_members_or_both(sees, wanted):
    with trainer_of(env={"state": True}, critic_sees=sees) as trainer:
        assert paths(trainer) == {"own", *GROUP_PATHS, *wanted}
        trainer.train_iteration()
        assert trainer.learners["main"].on_kernels


def test_where_there_is_no_state_critics_see_the_members():
    with trainer_of() as trainer:
        assert paths(trainer) == {"obs", f"{CENTRAL}/members/obs", f"{CENTRAL}/alive", *GROUP_PATHS}
    with pytest.raises(ConfigError, match=r"critic_sees = 'state'.*shows no state"):
        trainer_of(critic_sees="state")


def test_what_a_member_sees_is_seen_by_the_critics_of_all_and_by_no_other_policy():
    with trainer_of() as trainer:
        learner, rollout = trainer.learners["main"], rollout_of(trainer)
        own, members = rollout.obs["obs"], rollout.obs[f"{CENTRAL}/members/obs"]
        me = rollout.obs[f"{CENTRAL}/me"]
        assert torch.equal(members.gather(2, me[..., None, None]).squeeze(2), own)
        seen = {path: leaf.clone() for path, leaf in rollout.obs.items()}
        mate = 1 - me[..., None, None]
        seen[f"{CENTRAL}/members/obs"].scatter_(2, mate, -members.gather(2, mate))
        before = values_of(learner.forward, rollout).value
        other = rollout.map(lambda path, tensor: seen.get(path.removeprefix("obs/"), tensor))
        after = values_of(learner.forward, other).value
        assert (before != after).all()
        drawn = [learner.net(learner.targets(each)).distribution.parameters for each in (rollout, other)]
        assert torch.equal(*drawn)


def explained(algorithm):
    settings = {"gamma": 0.0, "lr": 1e-2, "fragment_length": 32, "minibatch_size": 128, "entropy_coef": 0.0}
    with trainer_of(algorithm, lanes=8, **settings) as trainer:
        results = list(trainer.results({"env_steps": 3_000}))
        return results[-1].policies["main"].learning["explained_variance"]


def test_values_of_a_product_of_what_two_see_are_learned_by_a_critic_of_both_alone():
    assert explained(MAPPOConfig) > 0.9
    assert explained(PPOConfig) < 0.1  # each alone sees nothing of it


@pytest.mark.parametrize(
    ("case", "settings", "delta"), slow_repeats(of=itertools.product(cases(), PPO_SETTINGS, [None, 0.3]))
)
def test_the_gradient_in_closed_form_is_that_of_the_loss(case, settings, delta):
    name, masked = case
    cfg = MAPPOConfig(huber_delta=delta, **{"normalize_advantage": True, **PPO_SETTINGS[settings]})
    for columns, rows in ((1, 17), (2, 64)):
        learning = Learning(name, rows, masked=masked, importance=True, seed=rows, columns=columns)
        wanted, reference = learning.by_autograd(mappo_loss, learning.batch, cfg)
        distribution, value = learning.outputs(learning.leaves)
        found = mappo_gradient(Outputs(distribution, value), learning.batch, cfg)
        if delta is not None and cfg.value_loss_clip is not None:
            assert found is None  # autograd differentiates losses with two bounds
            continue
        gradients, metrics = found
        for mine, theirs in zip(gradients, wanted, strict=True):
            assert (mine - theirs).abs().max() <= TOLERANCE[mine.dtype] * theirs.abs().max()
        assert metrics.keys() == reference.keys()
        torch.testing.assert_close(metrics["value_loss"], reference["value_loss"])


def test_without_the_huber_loss_it_is_the_loss_of_ppo_and_with_it_only_large_errors_count_less():
    learning = Learning("discrete", 64)

    def of_mappo(delta):
        return learning.by_autograd(
            mappo_loss, learning.batch, MAPPOConfig(huber_delta=delta, normalize_advantage=True)
        )

    of_ppo, metrics = learning.by_autograd(ppo_loss, learning.batch, PPOConfig())
    same, as_told = of_mappo(None)
    assert all(map(torch.equal, of_ppo, same))
    assert {name: value.float().mean() for name, value in metrics.items()} == {
        name: value.float().mean() for name, value in as_told.items()
    }
    less, _ = of_mappo(1.0)
    error = learning.leaves[-1] - learning.batch.value_target
    large = error.abs() > 1.0
    assert large.any()
    assert torch.equal(less[0], of_ppo[0])
    torch.testing.assert_close(less[-1][~large], of_ppo[-1][~large])
    torch.testing.assert_close(less[-1][large], of_ppo[-1][large] / error[large].abs())


@pytest.mark.parametrize("name", ["discrete", "box", "composite"])
def test_who_did_not_act_is_no_lesson_for_the_policy_but_one_for_the_critic(name):
    learning = Learning(name, 24, importance=True)
    acted = torch.ones(24, 1, dtype=torch.uint8)
    acted[::3] = 0
    cfg = MAPPOConfig(normalize_advantage=True)
    learning.batch.obs[ACTED] = acted
    gone = acted.squeeze(1) == 0
    found, metrics = learning.by_autograd(mappo_loss, learning.batch, cfg)
    assert (found[0][gone] == 0).all()
    assert (found[0][~gone] != 0).any()
    assert (found[-1][gone] != 0).any()
    assert len(metrics["entropy"]) == 16
    rest = Learning(name, 24, importance=True)
    rest.batch = rest.batch.at((~gone).nonzero().squeeze(1))
    rest.leaves = [leaf if leaf.dim() == 1 else leaf[~gone] for leaf in rest.leaves]
    alone, _ = rest.by_autograd(ppo_loss, rest.batch, PPOConfig())
    for mine, theirs in zip(found[:-1], alone[:-1], strict=True):
        torch.testing.assert_close(mine if mine.dim() == 1 else mine[~gone], theirs)
    distribution, value = learning.outputs(learning.leaves)
    assert mappo_gradient(Outputs(distribution, value), learning.batch, cfg) is None
    assert mappo_kernel(None, learning.batch, cfg) is None
    assert mappo_steps(None, [learning.batch], None, cfg) is None
    learning.batch.obs[ACTED] = torch.zeros_like(acted)
    nobody, metrics = mappo_loss(Outputs(distribution, value), learning.batch, cfg)
    assert torch.isfinite(nobody)
    assert metrics.keys() == {"value_loss"}


def test_rows_of_who_has_gone_are_valued_and_their_advantages_do_not_count():
    with trainer_of(env={"leaves": True}) as trainer:
        learner, rollout = trainer.learners["main"], rollout_of(trainer)
        acted = rollout.obs[ACTED].squeeze(-1) > 0
        assert 0 < int((~acted).sum()) < acted.numel()
        data = learner.targets(rollout)
        rows = acting_rows(data)
        advantage = data.advantage[rows]
        assert advantage.mean().abs() < 1e-5
        assert abs(advantage.std(correction=0) - 1) < 1e-5
        assert (rollout.reward[~acted] == 0).all()
        for _ in range(3):
            result = trainer.train_iteration()
        assert all(np.isfinite(value) for value in result.policies["main"].learning.values() if value is not None)


@pytest.mark.parametrize("target_kl", [1e-9, 1.0])
def test_a_minibatch_in_which_nobody_acted_has_no_divergence_that_could_stop_an_update(target_kl):
    with trainer_of(env={"leaves": True}, target_kl=target_kl, minibatch_size=1, epochs=3) as trainer:
        learner, rollout = trainer.learners["main"], rollout_of(trainer)
        assert (rollout.obs[ACTED] == 0).any()
        row = learner.training_step(rollout)
        assert row["epochs"] == (1 if target_kl < 1 else 3)
        rollout.obs[ACTED].zero_()
        assert learner.training_step(rollout)["epochs"] == 3


def test_play_of_older_weights_is_refused():
    with pytest.raises(ConfigError, match=r"sampling.staleness = 1.* trained by MAPPO"):
        Trainer(Pair, MAPPOConfig(), num_envs=2, config={"sampling.staleness": 1})


@pytest.mark.parametrize("kind", [slow("none"), "lstm"])
def test_a_run_with_rows_that_do_not_act_goes_on_as_if_it_had_not_stopped(kind, tmp_path):
    def make():
        model = {"hidden": (8,), "memory": {"kind": kind, "size": 8, "sequence_length": 4}}
        return trainer_of(env={"leaves": True}, model=model)

    def weights(trainer):
        return {name: value.clone() for name, value in trainer.learners["main"].net.state_dict().items()}

    with make() as whole:
        for _ in range(4):
            whole.train_iteration()
        wanted = weights(whole)
    with make() as first:
        for _ in range(2):
            first.train_iteration()
        first.save(tmp_path / "half")
    with Trainer.load(tmp_path / "half") as second:
        for _ in range(2):
            second.train_iteration()
        found = weights(second)
    assert all(torch.equal(found[name], value) for name, value in wanted.items())


def test_who_learns_beside_it_by_another_algorithm_keeps_nothing_of_the_group():
    policies = {"one": MAPPOConfig(fragment_length=8), "two": PPOConfig(fragment_length=8)}
    mapping = {"left": "one", "right": "two"}
    with Trainer(Pair, policies=policies, policy_mapping=mapping, seed=0, sampling={"num_envs": 2}) as trainer:
        trainer.train_iteration()
        seen = {name: {leaf.path for leaf in policy.obs_spec.leaves} for name, policy in trainer.policies.items()}
    assert seen["two"] == {"obs"}
    assert {f"{CENTRAL}/members/obs", *GROUP_PATHS} < seen["one"]


def test_policies_of_groups_act_on_what_their_agents_see():
    with trainer_of(env={"state": True}) as trainer:
        trainer.train_iteration()
        policy = trainer.policies["main"]
        assert policy.predict({"own": np.array([1.0], np.float32)}) in (0, 1)
    with trainer_of() as trainer:
        assert trainer.policies["main"].predict(np.array([1.0], np.float32)) in (0, 1)


@pytest.mark.parametrize("sees", ["state", "members"])
def test_the_two_step_game_is_played_for_the_best(sees):
    settings = {"algorithm.critic_sees": sees, "algorithm.fragment_length": 32, "algorithm.minibatch_size": 1024}
    with Trainer("rookery.tasks:MatrixGame", "mappo", num_envs=16, seed=0, config=settings) as trainer:
        trainer.train({"env_steps": 8_000})
        assert trainer.evaluate(10).return_mean == 8.0


def test_the_gradient_of_ppo_is_known_to_be_the_closed_form():
    learning = Learning("discrete", 16)
    distribution, value = learning.outputs(learning.leaves)
    cfg = MAPPOConfig(huber_delta=None, normalize_advantage=True)
    mine, _ = mappo_gradient(Outputs(distribution, value), learning.batch, cfg)
    theirs, _ = ppo_gradient(Outputs(distribution, value), learning.batch, PPOConfig())
    assert all(map(torch.equal, mine, theirs))


def test_updates_on_kernels_are_those_of_torch():
    weights = []
    for native in (True, False):
        with trainer_of(lanes=8, model={"native": native}) as trainer:
            trainer.train({"env_steps": 1_000})
            learner = trainer.learners["main"]
            assert (learner.forward.kernels is not None) == native
            weights.append(learner.optimizer.flat.data.clone())
    torch.testing.assert_close(*weights, rtol=1e-3, atol=1e-4)


class Apart(Pair):
    """Both have equal observations, and must act differently."""

    def step(self, actions):
        shown, _, *ends = super().step(actions)
        reward = float(actions["left"] == 0 and actions["right"] == 1)
        return shown, dict.fromkeys(ends[0], reward), *ends


def score(member_id):
    cfg = MAPPOConfig(fragment_length=16, member_id=member_id, entropy_coef=0.0)
    with Trainer(Apart, cfg, seed=0, num_envs=16) as trainer:
        trainer.train({"env_steps": 4_000})
        policy = trainer.policies["main"]
        if member_id:
            seen = [{"obs": np.zeros(1, np.float32), "member_id": number} for number in (0, 1)]
            assert [policy.predict(obs) for obs in seen] == [0, 1]
            with pytest.raises(SpaceError, match="member_id: missing"):
                policy.predict(np.zeros(1, np.float32))
        return trainer.evaluate(20).return_mean / 8


def test_members_that_share_a_policy_can_be_told_who_they_are():
    assert score(True) == 1.0
    assert score(False) < 0.6  # both do the same, if what they see is the same


def test_a_member_id_of_the_environments_own_is_not_written_over():
    class Knows(Pair):
        def observation_space(self, agent):
            return spaces.Dict(member_id=spaces.Discrete(2))

        def seen(self):
            return {agent: {"member_id": 0} for agent in self.agents}

    with pytest.raises(EnvError, match="hold 'member_id' already"):
        Trainer(Knows, MAPPOConfig(member_id=True), seed=0, num_envs=2)
