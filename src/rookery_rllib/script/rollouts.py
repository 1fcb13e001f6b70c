"""``rllib rollout``, later ``rllib evaluate``: runs episodes with a checkpoint, and may write them to a file."""

from __future__ import annotations

import argparse
import json
import pickle
import shelve
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from rookery.face import ConfigError
from rookery_rllib.base import ray_core
from rookery_rllib.base.nested_dicts import merge_dicts
from rookery_rllib.base.notices import say
from rookery_rllib.env.making import EnvMaker
from rookery_rllib.script.command_line import ParserMaker, found_env, mapping
from rookery_rllib.trainer.trial.checkpoints import located
from rookery_rllib.trainer.trial.loggers import NoopLogger
from rookery_rllib.trainer.trial.result_keys import EXPR_PARAM_FILE
from rookery_rllib.tune.trainables import get_trainable_cls

ALL = "__all__"

STEPS = 10_000


def rollout_parser(parser_creator: ParserMaker | None = None) -> argparse.ArgumentParser:
    parser = (parser_creator or argparse.ArgumentParser)(
        prog="rookery rllib rollout", description="Run episodes with a trainer, with RLlib's flags of 2021."
    )
    add = parser.add_argument
    add("checkpoint", nargs="?", help="a checkpoint; without one the trainer is untrained")
    add("--run", required=True, help="the trainer: PPO, DQN, ..., or a registered name")
    add("--env", help="the environment; that of the checkpoint if it is not given")
    add("--config", type=mapping, default={}, metavar="JSON", help="keys that differ from the checkpoint's")
    add("--steps", type=int, default=STEPS, metavar="N", help=f"environment steps, at most ({STEPS}); 0 = any number")
    add("--episodes", type=int, default=0, metavar="N", help="episodes, at most; 0 = any number")
    add("--out", metavar="FILE", help="file for all steps, as a pickle of lists")
    add("--save-info", action="store_true", help="include the info dicts")
    add("--use-shelve", action="store_true", help="write each episode when it ends, into a shelf of Python")
    add("--track-progress", action="store_true", help="write the progress to a file beside --out")
    add("--no-render", action="store_true", help="has no meaning: nothing is drawn to a window")
    add("--video-dir", metavar="DIR", help="directory for a video of an episode")
    add("--local-mode", action="store_true", help="has no meaning: everything runs in this process")
    return parser


def rollout(arguments: Sequence[str]) -> None:
    run_rollout(rollout_parser().parse_args(list(arguments)))


evaluate = rollout


def run_rollout(args: argparse.Namespace) -> None:
    for flag, given in (("--use-shelve", args.use_shelve), ("--track-progress", args.track_progress)):
        if given and not args.out:
            raise ConfigError(f"{flag}: needs a file: --out FILE")
    config = merge_dicts(saved_config(args.checkpoint), args.config)
    evaluation = config.get("evaluation_config") or {}
    config = merge_dicts(config, evaluation)
    if args.env:
        config["env"] = args.env
    unknown = [key for key, value in config.items() if isinstance(value, str) and value.startswith("<")]
    if "env" not in config or "env" in unknown:
        raise ConfigError(
            "--env is missing: the checkpoint does not hold the environment's class; give its path, "
            "package.module.Class"
        )
    config = {key: value for key, value in config.items() if key not in unknown}
    config["env"] = found_env(config["env"])
    cls = get_trainable_cls(args.run)
    ray_core.init(ignore_reinit_error=True, local_mode=args.local_mode)
    trainer: Any = cls(config=config, logger_creator=lambda config: NoopLogger(config, str(Path.cwd())))
    try:
        if args.checkpoint:
            trainer.restore(args.checkpoint)
        elif unknown:
            say(f"left out, because a file cannot hold them: {', '.join(unknown)}")
        saver = Saver(args.out, args.use_shelve, args.track_progress, args.save_info, args.steps, args.episodes)
        with closing(saver):
            play(trainer, saver, args.steps, args.episodes, evaluation.get("explore"))
        if args.video_dir:
            film(trainer, Path(args.video_dir).expanduser())
    finally:
        trainer.stop()
        ray_core.shutdown()


def saved_config(checkpoint: str | None) -> dict[str, Any]:
    """Returns the configuration beside a checkpoint: params.json in its directory or the one above.

    Raises:
        FileError: If there is no checkpoint.
    """
    if not checkpoint:
        return {}
    folder = Path(located(checkpoint)).parent
    for place in (folder, folder.parent):
        if (place / EXPR_PARAM_FILE).is_file():
            found: dict[str, Any] = json.loads((place / EXPR_PARAM_FILE).read_text(encoding="utf-8"))
            return found
    return {}


def film(trainer: Any, folder: Path) -> None:
    inside = getattr(trainer, "rookery", None)
    if inside is None:
        raise ConfigError(f"--video-dir: {trainer} is not a trainer of Rookery, and videos need one")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "episode.webp"
    inside.record(path)
    say(f"film: {path}")


# --- episodes ---------------------------------------------------------------------------------------------------------


@dataclass
class Saver:
    """Stores the steps of episodes.

    Attributes:
        path: File; None = nothing is stored.
        as_shelf: Whether each episode is written when it ends.
        has_progress: Whether the progress is written to a file beside it.
        with_info: Whether info dicts are stored.
        steps: Requested steps.
        episodes: Requested episodes.
    """

    path: str | None = None
    as_shelf: bool = False
    has_progress: bool = False
    with_info: bool = False
    steps: int = 0
    episodes: int = 0
    _rollouts: list[Any] = field(default_factory=list)
    _current: list[Any] = field(default_factory=list)
    _ended: int = 0
    _played: int = 0

    def __post_init__(self) -> None:
        if self.path is not None:
            Path(self.path).touch()  # fails before the first episode
        self._shelf = shelve.open(self.path, flag="n") if self.path and self.as_shelf else None  # noqa: SIM115

    @property
    def progress_file(self) -> Path:
        place = Path(str(self.path))
        return place.with_name(f"__progress_{place.name}")

    def begin_rollout(self) -> None:
        self._current = []

    def append_step(self, obs: Any, action: Any, next_obs: Any, reward: Any, done: Any, info: Any) -> None:
        self._played += 1
        if self.path:
            self._current.append([obs, action, next_obs, reward, done, *([info] if self.with_info else [])])

    def end_rollout(self) -> None:
        if self._shelf is not None:
            self._shelf[str(self._ended)] = self._current
        elif self.path:
            self._rollouts.append(self._current)
        self._ended += 1
        if self.has_progress:
            wanted = f" / {self.episodes}" if self.episodes else ""
            steps = f" / {self.steps}" if self.steps else ""
            text = f"{self._ended}{wanted} episodes, {self._played}{steps} steps completed\n"
            self.progress_file.write_text(text, encoding="utf-8")

    def close(self) -> None:
        if self._shelf is not None:
            self._shelf["num_episodes"] = self._ended
            self._shelf.close()
        elif self.path:
            with Path(self.path).open("wb") as file:  # scripts of 2021 read it with pickle.load
                pickle.dump(self._rollouts, file)
        if self.has_progress:
            self.progress_file.unlink(missing_ok=True)


def play(trainer: Any, saver: Saver, num_steps: int, num_episodes: int, explore: bool | None = None) -> list[float]:
    """Runs episodes until `num_steps` or `num_episodes` (0: no limit), and prints the reward of each.

    Returns:
        The return of each complete episode.
    """
    if not (num_steps or num_episodes):
        raise ConfigError("--steps 0 --episodes 0: this would never end; limit one of them")
    env = environment_of(trainer)
    totals: list[float] = []
    steps = 0
    while not (num_episodes and len(totals) >= num_episodes) and not (num_steps and steps >= num_steps):
        saver.begin_rollout()
        player = Player(trainer, explore)
        total, over = 0.0, False
        obs, _ = env.reset()
        while not over and not (num_steps and steps >= num_steps):
            action = player.act(obs)
            next_obs, reward, terminated, truncated, info = env.step(action)
            over = bool(ended(terminated) or ended(truncated))
            total += float(sum(reward.values()) if isinstance(reward, Mapping) else reward)
            player.see(reward)
            done: Any = over
            if isinstance(reward, Mapping):
                done = {agent: bool(terminated.get(agent) or truncated.get(agent)) for agent in reward} | {ALL: over}
            saver.append_step(obs, action, next_obs, reward, done, info)
            obs, steps = next_obs, steps + 1
        saver.end_rollout()
        if over:
            totals.append(total)
            say(f"Episode #{len(totals)}: reward: {total:g}")
    return totals


def ended(flags: Any) -> bool:
    """Returns whether an episode is over, of one agent or of all."""
    return bool(flags.get(ALL)) if isinstance(flags, Mapping) else bool(flags)


def environment_of(trainer: Any) -> Any:
    """Creates an environment for a trainer, with the present API."""
    known = getattr(trainer, "_known", None)  # an id that Gymnasium has
    if known is not None:
        own = {**known.kwargs, **(trainer.config.get("env_config") or {})}
        return gymnasium.make(known.id, max_episode_steps=known.max_episode_steps, **own)
    return EnvMaker(trainer.config["env"], trainer.config.get("env_config") or {}).with_spaces_of(trainer)()


class Player:
    """Acts for all agents of an episode."""

    def __init__(self, trainer: Any, explore: bool | None) -> None:
        self.trainer, self.explore = trainer, explore
        self.policies: dict[Any, str] = {}
        self.states: dict[Any, list[Any]] = {}
        self.last: dict[Any, tuple[Any, Any]] = {}

    def act(self, obs: Any) -> Any:
        if not self.speaks_in_dicts(obs):
            return self._act_of(None, obs)
        return {agent: self._act_of(agent, part) for agent, part in obs.items() if part is not None}

    def speaks_in_dicts(self, obs: Any) -> bool:
        """Returns whether observations are by agent."""
        multiagent = self.trainer.config.get("multiagent") or {}
        mapped = multiagent.get("policy_mapping_fn") is not None and bool(multiagent.get("policies"))
        return isinstance(obs, Mapping) and (mapped or not isinstance(self._space(), gymnasium.spaces.Dict))

    def _space(self) -> Any:
        policy = self.trainer.get_policy("default_policy")
        space = getattr(policy, "observation_space", None)
        return getattr(space, "original_space", space)

    def _policy_of(self, agent: Any) -> str:
        """Returns the policy of an agent, which is the same throughout an episode."""
        if agent not in self.policies:
            chosen = getattr(getattr(self.trainer, "translation", None), "policy_mapping", None)
            self.policies[agent] = "default_policy" if agent is None or chosen is None else chosen(agent, None)
        return self.policies[agent]

    def _act_of(self, agent: Any, obs: Any) -> Any:
        name = self._policy_of(agent)
        if agent not in self.states:
            self.states[agent] = list(self.trainer.get_policy(name).get_initial_state())
        action, reward = self.last.get(agent, (None, None))
        known = {"policy_id": name, "prev_action": action, "prev_reward": reward, "explore": self.explore}
        if self.states[agent]:
            action, self.states[agent], _ = self.trainer.compute_single_action(obs, self.states[agent], **known)
        else:
            action = self.trainer.compute_single_action(obs, **known)
        self.last[agent] = action, self.last.get(agent, (None, 0.0))[1]
        return action

    def see(self, reward: Any) -> None:
        for agent, part in reward.items() if isinstance(reward, Mapping) else [(None, reward)]:
            if agent in self.last:
                self.last[agent] = self.last[agent][0], np.float32(part)
