"""MA-POCA: lambda-returns with rows of who has gone, baselines without the own action, attention over who is there."""

import math
from collections import OrderedDict

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import ConfigError, PPOConfig, Trainer
from rookery.algorithms.multi_agent.group_critic import GroupOutputs
from rookery.algorithms.multi_agent.poca import POCA, POCAConfig, POCAMinibatch, poca_loss
from rookery.algorithms.on_policy.ppo import ppo_loss
from rookery.core.batch import Minibatch, Rollout
from rookery.core.ops import gae
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.models.distributions import Categorical
from rookery.models.heads import Outputs
from rookery.policies.policy import Policy

G, WIDTH = 3, 2
THREE = spaces.Discrete(3)


def space(groups=G):
    central = OrderedDict(
        members=spaces.Dict({"obs": spaces.Box(-9, 9, (groups, WIDTH))}),
        alive=spaces.MultiBinary(groups),
        me=spaces.Discrete(groups),
        acted=spaces.MultiBinary(1),
        moment=spaces.Discrete(2**62),
    )
    return spaces.Dict(OrderedDict(obs=spaces.Box(-9, 9, (WIDTH,)), central=spaces.Dict(central)))


def learner(cfg=None, action=THREE, obs=None):
    cfg = cfg or POCAConfig(normalize_values=False)
    policy = Policy(obs_spec(obs or space(), action), action_spec(action), cfg.model, name="hero",
                    generator=torch.Generator().manual_seed(0))  # fmt: skip
    return POCA(policy, cfg, Streams(0), "hero")


def observed(*shape, seed=0, alive=None, me=0, acted=None, moment=0):
    rng = torch.Generator().manual_seed(seed)
    return {
        "obs": torch.randn(*shape, WIDTH, generator=rng),
        "central/members/obs": torch.randn(*shape, G, WIDTH, generator=rng),
        "central/alive": torch.ones(*shape, G, dtype=torch.uint8) if alive is None else alive,
        "central/me": torch.full(shape, me) if isinstance(me, int) else me,
        "central/acted": torch.ones(*shape, 1, dtype=torch.uint8) if acted is None else acted,
        "central/moment": torch.full(shape, moment) if isinstance(moment, int) else moment,
    }


def rollout(reward, acted, terminated=(), last_acted=1, **more):
    """One fragment of rows whose value is `value` of the first number of what they see."""
    length = len(reward)
    flags = torch.zeros(length, 1, dtype=torch.bool)
    for row in terminated:
        flags[row] = True
    obs = observed(
        length, 1, acted=torch.tensor(acted, dtype=torch.uint8).view(-1, 1, 1), moment=torch.arange(length).unsqueeze(1)
    )
    last = observed(1, acted=torch.full((1, 1), last_acted, dtype=torch.uint8))
    return Rollout(
        obs=obs,
        action=torch.zeros(length, 1, dtype=torch.long),
        logp=torch.full((length, 1), -math.log(3)),
        reward=torch.tensor(reward).unsqueeze(1),
        terminated=flags,
        truncated=torch.zeros_like(flags),
        last_obs=last,
        final_obs={path: leaf[:0] for path, leaf in last.items()},
        boot_index=torch.zeros(0, 2, dtype=torch.long),
        slot=torch.tensor([0]), clock=torch.tensor([0]), length=torch.tensor([length]), first=torch.tensor([True]),
        version=torch.tensor([0]),
        **more,
    )  # fmt: skip


# --- targets --------------------------------------------------------------------------------------------------------

REWARD, VALUE = [1.0, -0.5, 2.0, 0.0, 1.0], [0.5, 0.2, -0.1, 0.4, 0.3]


def honest(**settings):
    """A POCA whose value of row t is ``VALUE[t]``."""
    poca = learner(POCAConfig(gamma=0.9, gae_lambda=0.8, normalize_values=False, **settings))
    poca.net.value = lambda obs, known: torch.tensor([VALUE[int(at) % 5] for at in obs["central/moment"]]).unsqueeze(1)
    return poca


def by_hand(reward, value):
    """Lambda-returns of a fragment whose last row is terminal, from the last row on."""
    found, after, following = [], 0.0, 0.0
    for r, v in zip(reversed(reward), reversed(value), strict=True):
        after = r + 0.9 * (0.2 * following + 0.8 * after)
        following = v
        found.insert(0, after)
    return found


def test_what_the_group_earns_after_an_end_counts_for_what_was_done_before():
    data = honest().targets(rollout(REWARD, [1, 1, 1, 0, 0], terminated=[4]))
    assert data.value_target.flatten().tolist() == pytest.approx(by_hand(REWARD, VALUE), abs=1e-6)
    assert data.acted.tolist() == [True, True, True, False, False]
    assert data.advantage.tolist() == pytest.approx((data.value_target - data.baseline).flatten().tolist())


def test_who_leaves_the_group_at_the_end_gets_nothing_later():
    data = honest(leave_group_at_end=True).targets(rollout(REWARD, [1, 1, 1, 0, 0], terminated=[4]))
    golden = [1.19984 + 0.5, 0.722 + 0.2, 2.1 - 0.1]  # of truncation as termination
    assert data.value_target.flatten().tolist() == pytest.approx(golden, abs=1e-6)
    ends_with_it = honest(leave_group_at_end=True).targets(rollout(REWARD[:3], [1, 1, 1], last_acted=0))
    assert ends_with_it.value_target.flatten().tolist() == pytest.approx(golden, abs=1e-6)


def test_a_group_of_one_has_the_values_as_baselines_and_gae_as_advantages():
    with Trainer("CartPole-v1", POCAConfig(normalize_values=False, fragment_length=64), num_envs=2, seed=0) as run:
        poca, seen = run.learners["main"], []
        targets = poca.targets
        poca.targets = lambda rollout: seen.append((rollout, targets(rollout))) or seen[-1][1]
        run.train({"iterations": 1})
    ((played, data),) = seen
    assert torch.equal(data.baseline, data.value)
    value = data.value.view(64, 2)
    assert not played.boot_index.numel() and data.acted.all()
    last = data.value_target.view(64, 2) - value  # advantages
    ended = played.terminated | played.last
    inner = torch.cat((value[1:], value[-1:])).masked_fill(played.terminated, 0.0)
    mine = gae(played.reward, value, inner, ended, gamma=0.99, gae_lambda=0.95)
    whole = ended.flip(0).cumsum(0).flip(0) > played.last.flip(0).cumsum(0).flip(0)  # an end comes before the cut
    assert whole.any() and torch.allclose(mine[whole], last[whole], atol=1e-5)


# --- critic ---------------------------------------------------------------------------------------------------------


def test_a_baseline_does_not_know_its_own_action():
    poca, rows = learner(), 4
    torch.nn.init.normal_(poca.net.critic_trunk.groups[0].change.weight)  # zero at first: a baseline is the value
    obs = observed(rows, me=torch.tensor([0, 1, 2, 1]))
    action = torch.randn(rows, G, 3, requires_grad=True)
    value, baseline = poca.net.critic_trunk(obs, action, torch.ones(rows, G, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(baseline.sum(), action, retain_graph=True)
    size = gradient.abs().sum(-1)
    assert (size[torch.arange(rows), obs["central/me"]] == 0).all()
    assert ((size > 0).sum(1) == G - 1).all()
    (of_value,) = torch.autograd.grad(value.sum(), action, allow_unused=True)
    assert of_value is None or not of_value.any()


@pytest.mark.parametrize("garbage", [1e6, float("nan")])
def test_the_dead_have_no_weight_at_all(garbage):
    poca = learner()
    alive = torch.tensor([[1, 0, 1], [1, 1, 0]], dtype=torch.uint8)
    obs = observed(2, alive=alive)
    other = {**obs, "central/members/obs": obs["central/members/obs"].masked_fill(alive[..., None] == 0, garbage)}
    assert torch.equal(poca.net.value(obs), poca.net.value(other))


def test_the_order_of_mates_does_not_matter():
    poca, order = learner(), torch.tensor([2, 0, 1])
    obs = observed(5, alive=torch.tensor([[1, 1, 0]] * 5, dtype=torch.uint8), me=1)
    turned = {**obs, "central/me": torch.full((5,), 2)}
    for name in ("central/members/obs", "central/alive"):
        turned[name] = obs[name][:, order]
    assert torch.allclose(poca.net.value(obs), poca.net.value(turned), atol=1e-6)


def test_what_mates_did_is_found_by_moment():
    poca = learner()
    ids = {"moment": torch.tensor([7, 7, 9, 9, 9]), "me": torch.tensor([0, 2, 0, 1, 2])}
    action, acted = poca.mates(ids, torch.tensor([2, 1, 0, 0, 2]), torch.tensor([True, True, True, False, True]))
    nothing = [0, 0, 0]
    assert action[0].tolist() == action[1].tolist() == [[0, 0, 1], nothing, [0, 1, 0]]
    assert action[3].tolist() == [[1, 0, 0], nothing, [0, 0, 1]]
    assert acted.tolist() == [[True, False, True]] * 5


def test_members_are_normalized_as_the_policys_own_observations():
    poca = learner(POCAConfig(model={"normalize_obs": True}))
    rows = observed(50)
    rows["obs"] = rows["obs"] * 3 + 1
    poca.policy.normalizer.update(rows)
    seen = poca.seen({**rows, "central/members/obs": rows["obs"].unsqueeze(1).expand(-1, G, -1)})
    assert torch.equal(seen["central/members/obs"], seen["obs"].unsqueeze(1).expand(-1, G, -1))


# --- loss -----------------------------------------------------------------------------------------------------------


def test_rows_that_did_not_act_are_in_the_loss_of_the_values_alone():
    rng, acted = torch.Generator().manual_seed(3), torch.tensor([True, False, True, True, False])
    logits, value, baseline = (torch.randn(5, size, generator=rng) for size in (3, 1, 1))
    target, advantage = torch.randn(5, 1, generator=rng), torch.randn(5, generator=rng)
    action, logp = torch.tensor([0, 1, 2, 1, 0]), torch.full((5,), -1.1)
    nobody = torch.zeros(5, 1, 1)
    batch = POCAMinibatch(
        obs={}, action=action, logp=logp, advantage=advantage, value_target=target, value=value, baseline=baseline,
        acted=acted, mates_action=nobody, mates_acted=nobody[..., 0] > 0,
    )  # fmt: skip
    cfg = POCAConfig(value_coef=0.5, baseline_coef=0.5, entropy_coef=0.01)
    loss, metrics = poca_loss(GroupOutputs(Categorical(logits), value, baseline), batch, cfg)
    few = Minibatch(
        obs={}, action=action[acted], logp=logp[acted], advantage=advantage[acted], value_target=target[acted],
        value=value[acted],
    )  # fmt: skip
    alone, theirs = ppo_loss(Outputs(Categorical(logits[acted]), target[acted]), few, PPOConfig(entropy_coef=0.01))
    of_values = (value - target).square().mean()
    of_baselines = (baseline - target)[acted].square().mean()
    assert loss.item() == pytest.approx((alone + 0.5 * (of_values + 0.5 * of_baselines)).item(), abs=1e-6)
    assert metrics["policy_loss"] == theirs["policy_loss"] and len(metrics["kl"]) == 3
    nothing = POCAMinibatch(**{**vars(batch), "acted": torch.zeros_like(acted)})
    loss, _ = poca_loss(GroupOutputs(Categorical(logits), value, baseline), nothing, cfg)
    assert loss.item() == pytest.approx(0.5 * of_values.item(), abs=1e-6)


def test_values_and_baselines_are_both_clipped():
    cfg = POCAConfig(value_clip=0.1, entropy_coef=0.0, normalize_advantage=False)
    value = torch.tensor([[2.0], [0.05]], requires_grad=True)
    baseline = torch.tensor([[0.05], [2.0]], requires_grad=True)
    zeros, flags = torch.zeros(2, 1), torch.ones(2, dtype=torch.bool)
    batch = POCAMinibatch(
        obs={}, action=torch.zeros(2, dtype=torch.long), logp=torch.zeros(2), advantage=torch.zeros(2),
        value_target=zeros + 1, value=zeros, baseline=zeros, acted=flags, mates_action=zeros[..., None],
        mates_acted=flags[:, None],
    )  # fmt: skip
    loss, _ = poca_loss(GroupOutputs(Categorical(torch.zeros(2, 3)), value, baseline), batch, cfg)
    loss.backward()
    assert value.grad.flatten().tolist()[0] == 0 and value.grad[1] != 0
    assert baseline.grad.flatten().tolist()[1] == 0 and baseline.grad[0] != 0


# --- whole runs -----------------------------------------------------------------------------------------------------


class Crew:
    """Three agents, who go after 2, 4 and 6 steps; their group gets 1 with each."""

    possible_agents = ["a", "b", "c"]  # noqa: RUF012
    groups = {"crew": possible_agents}  # noqa: RUF012

    def __init__(self, action="discrete"):
        kinds = {
            "discrete": spaces.Discrete(3),
            "multi": spaces.MultiDiscrete([2, 3]),
            "box": spaces.Box(-1, 1, (2,)),
            "masked": spaces.Discrete(3),
        }
        self.masked = action == "masked"
        see = spaces.Box(-9, 9, (2,))
        if self.masked:
            see = spaces.Dict({"observation": see, "action_mask": spaces.MultiBinary(3)})
        self.observation_spaces = dict.fromkeys(self.possible_agents, see)
        self.action_spaces = dict.fromkeys(self.possible_agents, kinds[action])

    def _obs(self):
        plain = {agent: np.float32([self.t, ord(agent) - 98]) for agent in self.alive}
        if not self.masked:
            return plain
        return {agent: {"observation": one, "action_mask": np.int8([1, 0, 1])} for agent, one in plain.items()}

    def reset(self, seed=None, options=None):
        self.t, self.alive = 0, list(self.possible_agents)
        return self._obs(), {}

    def step(self, actions):
        if self.masked:
            assert all(action != 1 for action in actions.values())
        self.t += 1
        shown = self._obs()
        left = [agent for agent, end in zip("abc", (2, 4, 6), strict=True) if end == self.t]
        self.alive = [agent for agent in self.alive if agent not in left]
        infos = {agent: {"group_reward": 1.0} for agent in left}
        return (
            shown,
            dict.fromkeys(actions, 0.5),
            {**dict.fromkeys(left, True), "__all__": not self.alive},
            {"__all__": False},
            infos,
        )


SMALL = {"fragment_length": 16, "epochs": 1, "minibatch_size": 32}


@pytest.mark.parametrize("action", ["discrete", "multi", "box", "masked"])
def test_every_kind_of_action_is_learned(action):
    with Trainer(Crew, POCAConfig(**SMALL), num_envs=2, seed=0, config={"env.config.action": action}) as run:
        result = run.train({"iterations": 2})
        row = result.policies["main"].learning
    assert row["skipped_steps"] == 0 and row["baseline_loss"] > 0
    assert result.groups == {"crew": 3.0} and result.return_mean == 3.0 + 0.5 * (2 + 4 + 6)


SEEN = {
    "3 categories": spaces.Discrete(3),
    "5 categories": spaces.Discrete(5),
    "numbers": spaces.Box(-9, 9, (2,)),
    "bytes": spaces.Box(0, 255, (2,), np.uint8),
    "small bytes": spaces.Box(0, 10, (2,), np.uint8),
    "flags": spaces.MultiBinary(2),
}


class Mates(Crew):
    """Agents who see noise: b another kind of it than a and c, under the same name."""

    def __init__(self, mine, other):
        super().__init__()
        self.observation_spaces = {agent: SEEN[other if agent == "b" else mine] for agent in self.possible_agents}

    def _obs(self):
        return {agent: self.observation_spaces[agent].sample() for agent in self.alive}


@pytest.mark.parametrize(
    ("mine", "other"),
    [("3 categories", "5 categories"), ("numbers", "bytes"), ("numbers", "flags"), ("small bytes", "bytes")],
)
def test_mates_that_see_something_else_under_the_same_name_have_an_encoder_of_their_own(mine, other):
    policies = {name: POCAConfig(**SMALL) for name in ("mine", "other")}
    config = {"env.config.mine": mine, "env.config.other": other}
    mapping = {"a": "mine", "b": "other", "c": "mine"}
    with Trainer(Mates, policies=policies, policy_mapping=mapping, num_envs=2, seed=0, config=config) as run:
        result = run.train({"iterations": 1})
        own = {name: [group.is_own for group in one.net.critic_trunk.groups] for name, one in run.learners.items()}
    assert own == {"mine": [True, False], "other": [False, True]}
    assert all(one.learning["skipped_steps"] == 0 for one in result.policies.values())


def test_teams_are_members_of_groups():
    policies = {name: POCAConfig(**SMALL) for name in ("team", "alone")}
    mapping = {"pair": "team", "c": "alone"}
    with Trainer(
        Crew, policies=policies, policy_mapping=mapping, teams={"pair": ["a", "b"]}, num_envs=2, seed=0
    ) as run:
        result = run.train({"iterations": 2})
        sets = {name: [group.prefix for group in one.net.critic_trunk.groups] for name, one in run.learners.items()}
    assert sets == dict.fromkeys(policies, ["central/0", "central/1"])
    assert result.groups == {"crew": 3.0} and result.return_mean == 3.0 + 0.5 * (2 + 4 + 6)
    assert all(one.learning["skipped_steps"] == 0 for one in result.policies.values())


def test_signals_reward_those_who_act():
    cfg = POCAConfig(**SMALL, signals={"rnd": {}})
    with Trainer(Crew, cfg, num_envs=2, seed=0) as run:
        poca, seen = run.learners["main"], []
        targets = poca.targets
        poca.targets = lambda rollout: seen.append(targets(rollout)) or seen[-1]
        run.train({"iterations": 1})
    assert seen[0].value_target.shape[1] == 2 and seen[0].value_target.isfinite().all()


def test_a_run_that_was_killed_goes_on_as_if_it_had_not(tmp_path):
    settings = {"num_envs": 2, "seed": 1, "config": {"logging.console": "quiet"}}
    with Trainer(Crew, POCAConfig(**SMALL, model={"normalize_obs": True}), **settings) as through:
        through.train({"iterations": 3})
        wanted = through.learners["main"].optimizer.flat.data.clone()
    with Trainer(Crew, POCAConfig(**SMALL, model={"normalize_obs": True}), **settings, run_dir=tmp_path / "run") as one:
        one.train({"iterations": 2})
        one.save()
    with Trainer.load(tmp_path / "run", env=Crew) as other:
        other.train({"iterations": 3})
        assert torch.equal(other.learners["main"].optimizer.flat.data, wanted)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kl_coef": 0.1}, "kl_coef = 0.1: poca has no penalty on the divergence"),
        ({"attention_heads": 3}, "attention_heads is 3, which does not divide attention_size = 64"),
    ],
)
def test_what_it_cannot_do_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Trainer(Crew, POCAConfig(**settings), num_envs=2)


@pytest.mark.slow
def test_one_gives_itself_up_only_where_it_is_credited_later():
    def score(**more):
        cfg = POCAConfig(lr=5e-4, fragment_length=64, epochs=5, **more)
        with Trainer("rookery.tasks:Sacrifice", cfg, num_envs=32, seed=0) as run:
            run.train({"decisions": 45_000})
            return run.evaluate(episodes=50).return_mean

    assert score() >= 0.81
    assert score(leave_group_at_end=True) <= 0.3
