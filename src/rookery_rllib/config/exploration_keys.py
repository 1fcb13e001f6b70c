"""Keys of the section `exploration_config`: exploration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from rookery.core.packages import is_own
from rookery.face import ConfigError, Piecewise, nearest
from rookery_rllib.base.from_config import imported
from rookery_rllib.config.algorithms import CLONING_KIND, DDPG_KIND, EVOLUTION, ON_POLICY, Q_KIND, SAC_KIND, A, X
from rookery_rllib.config.reader import Reader, Values
from rookery_rllib.config.rows import by, ignored, refused
from rookery_rllib.config.scheduled_values import points_of, ramp, written_schedule

APEX_RATE = 0.4

APEX_LADDER = 7.0
"""Exponent of per-worker exploration, here per environment: the i-th of N has ``0.4 ** (1 + 7 * i / (N - 1))``."""

GONE_EXPLORATIONS: dict[str, str] = {
    "RE3": "use Curiosity, random network distillation (algorithm.signals.rnd of a rookery.Trainer), or a reward that "
    "postprocess_trajectory of a custom Exploration adds",
    "SlateEpsilonGreedy": "slates are not supported; use EpsilonGreedy",
    "SlateSoftQ": "slates are not supported; use SoftQ",
    "ThompsonSampling": "it is the exploration of contrib/LinTS",
    "UCB": "it is the exploration of contrib/LinUCB",
    "UpperConfidenceBound": "it is the exploration of contrib/LinUCB",
}
"""Types of exploration that do not exist here, with replacements."""

OWN_EXPLORATION = "a class of the script"
"""Type of an exploration class of the script."""


def own_exploration(config: Mapping[str, Any]) -> Callable[..., Any] | None:
    """Returns the script's exploration class in a configuration, or None; raises a ConfigError for a wrong path."""
    kind = (config.get("exploration_config") or {}).get("type")
    if isinstance(kind, str) and "." in kind:
        module, _, name = kind.replace(":", ".").rpartition(".")
        if module.startswith(("ray.rllib.utils.exploration", "ray.rllib.contrib.bandits.exploration")):
            return None
        found = imported(module, name)
        if found is None:
            raise ConfigError(f"rllib config: exploration_config.type = {kind!r}: there is no such class")
        kind = found
    return kind if callable(kind) and not is_own(getattr(kind, "__module__", "")) else None


def exploration_type(reader: Reader) -> str:
    if own_exploration(reader.config) is not None:
        return OWN_EXPLORATION
    kind = reader.get("exploration_config.type")
    name = getattr(kind, "__name__", None) or str(kind or "StochasticSampling")
    return str(name).replace(":", ".").rpartition(".")[2]


def exploration_number(reader: Reader, name: str) -> float:
    if reader.get(f"exploration_config.{name}") is not None:
        return reader.number(f"exploration_config.{name}")
    return float(EXPLORATION_DEFAULTS[exploration_type(reader)][name])


def refuse_exploration(reader: Reader, kind: str, use: str) -> None:
    """Adds the problem that an algorithm does not support a type of exploration."""
    gone = GONE_EXPLORATIONS.get(kind)
    known = [*EXPLORATION_DEFAULTS, *GONE_EXPLORATIONS]
    near = "" if kind in known else nearest(kind, known)
    reader.refuse("exploration_config.type", gone or f"{reader.algorithm} does not support it: use {use}{near}")


def drawn_exploration(reader: Reader) -> Values:
    """Translates the exploration of PPO, A2C and PG, which sample their own distribution."""
    kind = exploration_type(reader)
    if kind == OWN_EXPLORATION:
        return {}
    if kind == "Curiosity":
        return curiosity(reader)
    if kind != "StochasticSampling":
        refuse_exploration(
            reader, kind, "StochasticSampling, which samples the policy's own distribution, or Curiosity"
        )
    elif exploration_number(reader, "random_timesteps"):
        reader.refuse("exploration_config.random_timesteps", "on-policy learning uses the policy's own actions; use 0")
    return {}


def no_exploration(reader: Reader) -> Values:
    """Checks the exploration of MARWIL, BC, ES and ARS, which do not explore by actions."""
    kind = exploration_type(reader)
    if kind not in ("StochasticSampling", OWN_EXPLORATION):
        refuse_exploration(reader, kind, "StochasticSampling, which samples the policy's own distribution")
    return {}


def curiosity(reader: Reader) -> Values:
    """Translates Curiosity: an intrinsic reward with its own value function, as PPO and A2C learn it."""
    path = "algorithm.signals.curiosity."

    def given(name: str) -> Any:
        value = reader.get(f"exploration_config.{name}")
        return EXPLORATION_DEFAULTS["Curiosity"][name] if value is None else value

    widths = tuple(given("forward_net_hiddens"))
    if len(widths) != 1:
        reader.refuse("exploration_config.forward_net_hiddens", "both models have one hidden layer: give one width")
        widths = (256,)
    net = given("feature_net_config") or reader.get("model") or {}
    if not isinstance(net, Mapping):
        reader.refuse("exploration_config.feature_net_config", "must be a dict as of model, or None")
        net = {}
    return {
        f"{path}strength": exploration_number(reader, "eta"),
        f"{path}lr": exploration_number(reader, "lr"),
        f"{path}forward_share": exploration_number(reader, "beta"),
        f"{path}num_features": int(exploration_number(reader, "feature_dim")),
        f"{path}hidden": int(widths[0]),
        f"{path}scale": False,
        f"{path}model.hidden": tuple(net.get("fcnet_hiddens", (256, 256))),
        f"{path}model.activation": str(net.get("fcnet_activation", "tanh")),
    }


def q_exploration(reader: Reader) -> Values:
    path, kind = "algorithm.exploration.", exploration_type(reader)
    noisy = reader.algorithm != "SimpleQ" and bool(reader.get("noisy"))
    values: Values = {
        f"{path}kind": "epsilon",
        f"{path}epsilon": 0.0,
        f"{path}temperature": 1.0,
        f"{path}noisy_std": reader.number("sigma0") if reader.algorithm != "SimpleQ" else 0.5,
        f"{path}per_env_epsilon": 0.0,
    }
    if kind == OWN_EXPLORATION:
        pass  # the class is called, and nothing else explores
    elif kind == "EpsilonGreedy":
        values[f"{path}epsilon"] = epsilon(reader)
    elif kind == "PerWorkerEpsilonGreedy":
        values |= {f"{path}epsilon": APEX_RATE, f"{path}per_env_epsilon": APEX_LADDER}
    elif kind in ("SoftQ", "StochasticSampling"):
        values[f"{path}kind"] = "boltzmann"
        values[f"{path}temperature"] = exploration_number(reader, "temperature") if kind == "SoftQ" else 1.0
    elif kind == "Random":
        values[f"{path}epsilon"] = 1.0
    elif kind == "ParameterNoise":
        steps = exploration_number(reader, "random_timesteps")
        values[f"{path}kind"] = "parameters"
        values[f"{path}epsilon"] = Piecewise(((0.0, 1.0), (steps + 1, 1.0), (steps + 2, 0.01)))
        if noisy:
            reader.refuse("noisy", "and exploration_config.type = 'ParameterNoise': leave one of them out")
    else:
        refuse_exploration(reader, kind, "EpsilonGreedy, SoftQ, ParameterNoise, or noisy = True")
    if noisy and reader.get("model.custom_model") is not None:
        reader.refuse("noisy", "a custom_model computes action values by its own layers; use EpsilonGreedy, "
                      "SoftQ or ParameterNoise")  # fmt: skip
    if noisy:
        values[f"{path}kind"] = "noisy"
    if not reader.get("explore"):
        values |= {f"{path}kind": "epsilon", f"{path}epsilon": 0.0}
    return values


def epsilon(reader: Reader) -> Any:
    schedule = reader.get("exploration_config.epsilon_schedule")
    if schedule is not None:
        return written_schedule(reader, "exploration_config.epsilon_schedule", schedule)
    names = ("initial_epsilon", "final_epsilon", "epsilon_timesteps")
    first, last, steps = (exploration_number(reader, name) for name in names)
    return ramp(reader, first, last, steps)


def critic_exploration(reader: Reader) -> Values:
    """Translates the exploration of SAC, DDPG and TD3, and the length of random play."""
    path, kind = "algorithm.exploration.", exploration_type(reader)
    starts = reader.whole("learning_starts")
    values: Values = {f"{path}kind": "white", f"{path}theta": 0.15}
    noises = ("GaussianNoise", "OrnsteinUhlenbeckNoise", "PerWorkerGaussianNoise", "PerWorkerOrnsteinUhlenbeckNoise")
    known = dict.fromkeys(SAC_KIND, ("StochasticSampling",)).get(reader.algorithm, noises)
    if kind not in known:
        if kind != OWN_EXPLORATION:
            refuse_exploration(reader, kind, " or ".join(known))
        elif reader.algorithm not in SAC_KIND:
            values[f"{path}std"] = 0.0
        return values | {"algorithm.learning_starts": starts}
    values["algorithm.learning_starts"] = max(starts, int(exploration_number(reader, "random_timesteps")))
    if kind == "StochasticSampling":
        return values
    if kind.endswith("OrnsteinUhlenbeckNoise"):
        theta, sigma = exploration_number(reader, "ou_theta"), exploration_number(reader, "ou_sigma")
        # RLlib's scale is in units of the action range, which is 2 here, and its sigma is that of a step.
        spread = sigma / math.sqrt(max(1 - (1 - theta) ** 2, 1e-12))
        values |= {f"{path}kind": "ou", f"{path}theta": theta}
        std = 2 * exploration_number(reader, "ou_base_scale") * spread
    else:
        std = exploration_number(reader, "stddev")
    values[f"{path}per_env_epsilon"] = 0.0
    if not reader.get("explore"):
        values[f"{path}std"] = 0.0
    elif kind.startswith("PerWorker"):
        values[f"{path}std"] = std = std * APEX_RATE
        if 0.0 < std < 1.0:  # std ** (1 + ladder * p) is then std * 0.4 ** (7 * p)
            values[f"{path}per_env_epsilon"] = APEX_LADDER * math.log(APEX_RATE) / math.log(std)
    else:
        values[f"{path}std"] = noise_size(reader, std)
    return values


def noise_size(reader: Reader, std: float) -> Any:
    """Returns the noise scale, or its schedule, which begins when random play ends."""
    key = "exploration_config.scale_schedule"
    if reader.get(key) is not None:
        scale = written_schedule(reader, key, reader.get(key))
        return std * scale if isinstance(scale, float) else Piecewise(
            tuple((step, std * size) for step, size in points_of(scale))
        )  # fmt: skip
    names = ("initial_scale", "final_scale", "scale_timesteps", "random_timesteps")
    first, last, steps, after = (exploration_number(reader, name) for name in names)
    return ramp(reader, std * first, std * last, steps, after)


def team_exploration(reader: Reader) -> Values:
    kind = exploration_type(reader)
    values: Values = {"algorithm.exploration.kind": "epsilon", "algorithm.exploration.epsilon": 0.0}
    if kind != "EpsilonGreedy":
        refuse_exploration(reader, kind, "EpsilonGreedy")
    elif reader.get("explore"):
        values["algorithm.exploration.epsilon"] = epsilon(reader)
    return values


def _of(kind: str, **defaults: Any) -> dict[str, Any]:
    """Returns the keys of a type of exploration, with their defaults."""
    return {f"exploration_config.{kind}.{name}": default for name, default in defaults.items()}


DRAWN = (*ON_POLICY, "PG")

TYPE = {"exploration_config.type": "StochasticSampling"}
EPSILON = {"initial_epsilon": 1.0, "final_epsilon": 0.05, "epsilon_timesteps": 100_000, "epsilon_schedule": None}
SCALE = {"initial_scale": 1.0, "final_scale": 0.02, "scale_timesteps": 10_000, "scale_schedule": None}
OU_STEPS = {"ou_theta": 0.15, "ou_sigma": 0.2, "ou_base_scale": 0.1}

C = f"{A}signals.curiosity."
Q_PATHS = f"{X}kind {X}epsilon {X}temperature {X}per_env_epsilon"
NOISE_PATHS = f"{X}kind {X}theta {X}std {X}per_env_epsilon {A}learning_starts"

EPSILON_TEXT = (
    "Epsilon falls linearly from initial_epsilon to final_epsilon in epsilon_timesteps env steps, or follows "
    "epsilon_schedule."
)
SURPRISE = "Setting of Curiosity, an intrinsic reward with its own value function."
ONE_LAYER = "the models of Curiosity have one hidden layer with relu; leave it out"
OWN_PLAY = "on-policy learning uses the policy's own actions; use 0"
ADAPTS = "the noise adapts to a target difference of actions, and is added after random_timesteps"

EXPLORATION = [
    by(drawn_exploration, TYPE, "", "Exploration type: StochasticSampling, Curiosity.", DRAWN),
    refused(_of("StochasticSampling", random_timesteps=0), OWN_PLAY, DRAWN),
    by(drawn_exploration, _of("Curiosity", eta=1.0), f"{C}strength", SURPRISE, DRAWN),
    by(drawn_exploration, _of("Curiosity", lr=1e-3), f"{C}lr", SURPRISE, DRAWN),
    by(drawn_exploration, _of("Curiosity", beta=0.2), f"{C}forward_share", SURPRISE, DRAWN),
    by(drawn_exploration, _of("Curiosity", feature_dim=288), f"{C}num_features", SURPRISE, DRAWN),
    by(drawn_exploration, _of("Curiosity", feature_net_config=None), f"{C}model.hidden {C}model.activation", SURPRISE,
       DRAWN),
    refused(_of("Curiosity", inverse_net_hiddens=(256,)), ONE_LAYER, DRAWN, fine=((256,), [256])),
    refused(_of("Curiosity", inverse_net_activation="relu"), ONE_LAYER, DRAWN, fine=("relu",)),
    by(drawn_exploration, _of("Curiosity", forward_net_hiddens=(256,)), f"{C}hidden", SURPRISE, DRAWN),
    refused(_of("Curiosity", forward_net_activation="relu"), ONE_LAYER, DRAWN, fine=("relu",)),
    refused(_of("Curiosity", sub_exploration=None), ONE_LAYER, DRAWN,
            fine=(None, {"type": "StochasticSampling"}, "StochasticSampling")),
    by(no_exploration, TYPE, "", "Exploration type: StochasticSampling.", (*CLONING_KIND, *EVOLUTION)),
    ignored(_of("StochasticSampling", random_timesteps=0), "it learns from recorded data, and plays no random steps",
            CLONING_KIND),
    ignored(_of("StochasticSampling", random_timesteps=0), "candidates play no random steps", EVOLUTION),
    by(q_exploration, TYPE, Q_PATHS, "Exploration type: EpsilonGreedy, PerWorkerEpsilonGreedy, SoftQ, "
       "StochasticSampling, Random, ParameterNoise.", Q_KIND),
    by(q_exploration, _of("EpsilonGreedy", **EPSILON), Q_PATHS,
       EPSILON_TEXT, Q_KIND),
    by(q_exploration, _of("SoftQ", temperature=1.0), Q_PATHS, "Temperature of the softmax over action values.", Q_KIND),
    refused(_of("StochasticSampling", random_timesteps=0), "set learning_starts, which ends random actions; use 0",
            Q_KIND),
    ignored(_of("ParameterNoise", initial_stddev=1.0), ADAPTS, Q_KIND),
    by(q_exploration, _of("ParameterNoise", random_timesteps=10_000), Q_PATHS,
       "Env steps with random actions before the noise.", Q_KIND),
    ignored(_of("ParameterNoise", sub_exploration=None), ADAPTS, Q_KIND),
    by(critic_exploration, TYPE, f"{A}learning_starts", "Exploration type: StochasticSampling.", SAC_KIND),
    by(critic_exploration, _of("StochasticSampling", random_timesteps=0), f"{A}learning_starts",
       "Decisions with random actions, if more than learning_starts.", SAC_KIND),
    by(team_exploration, TYPE, f"{X}epsilon", "Exploration type: EpsilonGreedy.", ("QMIX",)),
    by(team_exploration, _of("EpsilonGreedy", **EPSILON), f"{X}epsilon", EPSILON_TEXT, ("QMIX",)),
    by(drawn_exploration, TYPE, "", "Exploration type: StochasticSampling.", ("MADDPG",)),
    refused(_of("StochasticSampling", random_timesteps=0), OWN_PLAY, ("MADDPG",)),
    by(critic_exploration, TYPE, NOISE_PATHS, "Exploration type: GaussianNoise, OrnsteinUhlenbeckNoise, "
       "PerWorkerGaussianNoise, PerWorkerOrnsteinUhlenbeckNoise.", DDPG_KIND),
    by(critic_exploration, _of("GaussianNoise", random_timesteps=1000, stddev=0.1, **SCALE), NOISE_PATHS,
       "Noise of standard deviation stddev, after random_timesteps of random actions. Its scale falls linearly from "
       "initial_scale to final_scale in scale_timesteps env steps, or follows scale_schedule.", DDPG_KIND),
    by(critic_exploration, _of("OrnsteinUhlenbeckNoise", random_timesteps=1000, **OU_STEPS, **SCALE), NOISE_PATHS,
       "Ornstein-Uhlenbeck noise (ou_theta, ou_sigma, ou_base_scale), after random_timesteps of random actions. Its "
       "scale falls linearly from initial_scale to final_scale in scale_timesteps env steps, or follows "
       "scale_schedule.", DDPG_KIND),
    by(critic_exploration, _of("PerWorkerGaussianNoise", random_timesteps=1000, stddev=0.1), NOISE_PATHS,
       "Noise of standard deviation stddev, scaled for each environment by its index.", DDPG_KIND),
    by(critic_exploration, _of("PerWorkerOrnsteinUhlenbeckNoise", random_timesteps=1000, **OU_STEPS), NOISE_PATHS,
       "Ornstein-Uhlenbeck noise, scaled for each environment by its index.", DDPG_KIND),
]  # fmt: skip

EXPLORATION_DEFAULTS: dict[str, dict[str, Any]] = {
    kind: {
        row.key.removeprefix(f"exploration_config.{kind}."): row.default
        for rows in EXPLORATION
        for row in rows
        if row.key.startswith(f"exploration_config.{kind}.")
    }
    for kind in (
        "StochasticSampling", "EpsilonGreedy", "PerWorkerEpsilonGreedy", "SoftQ", "Random", "GaussianNoise",
        "OrnsteinUhlenbeckNoise", "PerWorkerGaussianNoise", "PerWorkerOrnsteinUhlenbeckNoise", "Curiosity",
        "ParameterNoise",
    )
}  # fmt: skip
"""Keys of each type of exploration with their defaults."""
