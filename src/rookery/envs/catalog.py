"""Known environment families: the required package of each, and how to install it. Listings omit families whose package
is missing.

No package is imported for that: a missing one costs neither an error nor start-up time.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec

from rookery.core.packages import extra


@dataclass(frozen=True)
class Family:
    """Environments that are available if a module is installed.

    Attributes:
        names: Patterns of their names (``*`` matches any text).
        module: Import name of the module that they need, none of whose parents is optional.
        install: Requirement for `pip install` that installs the module.
        about: Description in a few words.
    """

    names: tuple[str, ...]
    module: str
    install: str
    about: str

    @property
    def is_here(self) -> bool:
        """Whether the module is installed."""
        return find_spec(self.module) is not None


FAMILIES = (
    Family(("ALE/*", "Atari"), "ale_py", extra("atari"), "Atari's games"),
    Family(("LunarLander*", "BipedalWalker*", "CarRacing*"), "Box2D", extra("envs"), "Gymnasium's Box2D"),
    Family(("MiniGrid-*", "BabyAI-*"), "minigrid", extra("envs"), "grid worlds"),
    Family(("simple_*",), "mpe2", extra("envs"), "multi-agent particle environments, as mpe2.simple_spread_v3"),
    Family(
        ("Ant-*", "HalfCheetah-*", "Hopper-*", "Humanoid*", "Inverted*", "Pusher-*", "Reacher-*", "Swimmer-*",
         "Walker2d-*"),
        "mujoco", extra("mujoco"), "Gymnasium's robots",
    ),
    Family(("MinAtar/*",), "minatar", extra("minatar"), "miniature Atari games"),
    Family(("envpool:*",), "envpool", extra("envpool"), "vectorized environments in C++"),
    Family(("knights_archers_zombies_*", "cooperative_pong_*"), "pygame", extra("envs"), "PettingZoo's games"),
    Family(("pistonball_*",), "pymunk", "pettingzoo[butterfly]", "PettingZoo's physics"),
    Family(
        ("connect_four_*", "go_*", "rps_*", "tictactoe_*"),
        "pygame", extra("envs"), "PettingZoo's board games, as pettingzoo.classic.tictactoe_v3",
    ),
    Family(("chess_*",), "chess", "pettingzoo[classic]", "PettingZoo's chess"),
    Family(("gin_rummy_*", "leduc_holdem_*", "texas_holdem_*"), "rlcard", "pettingzoo[classic]", "PettingZoo's cards"),
)  # fmt: skip
"""Environments that need more than Rookery, Gymnasium and PettingZoo."""


def family_of(name: str) -> Family | None:
    """Returns the family of an environment, or of a pattern of them; None if it needs nothing besides Rookery."""
    return next((one for one in FAMILIES if any(fnmatchcase(name, pattern) for pattern in one.names)), None)


def missing_families() -> tuple[Family, ...]:
    """Returns the families whose module is not installed."""
    return tuple(one for one in FAMILIES if not one.is_here)


@dataclass(frozen=True)
class OtherSuite:
    """Environments of a package of which Rookery knows only how to name them.

    Attributes:
        title: Name of the suite.
        names: Patterns of names by which users look for it.
        install: Requirement for `pip install`.
        example: Name of an environment, and settings that it needs, as on the command line.
    """

    title: str
    names: tuple[str, ...]
    install: str
    example: str


OTHER_SUITES = (
    OtherSuite("DeepMind Control", ("dm_control*", "dmc*"), "shimmy[dm-control]", "shimmy:dm_control/cheetah-run-v0"),
    OtherSuite("Procgen", ("procgen*",), extra("envpool"), "envpool:CoinrunEasy-v0"),
    OtherSuite("MiniHack", ("minihack*",), "minihack", "minihack:MiniHack-Room-5x5-v0"),
    OtherSuite("highway-env", ("highway*",), "highway-env", "highway_env:highway-v0"),
    OtherSuite("Meta-World", ("metaworld*", "meta-world*"), "metaworld",
               "metaworld:Meta-World/MT1 env.config.env_name=reach-v3"),
    OtherSuite("MO-Gymnasium", ("mo-*", "mo_gym*"), "mo-gymnasium",
               "mo_gymnasium:mo-hopper-v5 env.wrappers='[\"mo_gymnasium.wrappers:LinearReward\"]'"),
    OtherSuite("Gymnasium-Robotics", ("Fetch*", "*Maze*", "Adroit*", "HandReach*", "gymnasium_robotics*"),
               "gymnasium-robotics", "gymnasium_robotics:FetchReach-v4"),
    OtherSuite("panda-gym", ("panda*",), "panda-gym", "panda_gym:PandaReach-v3"),
)  # fmt: skip
"""Suites that users look for, other than those of `FAMILIES`."""


def other_suite_hint(name: str) -> str:
    """Returns how an environment of another suite is installed and named; an empty text for a name of none."""
    for suite in OTHER_SUITES:
        if any(fnmatchcase(name.lower(), pattern.lower()) for pattern in suite.names):
            return f"; {suite.title} needs pip install '{suite.install}' and is named as in {suite.example}"
    return ""
