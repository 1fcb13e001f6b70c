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
    vector: vectors of environments; Rookery makes its own (num_envs_per_worker), gymnasium.make_vec makes some
    wrappers.AtariPreprocessing: the images of Atari; name the game as env, Rookery prepares its images
    wrappers.LazyFrames: frames that share memory; FrameStack gives one array here
    wrappers.PixelObservationWrapper: images; gymnasium.wrappers.AddRenderObservation is today's
    wrappers.RecordVideo: films of episodes; `rookery record RUN` makes one
    wrappers.NormalizeObservation: observations by running statistics; set observation_filter: MeanStdFilter
    wrappers.NormalizeReward: rewards by running statistics; gymnasium.wrappers.NormalizeReward is today's
    wrappers.monitoring: films and statistics; `rookery record RUN` makes a film
    envs.mujoco.mujoco_env envs.mujoco.MujocoEnv: the base of MuJoCo environments; gymnasium.envs.mujoco.MujocoEnv is
        today's
    envs.atari: Atari games; gym.make('PongNoFrameskip-v4') makes one by ALE
    envs.robotics: robots of MuJoCo; the package gymnasium-robotics has them
    envs.algorithmic: algorithmic tasks, which Gym dropped in 2021; rookery.tasks.memory_tasks has similar ones
    envs.toy_text.discrete: a base class that Gym dropped; write reset and step over your table of transitions
    utils.play: playing by hand; gymnasium.utils.play is today's
    utils.env_checker: a check of environments; `rookery envs check my.module:MyEnv` finds every breach
    scoreboard upload: the web page of results, which closed in 2017
""")
