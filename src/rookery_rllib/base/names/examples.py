"""Names of ``ray.rllib.examples.env``: the environments of RLlib's examples."""


def _of(module: str, *names: str) -> dict[str, str]:
    return {name: f"{module}:{name}" for name in names}


_ONE, _MANY = "examples.single_agent_envs", "examples.multi_agent_envs"
_AT = "ray.rllib.examples.env"

NAMES: dict[str, dict[str, str]] = {
    f"{_AT}.cartpole_mass": _of(_ONE, "CartPoleMassEnv"),
    f"{_AT}.coin_game_non_vectorized_env": _of(_MANY, "CoinGame", "AsymCoinGame"),
    f"{_AT}.correlated_actions_env": _of(_ONE, "CorrelatedActionsEnv"),
    f"{_AT}.curriculum_capable_env": _of(_ONE, "CurriculumCapableEnv"),
    f"{_AT}.debug_counter_env": _of(_ONE, "DebugCounterEnv") | _of(_MANY, "MultiAgentDebugCounterEnv"),
    f"{_AT}.env_using_remote_actor": _of(
        "examples.actor_envs", "CartPoleWithRemoteParamServer", "ParameterStorage"
    ),
    f"{_AT}.fast_image_env": _of(_ONE, "FastImageEnv"),
    f"{_AT}.gpu_requiring_env": _of(_ONE, "GPURequiringEnv"),
    f"{_AT}.look_and_push": _of(_ONE, "LookAndPush", "OneHot"),
    f"{_AT}.matrix_sequential_social_dilemma": _of(
        _MANY, "MatrixSequentialSocialDilemma", "IteratedMatchingPennies", "IteratedPrisonersDilemma",
        "IteratedAsymPrisonersDilemma", "IteratedStagHunt", "IteratedChicken", "IteratedAsymChicken", "IteratedBoS",
        "IteratedAsymBoS", "IteratedBoSAndPD", "define_greed_fear_matrix_game",
    ),
    f"{_AT}.mock_env": _of(_ONE, "MockEnv", "MockEnv2"),
    f"{_AT}.multi_agent": {
        **_of(
            _MANY, "BasicMultiAgent", "EarlyDoneMultiAgent", "FlexAgentsMultiAgent", "RoundRobinMultiAgent",
            "MultiAgentCartPole", "MultiAgentMountainCar", "MultiAgentPendulum", "MultiAgentStatelessCartPole",
        ),
        "make_multi_agent": "env.envs:make_multi_agent",
        "make_multiagent": "env.envs:make_multi_agent",
    },
    f"{_AT}.nested_space_repeat_after_me_env": _of(_ONE, "NestedSpaceRepeatAfterMeEnv"),
    f"{_AT}.parametric_actions_cartpole": _of(
        _ONE, "ParametricActionsCartPole", "ParametricActionsCartPoleNoEmbeddings"
    ),
    f"{_AT}.pendulum_mass": _of(_ONE, "PendulumMassEnv"),
    f"{_AT}.random_env": _of(_ONE, "RandomEnv", "RandomLargeObsSpaceEnv") | _of(_MANY, "RandomMultiAgentEnv"),
    f"{_AT}.repeat_after_me_env": _of(_ONE, "RepeatAfterMeEnv"),
    f"{_AT}.repeat_initial_obs_env": _of(_ONE, "RepeatInitialObsEnv"),
    f"{_AT}.rock_paper_scissors": _of(_MANY, "RockPaperScissors"),
    f"{_AT}.simple_corridor": _of(_ONE, "SimpleCorridor"),
    f"{_AT}.simple_rpg": _of(_ONE, "SimpleRPG", "MAX_PLAYERS", "MAX_ITEMS", "MAX_EFFECTS"),
    f"{_AT}.stateless_cartpole": _of(_ONE, "StatelessCartPole"),
    f"{_AT}.two_step_game": _of(_MANY, "TwoStepGame"),
    f"{_AT}.windy_maze_env": _of(_ONE, "WindyMazeEnv") | _of(_MANY, "HierarchicalWindyMazeEnv"),
}  # fmt: skip

_META = "a robot of the old MuJoCo bindings with random tasks, for MAML, which is not here; use gymnasium.envs.mujoco"

GONE: dict[str, str] = {
    f"{_AT}.ant_rand_goal": _META,
    f"{_AT}.halfcheetah_rand_direc": _META,
    f"{_AT}.mbmpo_env": "environments with a reward function for MB-MPO, which is not here",
    f"{_AT}.coin_game_vectorized_env": "the coin game in arrays, compiled by numba; use coin_game_non_vectorized_env",
    f"{_AT}.d4rl_env": "environments of D4RL's data sets; use Minari's, and config['input']",
    f"{_AT}.dm_control_suite": "dm_control's environments; use shimmy's, gymnasium.make('dm_control/...')",
    f"{_AT}.env_with_subprocess": "an environment that tested how workers are cleaned up; nothing is learned in it",
    f"{_AT}.utils": "how games counted what was played; those here tell it in the last infos of an episode",
    f"{_AT}.tests": "RLlib's own tests",
}
