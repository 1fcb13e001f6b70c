"""Multi-agent environments of RLlib 2.x, and the functions that its example scripts share."""

import gymnasium
import numpy as np
import pytest

from rookery.core.errors import ConfigError, RookeryError
from rookery_rllib.base import machine, release
from rookery_rllib.base.imports import find
from rookery_rllib.rllib2.algorithm_classes import PPOConfig
from rookery_rllib.rllib2.envs_of_2_x import (
    ALL,
    MultiAgentCartPole,
    MultiAgentEnv,
    ParallelPettingZooEnv,
    PettingZooEnv,
)
from rookery_rllib.rllib2.example_scripts import (
    RETURN,
    add_rllib_example_script_args,
    run_rllib_example_script_experiment,
    should_stop,
)
from rookery_rllib.script.finder import find_for_script

BOX, TWO = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32), gymnasium.spaces.Discrete(2)


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))
    machine.use_machine(local_mode=True, num_cpus=None)
    yield
    machine.use_machine(local_mode=False, num_cpus=None)


class Turns(MultiAgentEnv):
    """Two agents take turns; each gets 1 for action 1, and episodes have six steps."""

    def __init__(self, config=None):
        super().__init__()
        self.agents = self.possible_agents = ["left", "right"]
        self.observation_spaces = {"left": BOX, "right": gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)}
        self.action_spaces = {"left": TWO, "right": TWO}
        self.steps = 0

    def _seen(self):
        name = self.agents[self.steps % 2]
        return {name: np.zeros(self.observation_spaces[name].shape, np.float32)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._seen(), {}

    def step(self, action_dict):
        ((agent, action),) = action_dict.items()
        self.steps += 1
        over = self.steps == 6
        return self._seen(), {agent: float(action)}, {ALL: False}, {ALL: over}, {}


class Zoo:
    """A parallel environment in the form of PettingZoo; agent ``b`` leaves in the second step, ``a`` in the third."""

    possible_agents = ["a", "b"]
    metadata = {"name": "zoo"}

    def observation_space(self, agent):
        return BOX

    def action_space(self, agent):
        return TWO

    def reset(self, seed=None, options=None):
        self.agents, self.steps = ["a", "b"], 0
        return {agent: np.zeros(2, np.float32) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions):
        self.steps += 1
        here = list(self.agents)
        ends = {agent: self.steps == {"a": 3, "b": 2}[agent] for agent in here}
        self.agents = [agent for agent in here if not ends[agent]]
        obs = {agent: np.zeros(2, np.float32) for agent in here}
        return obs, dict.fromkeys(here, 1.0), ends, dict.fromkeys(here, False), {agent: {} for agent in here}

    def close(self): ...


class TurnZoo:
    """The same agents take turns, four in all, then both are cut."""

    possible_agents = ["a", "b"]

    def observation_space(self, agent):
        return BOX

    def action_space(self, agent):
        return TWO

    def reset(self, seed=None, options=None):
        self.agents, self.steps, self.infos = ["a", "b"], 0, {"a": {}, "b": {}}

    @property
    def agent_selection(self):
        return self.agents[self.steps % len(self.agents)]

    def observe(self, agent):
        return np.zeros(2, np.float32)

    def last(self):
        return self.observe(None), 1.0, False, self.steps >= 4, {}

    def step(self, action):
        if action is None:
            self.agents.remove(self.agent_selection)
        else:
            self.steps += 1

    def close(self): ...


def small(env, config=None):
    config = PPOConfig().environment(env, env_config=config or {}).env_runners(num_env_runners=0)
    return config.training(train_batch_size=24, minibatch_size=12, num_epochs=1, model={"fcnet_hiddens": [8]})


def test_agents_with_spaces_of_their_own_take_turns():
    config = small(Turns).multi_agent(
        policies={"left", "right"}, policy_mapping_fn=lambda agent_id, episode, **kwargs: agent_id
    )
    result = config.build_algo().train()
    returns = result["env_runners"]["agent_episode_returns_mean"]
    assert set(returns) == {"left", "right"} and result["env_runners"]["episode_len_mean"] == 6
    assert set(result["learners"]) == {"left", "right", "__all_modules__"}


def test_an_environment_knows_agents_and_spaces():
    env = Turns()
    assert env.get_observation_space("right").shape == (3,) and env.get_action_space("left") is TWO
    assert env.get_agent_ids() == {"left", "right"} and env.num_agents == env.max_num_agents == 2
    assert env.observation_space_contains({"left": np.zeros(2, np.float32)}) and env.unwrapped is env
    assert set(env.action_space_sample()) == {"left", "right"}
    env.reset(seed=3)
    first = env.np_random.random()
    env.reset(seed=3)
    assert env.np_random.random() == first
    with pytest.raises(NotImplementedError, match="has no reset"):
        MultiAgentEnv().reset()


def test_copies_of_an_environment():
    env = MultiAgentCartPole({"num_agents": 2})
    obs, infos = env.reset(seed=1)
    assert set(obs) == set(infos) == {0, 1} and obs[0].tolist() != obs[1].tolist()
    result = small(MultiAgentCartPole, {"num_agents": 2}).build_algo().train()
    assert set(result["env_runners"]["agent_episode_returns_mean"]) <= {"0", "1"}


def test_environments_of_pettingzoo():
    env = ParallelPettingZooEnv(Zoo())
    env.reset(seed=1)
    env.step({"a": 0, "b": 0})
    _, rewards, terminateds, truncateds, _ = env.step({"a": 0, "b": 0})
    assert rewards == {"a": 1, "b": 1} and terminateds == {"a": False, "b": True, ALL: False} and not truncateds[ALL]
    assert env.step({"a": 0})[2] == {"a": True, ALL: True}
    result = small(lambda config: ParallelPettingZooEnv(Zoo())).build_algo().train()
    assert result["env_runners"]["agent_episode_returns_mean"] == {"a": 3.0, "b": 2.0}
    env = PettingZooEnv(TurnZoo())
    assert set(env.reset()[0]) == {"a"}
    for _ in range(3):
        ends = env.step({env.env.agent_selection: 0})[3]
    assert not ends[ALL] and env.step({env.env.agent_selection: 0})[3] == {"a": True, "b": True, ALL: True}
    assert small(lambda config: PettingZooEnv(TurnZoo())).build_algo().train()["env_runners"]["episode_len_mean"] == 4


def test_names_that_both_releases_have_follow_the_script():
    path = "ray.rllib.env.multi_agent_env"
    assert find_for_script(path).MultiAgentEnv is not MultiAgentEnv
    release.begin()
    find_for_script("ray.rllib.algorithms.ppo")
    assert find_for_script(path).MultiAgentEnv is MultiAgentEnv
    assert find_for_script("ray.rllib.env.wrappers.pettingzoo_env").PettingZooEnv is PettingZooEnv
    assert find("ray.rllib.examples.envs.classes.stateless_cartpole").StatelessCartPole is not None


def arguments(*given):
    return add_rllib_example_script_args(default_iters=2, default_reward=5.0).parse_args(list(given))


def test_example_scripts_run_by_tune_or_in_a_loop(capsys):
    pole = small("CartPole-v1").training(train_batch_size=200, minibatch_size=100)
    grid = run_rllib_example_script_experiment(pole.copy(), arguments("--num-env-runners=0", "--as-test"))
    assert grid[0].metrics["training_iteration"] in (1, 2) and "reached" in capsys.readouterr().out
    result = run_rllib_example_script_experiment(pole.copy(), arguments("--no-tune", "--num-env-runners=1"))
    assert result["config"]["num_env_runners"] == 1 and "Stop criterion" in capsys.readouterr().out
    with pytest.raises(RookeryError, match="did not reach 1000"):
        run_rllib_example_script_experiment(pole.copy(), arguments("--as-test"), success_metric={RETURN: 1000.0})
    with pytest.raises(ConfigError, match="--wandb-key"):
        run_rllib_example_script_experiment(small("CartPole-v1"), arguments("--wandb-key=x"))
    assert should_stop({RETURN: 1.0}, result) and not should_stop({"other": 1.0}, result)
