"""Names of `gym` that scripts for RLlib used in 2021."""

from rookery_rllib.base.names import gone_in, names_in

NAMES = names_in("""
gym.core  gym.core: Env GoalEnv Wrapper ObservationWrapper RewardWrapper ActionWrapper  =gymnasium.spaces: Space
gym.envs.registration  gym.registry: make register spec registry EnvSpec EnvRegistry load
gym.envs  .registration: make register spec registry
gym  .core: *  .envs: *  gym.core: __version__=VERSION

gym.spaces
    gym.spaces: box.Box discrete.Discrete
    =gymnasium.spaces: space.Space multi_discrete.MultiDiscrete multi_binary.MultiBinary tuple.Tuple dict.Dict
        utils.flatdim utils.flatten utils.unflatten utils.flatten_space
    .*: *

gym.envs.classic_control
    gym.env_classes: cartpole.CartPoleEnv pendulum.PendulumEnv mountain_car.MountainCarEnv
        continuous_mountain_car.Continuous_MountainCarEnv acrobot.AcrobotEnv
    .*: *
    =gymnasium.envs.classic_control.pendulum: pendulum.angle_normalize
    gym.rendering: rendering.*
gym.envs.toy_text
    gym.env_classes: frozen_lake.FrozenLakeEnv taxi.TaxiEnv cliffwalking.CliffWalkingEnv
    .*: *
    =gymnasium.envs.toy_text.frozen_lake: frozen_lake.generate_random_map
gym.envs.box2d
    gym.env_classes: lunar_lander.LunarLander bipedal_walker.BipedalWalker car_racing.CarRacing
    .*: *
gym.envs.mujoco
    gym.env_classes: ant.AntEnv half_cheetah.HalfCheetahEnv hopper.HopperEnv HumanoidEnv HumanoidStandupEnv
        InvertedPendulumEnv InvertedDoublePendulumEnv PusherEnv ReacherEnv SwimmerEnv Walker2dEnv
    .*: *

gym.error  =gymnasium.error: *
gym.logger  gym.logger: *
gym.utils  =gymnasium.utils: EzPickle ezpickle.EzPickle colorize
gym.utils.seeding  gym.seeding: np_random create_seed hash_seed
gym.wrappers
    gym.core: time_limit.TimeLimit
    gym.wrappers: monitor.Monitor frame_stack.FrameStack ClipAction RescaleAction FlattenObservation FilterObservation
        TransformObservation TransformReward GrayScaleObservation ResizeObservation RecordEpisodeStatistics
    .*: *
""")

GONE = gone_in("""
gym
    vector: vectorized environments; set num_envs_per_worker, or use gymnasium.make_vec
    wrappers.AtariPreprocessing: preprocesses Atari images, which Rookery does itself; name the game as env
    wrappers.LazyFrames: frames that share memory; here FrameStack returns one array
    wrappers.PixelObservationWrapper: rendered observations; use gymnasium.wrappers.AddRenderObservation
    wrappers.RecordVideo: records videos; use `rookery record RUN`
    wrappers.NormalizeObservation: normalizes observations; set observation_filter: MeanStdFilter
    wrappers.NormalizeReward: normalizes rewards; use gymnasium.wrappers.NormalizeReward
    wrappers.monitoring: records videos and statistics; use `rookery record RUN` for videos
    envs.mujoco.mujoco_env envs.mujoco.MujocoEnv: the base class of MuJoCo environments; use
        gymnasium.envs.mujoco.MujocoEnv
    envs.atari: Atari games; use gym.make('PongNoFrameskip-v4'), for example, which needs ALE
    envs.robotics: MuJoCo robots; use the package gymnasium-robotics
    envs.algorithmic: algorithmic tasks, removed from Gym in 2021; rookery.tasks.memory_tasks has similar ones
    envs.toy_text.discrete: a base class, removed from Gym; write reset and step for your table of transitions
    utils.play: lets a person play; use gymnasium.utils.play
    utils.env_checker: checks an environment; use `rookery envs check my.module:MyEnv`
    scoreboard upload: the web site for results, closed in 2017
""")
