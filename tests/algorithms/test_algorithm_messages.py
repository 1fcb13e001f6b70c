"""Errors for what an algorithm cannot learn name the setting, its value and the remedy."""

import numpy as np
import pytest
from gymnasium import spaces
from team_learners import MASKED, NUMBERS, REACH, THREE, TWO, learner, team

from messages import check_error
from recorded import keep, poles
from rookery import (
    AWACConfig,
    BCConfig,
    CQLConfig,
    DDPGConfig,
    DQNConfig,
    DTConfig,
    IQLConfig,
    MADDPGConfig,
    POCAConfig,
    PPOConfig,
    PQNConfig,
    QMIXConfig,
    SACConfig,
    TD3BCConfig,
    TD3Config,
    Trainer,
)
from rookery.core.spaces.arrays import action_spec, obs_spec

FLAGS, PICKS = spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3])
BOTH = spaces.Dict({"choices": PICKS, "numbers": REACH})
WITH_FLAGS = spaces.Tuple((FLAGS, PICKS, REACH))
UNBOUNDED = spaces.Box(-np.inf, np.inf, (1,), np.float32)
MIXED = team((NUMBERS, TWO), (MASKED, THREE), (NUMBERS, TWO))
GRU = {"memory": {"kind": "gru"}}
RENORM, QUANTILES = {"norm": "batch"}, {"quantiles": 5}
FOR_NUMBERS = "ConfigError: policies.hero.critic: quantiles and norm = batch are for continuous actions"


def specs(action):
    return obs_spec(NUMBERS, action), action_spec(action)


LEARNERS = [
    (SACConfig(discrete=False), THREE, "SpaceError: SAC with discrete=true"),
    (SACConfig(discrete=False), PICKS, "SpaceError: are discrete, ... SAC, which takes discrete"),
    (SACConfig(), WITH_FLAGS, "SpaceError: have flags"),
    (SACConfig(), spaces.Tuple((PICKS, UNBOUNDED)), "SpaceError: no finite bounds in 1 of 1"),
    (SACConfig(batch_size=10**7), REACH, "ConfigError: policies.hero.batch_size = 10,000,000 is more than the replay"),
    (SACConfig(critic={**QUANTILES, "drop": 5}), REACH, "ConfigError: critic.drop = 5 leaves none of critic.quant"),
    (SACConfig(discrete=True), REACH, "ConfigError: policies.hero.discrete = True: ... discrete = false ... use PPO"),
    (SACConfig(discrete=True), FLAGS, "ConfigError: policies.hero.discrete = True: ... discrete = false ... use PPO"),
    (SACConfig(discrete=True), BOTH, "ConfigError: are not one of several; ... mixed ones"),
    (SACConfig(discrete=True, critic=RENORM), THREE, FOR_NUMBERS),
    (SACConfig(discrete=True, critic=QUANTILES), THREE, FOR_NUMBERS),
    (SACConfig(discrete=True, critic=RENORM), PICKS, FOR_NUMBERS),
    (SACConfig(critic=QUANTILES), BOTH, FOR_NUMBERS),
    (SACConfig(target_entropy=-1.0), BOTH, "ConfigError: target_entropy = -1.0 is one number, and each part"),
    (SACConfig(exploration={"kind": "ou"}), BOTH, "SpaceError: exploration.kind = ou is for continuous actions only"),
    (TD3Config(), THREE, "SpaceError: use DQN or PPO, or SAC with discrete=true"),
    (TD3Config(), BOTH, "SpaceError: not all continuous, and TD3, ... or SAC, which takes discrete"),
    (DDPGConfig(), THREE, "SpaceError: use DQN or PPO, or SAC with discrete=true"),
    (DQNConfig(), REACH, "SpaceError: SAC, TD3"),
    (DQNConfig(), PICKS, "SpaceError: PPO"),
    (PQNConfig(), REACH, "SpaceError: PPO"),
    (POCAConfig(), THREE, "ConfigError: do not show what the members of a group see"),
]


@pytest.mark.parametrize(("algorithm", "action", "expected"), LEARNERS)
def test_actions_that_an_algorithm_cannot_learn_are_refused(algorithm, action, expected):
    check_error(expected, learner, algorithm, specs(action))


TEAMS = [
    (QMIXConfig(dueling=True), MIXED, "ConfigError: dueling"),
    (QMIXConfig(values={"kind": "quantile"}), MIXED, "ConfigError: expected returns"),
    (QMIXConfig(exploration={"kind": "noisy"}), MIXED, "ConfigError: exploration.epsilon"),
    (QMIXConfig(), team((NUMBERS, TWO), (NUMBERS, REACH)), "SpaceError: member 1 of the team acts in Box ... MADDPG"),
    (QMIXConfig(), specs(TWO), "SpaceError: teams: {blue: [a, b]}"),
    (MADDPGConfig(), team((NUMBERS, FLAGS), (NUMBERS, TWO)), "SpaceError: member 0 of the team acts in MultiBinary"),
    (MADDPGConfig(critic=RENORM), MIXED, "ConfigError: target critics"),
]


@pytest.mark.parametrize(("algorithm", "team", "expected"), TEAMS)
def test_teams_that_an_algorithm_cannot_learn_are_refused(algorithm, team, expected):
    check_error(expected, learner, algorithm, team)


SETTINGS = [
    ({"name": "pqn", "model": GRU}, "ConfigError: memory"),
    ({"name": "dqn", "doubel": True}, "ConfigError: algorithm.doubel ... did you mean 'algorithm.double'"),
    ({"name": "dqn", "values": {"kind": "categorical", "atoms": 1}}, "ConfigError: two at least"),
    (
        {"name": "dqn", "values": {"kind": "categorical", "low": 1.0, "high": 1.0}},
        "ConfigError: values ... high must be",
    ),
    (
        {"name": "dqn", "values": {"kind": "quantile", "rescale": True}},
        "ConfigError: values.rescale is for values.kind",
    ),
    ({"name": "dqn", "replay": {"burn_in": 4}}, "ConfigError: replay.burn_in = 4 ... model.memory.kind"),
    ({"name": "dqn", "batch_size": 64, "replay": {"capacity": 32}}, "ConfigError: batch_size = 64 ... capacity = 32"),
    ({"name": "dqn", "exploration": {"kind": "parameters"}, "model": GRU}, "ConfigError: exploration.kind ... epsilon"),
    (
        {"name": "dqn", "exploration": {"kind": "noisy", "per_env_epsilon": 7.0}},
        "ConfigError: exploration.per_env_epsilon = 7 is for",
    ),
    ({"name": "dt", "dropout": 1.0}, "ConfigError: dropout"),
]


@pytest.mark.parametrize(("algorithm", "expected"), SETTINGS)
def test_settings_that_do_not_go_together_are_refused(algorithm, expected):
    check_error(expected, Trainer, "CartPole-v1", config={"algorithm": algorithm})


SEEN, PUSH = spaces.Box(-9, 9, (3,), np.float32), spaces.Box(-1, 1, (1,), np.float32)
SMALL_DT = {"context": 4, "layers": 1, "width": 16}
DATA = [
    (None, BCConfig(), None, "ConfigError: policies.main learns from data, but none is given: set --replay PATH"),
    (None, DTConfig(), None, "ConfigError: policies.main learns from data, but none is given: set --replay PATH"),
    (None, PPOConfig(), None, "ConfigError: env.name is missing"),
    ("CartPole-v1", BCConfig(), None, "ConfigError: there is nothing to learn"),
    ("Pendulum-v1", BCConfig(), "poles", "SpaceError: it holds observations ... it holds actions"),
    (None, BCConfig(model=GRU), "poles", "ConfigError: does not support memory"),
    (None, BCConfig(distribution="squashed", entropy_coef=0.1), "numbers", "ConfigError: a squashed Gaussian has no"),
    (None, DTConfig(), "unbounded", "ConfigError: the Decision Transformer takes actions that are numbers ... BC and"),
    (None, DTConfig(**SMALL_DT, model=GRU), "numbers", "ConfigError: policies.main.model.memory: ... last 4 decisions"),
    (None, DTConfig(**SMALL_DT, heads=3), "numbers", "ConfigError: policies.main: heads: 3 heads cannot share a wid"),
    (None, DTConfig(model={"compile": True}), "numbers", "ConfigError: policies.main.model.compile: ... leave it out"),
    (None, DTConfig(), "endless reward", "ConfigError: row 3: its reward"),
    *(
        (None, algorithm, "observation nan", "ConfigError: row 4: its observation obs has a number that is not finite")
        for algorithm in (
            BCConfig(), IQLConfig(), IQLConfig(distribution="squashed"), CQLConfig(), TD3BCConfig(), AWACConfig()
        )
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Paths of data by what is special about them."""
    folder = tmp_path_factory.mktemp("data")

    def kept(name, action=PUSH, **changes):
        one = {"obs": np.zeros((6, 3)), "action": np.zeros((5, 1)), "reward": np.ones(5), **changes}
        return keep(folder / name, SEEN, action, [one])

    return {
        "poles": poles(folder / "poles", 2),
        "numbers": kept("numbers"),
        "unbounded": kept("unbounded", UNBOUNDED),
        "observation nan": kept("nan", obs=[[0, np.nan if row == 3 else 0, 0] for row in range(6)]),
        "endless reward": kept("endless", reward=[0, 0, np.inf, 0, 0]),
    }


@pytest.mark.parametrize(("env", "algorithm", "name", "expected"), DATA)
def test_data_that_cannot_be_learned_are_refused(data, env, algorithm, name, expected):
    def learn():
        with Trainer(env, algorithm, replay=data.get(name, ())) as trainer:
            trainer.learn(1)

    check_error(expected, learn)
