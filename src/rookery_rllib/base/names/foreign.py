"""Names of `gym` that scripts for RLlib used in 2021."""

_CORE = {
    "Env": "gym.core:Env",
    "GoalEnv": "gym.core:GoalEnv",
    "Wrapper": "gym.core:Wrapper",
    "ObservationWrapper": "gym.core:ObservationWrapper",
    "RewardWrapper": "gym.core:RewardWrapper",
    "ActionWrapper": "gym.core:ActionWrapper",
}

_SPACES = {
    "Box": "gym.spaces:Box",
    "Discrete": "gym.spaces:Discrete",
    "Space": "=gymnasium.spaces:Space",
    "MultiDiscrete": "=gymnasium.spaces:MultiDiscrete",
    "MultiBinary": "=gymnasium.spaces:MultiBinary",
    "Tuple": "=gymnasium.spaces:Tuple",
    "Dict": "=gymnasium.spaces:Dict",
    "flatdim": "=gymnasium.spaces:flatdim",
    "flatten": "=gymnasium.spaces:flatten",
    "unflatten": "=gymnasium.spaces:unflatten",
    "flatten_space": "=gymnasium.spaces:flatten_space",
}

_REGISTRY = {
    "make": "gym.registry:make",
    "register": "gym.registry:register",
    "spec": "gym.registry:spec",
    "registry": "gym.registry:registry",
}

_CLASSIC = {
    "CartPoleEnv": "gym.env_classes:CartPoleEnv",
    "PendulumEnv": "gym.env_classes:PendulumEnv",
    "MountainCarEnv": "gym.env_classes:MountainCarEnv",
    "Continuous_MountainCarEnv": "gym.env_classes:Continuous_MountainCarEnv",
    "AcrobotEnv": "gym.env_classes:AcrobotEnv",
}

_GRID = {
    "FrozenLakeEnv": "gym.env_classes:FrozenLakeEnv",
    "TaxiEnv": "gym.env_classes:TaxiEnv",
    "CliffWalkingEnv": "gym.env_classes:CliffWalkingEnv",
}

_BOX2D = {name: f"gym.env_classes:{name}" for name in ("LunarLander", "BipedalWalker", "CarRacing")}

_MUJOCO = {
    f"{name}Env": f"gym.env_classes:{name}Env"
    for name in [
        "Ant",
        "HalfCheetah",
        "Hopper",
        "Humanoid",
        "HumanoidStandup",
        "InvertedPendulum",
        "InvertedDoublePendulum",
        "Pusher",
        "Reacher",
        "Swimmer",
        "Walker2d",
    ]
}

_WRAPPERS = {
    "TimeLimit": "gym.core:TimeLimit",
    **{
        name: f"gym.wrappers:{name}"
        for name in (
            "Monitor",
            "ClipAction",
            "RescaleAction",
            "FlattenObservation",
            "FilterObservation",
            "TransformObservation",
            "TransformReward",
            "GrayScaleObservation",
            "ResizeObservation",
            "FrameStack",
            "RecordEpisodeStatistics",
        )
    },
}

NAMES = {
    "gym": {
        **_CORE,
        **_REGISTRY,
        "Space": "=gymnasium.spaces:Space",
        "__version__": "gym.core:VERSION",
    },
    "gym.core": {**_CORE, "Space": "=gymnasium.spaces:Space"},
    "gym.spaces": _SPACES,
    "gym.spaces.space": {"Space": _SPACES["Space"]},
    "gym.spaces.box": {"Box": _SPACES["Box"]},
    "gym.spaces.discrete": {"Discrete": _SPACES["Discrete"]},
    "gym.spaces.multi_discrete": {"MultiDiscrete": _SPACES["MultiDiscrete"]},
    "gym.spaces.multi_binary": {"MultiBinary": _SPACES["MultiBinary"]},
    "gym.spaces.tuple": {"Tuple": _SPACES["Tuple"]},
    "gym.spaces.dict": {"Dict": _SPACES["Dict"]},
    "gym.spaces.utils": {name: _SPACES[name] for name in ("flatdim", "flatten", "unflatten", "flatten_space")},
    "gym.envs": _REGISTRY,
    "gym.envs.registration": {
        **_REGISTRY,
        "EnvSpec": "gym.registry:EnvSpec",
        "EnvRegistry": "gym.registry:EnvRegistry",
        "load": "gym.registry:load",
    },
    "gym.envs.classic_control": _CLASSIC,
    "gym.envs.classic_control.cartpole": {"CartPoleEnv": _CLASSIC["CartPoleEnv"]},
    "gym.envs.classic_control.pendulum": {
        "PendulumEnv": _CLASSIC["PendulumEnv"],
        "angle_normalize": "=gymnasium.envs.classic_control.pendulum:angle_normalize",
    },
    "gym.envs.classic_control.mountain_car": {"MountainCarEnv": _CLASSIC["MountainCarEnv"]},
    "gym.envs.classic_control.continuous_mountain_car": {
        "Continuous_MountainCarEnv": _CLASSIC["Continuous_MountainCarEnv"]
    },
    "gym.envs.classic_control.acrobot": {"AcrobotEnv": _CLASSIC["AcrobotEnv"]},
    "gym.envs.classic_control.rendering": {"*": "gym.rendering:"},
    "gym.envs.toy_text": _GRID,
    "gym.envs.toy_text.frozen_lake": {
        "FrozenLakeEnv": _GRID["FrozenLakeEnv"],
        "generate_random_map": "=gymnasium.envs.toy_text.frozen_lake:generate_random_map",
    },
    "gym.envs.toy_text.taxi": {"TaxiEnv": _GRID["TaxiEnv"]},
    "gym.envs.toy_text.cliffwalking": {"CliffWalkingEnv": _GRID["CliffWalkingEnv"]},
    "gym.envs.box2d": _BOX2D,
    "gym.envs.box2d.lunar_lander": {"LunarLander": _BOX2D["LunarLander"]},
    "gym.envs.box2d.bipedal_walker": {"BipedalWalker": _BOX2D["BipedalWalker"]},
    "gym.envs.box2d.car_racing": {"CarRacing": _BOX2D["CarRacing"]},
    "gym.envs.mujoco": _MUJOCO,
    "gym.envs.mujoco.ant": {"AntEnv": _MUJOCO["AntEnv"]},
    "gym.envs.mujoco.half_cheetah": {"HalfCheetahEnv": _MUJOCO["HalfCheetahEnv"]},
    "gym.envs.mujoco.hopper": {"HopperEnv": _MUJOCO["HopperEnv"]},
    "gym.error": {"*": "=gymnasium.error:"},
    "gym.logger": {"*": "gym.logger:"},
    "gym.utils": {"EzPickle": "=gymnasium.utils:EzPickle", "colorize": "=gymnasium.utils:colorize"},
    "gym.utils.ezpickle": {"EzPickle": "=gymnasium.utils:EzPickle"},
    "gym.utils.seeding": {
        "np_random": "gym.seeding:np_random",
        "create_seed": "gym.seeding:create_seed",
        "hash_seed": "gym.seeding:hash_seed",
    },
    "gym.wrappers": _WRAPPERS,
    "gym.wrappers.time_limit": {"TimeLimit": _WRAPPERS["TimeLimit"]},
    "gym.wrappers.monitor": {"Monitor": _WRAPPERS["Monitor"]},
    "gym.wrappers.frame_stack": {"FrameStack": _WRAPPERS["FrameStack"]},
}

GONE = {
    "gym.vector": "vectors of environments; Rookery makes its own (num_envs_per_worker), gymnasium.make_vec makes some",
    "gym.wrappers.AtariPreprocessing": "the pictures of Atari; name the game as env, Rookery prepares its pictures",
    "gym.wrappers.LazyFrames": "frames that share memory; FrameStack gives one array here",
    "gym.wrappers.PixelObservationWrapper": "pictures; gymnasium.wrappers.AddRenderObservation is today's",
    "gym.wrappers.RecordVideo": "films of episodes; `rookery record RUN` makes one",
    "gym.wrappers.NormalizeObservation": "observations by running statistics; set observation_filter: MeanStdFilter",
    "gym.wrappers.NormalizeReward": "rewards by running statistics; gymnasium.wrappers.NormalizeReward is today's",
    "gym.wrappers.monitoring": "films and statistics; `rookery record RUN` makes a film",
    "gym.envs.mujoco.mujoco_env": "the base of MuJoCo environments; gymnasium.envs.mujoco.MujocoEnv is today's",
    "gym.envs.mujoco.MujocoEnv": "the base of MuJoCo environments; gymnasium.envs.mujoco.MujocoEnv is today's",
    "gym.envs.atari": "Atari games; gym.make('PongNoFrameskip-v4') makes one by ALE",
    "gym.envs.robotics": "robots of MuJoCo; the package gymnasium-robotics has them",
    "gym.envs.algorithmic": "algorithmic tasks, which Gym dropped in 2021; rookery.tasks.memory_tasks has similar ones",
    "gym.envs.toy_text.discrete": "a base class that Gym dropped; write reset and step over your table of transitions",
    "gym.utils.play": "playing by hand; gymnasium.utils.play is today's",
    "gym.utils.env_checker": "a check of environments; `rookery envs check my.module:MyEnv` finds every breach",
    "gym.scoreboard": "the web page of results, which closed in 2017",
    "gym.upload": "the web page of results, which closed in 2017",
}
