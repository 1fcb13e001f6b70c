"""Checks the contract of an environment: reports every violation at once, and the causes of slow, inexact or unsafe
training.

`check_env` plays random episodes on environments of its own and returns its findings. It learns and writes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import islice, zip_longest
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.core.errors import EnvError, SpaceError
from rookery.core.seeding import Role, Streams
from rookery.core.spaces.arrays import MASK, ActionSpec, ObsSpec, action_spec, check_maskable, mask_width, obs_spec
from rookery.core.spaces.entity_set import bounded
from rookery.envs.adapters.gym_env import AGENT, GymLane
from rookery.envs.adapters.lane import GROUP_REWARD, Agent, Breach, LaneStep, declared_groups
from rookery.envs.adapters.probe import EnvFinding, Findings, Probe
from rookery.envs.adapters.snapshot import can_capture
from rookery.envs.base import VectorEnv
from rookery.envs.groups import checked_groups, groups_of
from rookery.envs.make import env_name, is_vector, lane_maker, make_env
from rookery.envs.native.soundness import check_soundness
from rookery.envs.random_play import random_actions, random_answers

REPLAY = 200
"""Steps of an episode that are repeated for comparison."""

IDLE = 200
"""Number of consecutive steps without an acting agent after which an episode counts as stalled."""

Moment = dict[Agent, tuple[str, str, str]]
"""Digest of the observation, reward and ends of a step, by agent."""

ORDER = {"error": 0, "warning": 1, "note": 2}


def check_env(
    env: Any,
    config: Mapping[str, Any] | None,
    wrappers: Sequence[Any],
    *,
    episodes: int,
    max_steps: int,
    seed: int,
    max_entities: int | None = None,
) -> list[EnvFinding]:
    """Plays random episodes and returns all problems and remarks, errors first.

    Args:
        env: Name or maker of the environment, as for `make_env`; so are the arguments not described here.
        config: Keyword arguments of the environment's constructor.
        wrappers: Wrappers of each environment.
        episodes: Number of episodes.
        max_steps: Number of steps after which an episode counts as endless.
        seed: Seed of the episodes and the actions.
        max_entities: Largest number of elements of a ``Sequence``.
    """
    findings = Findings()
    try:
        if is_vector(env):
            pair = [make_env(env, config, (), 4, "batched", max_entities=max_entities) for _ in range(2)]
            with closing(pair[0]), closing(pair[1]):
                if check_soundness(pair, findings, seed):
                    _check_batched(pair, env_name(env), findings, max_steps, Streams(seed))
        else:
            make = lane_maker(env, config, wrappers, max_entities=max_entities)
            _Check(env, make, findings, episodes, max_steps, Streams(seed)).run()
    except EnvError as error:
        findings.where = ""
        findings.add("error", str(error))
    return sorted(findings.found.values(), key=lambda finding: ORDER[finding.severity])


class _Check:
    """One run of the checks on single environments."""

    def __init__(
        self, env: Any, make: Any, findings: Findings, episodes: int, max_steps: int, streams: Streams
    ) -> None:
        self.env, self.make, self.findings, self.streams = env, make, findings, streams
        self.episodes, self.max_steps = episodes, max_steps
        self.error, self.warn = partial(findings.add, "error"), partial(findings.add, "warning")
        self.probes: list[Probe] = []
        self.specs: dict[Agent, tuple[ObsSpec, ActionSpec] | None] = {}
        self.met: dict[Agent, None] = {}
        self.lengths: list[int] = []
        self.ends: list[str] = []
        self.first_obs: set[str] = set()
        self.seen_obs: set[str] = set()
        self.rewards: list[float] = []
        self.groups: dict[str, tuple[str, ...]] = {}
        self.group_rewards: list[float] = []
        self.kept: list[tuple[Agent, Any, str]] = []
        self.masked = False

    def run(self) -> None:
        """Runs all checks in turn."""
        copy = self.probe()
        for agent in copy.lane.agents:
            self.spec(copy, agent)
        self.about_groups(copy)
        transcript: list[Moment] = []
        for number in range(self.episodes):
            moments = self.play(copy, number, number)
            transcript = transcript or list(islice(moments, REPLAY))
            for _ in moments:
                pass
        self.about_episodes(copy)
        if transcript:
            self.replay(copy, transcript)
        self.findings.where = ""
        for probe in self.probes:
            probe.close()

    def probe(self) -> Probe:
        """Returns a new environment."""
        self.probes.append(Probe(self.make(), self.findings))
        return self.probes[-1]

    # --- playing ------------------------------------------------------------------------------------------------------

    def play(self, probe: Probe, episode: int, number: int | None = None) -> Iterator[Moment]:
        """Plays an episode of random actions and yields the content of each step; an episode without a number is only
        compared.
        """
        seed = self.streams.integer(Role.ENV, 0, episode)
        rng = self.streams.generator(Role.ACTION, episode)
        looks = number is not None
        self.findings.where = f"episode {number}, reset" if looks else ""
        shown, step, idle = probe.reset(seed), 0, 0
        if looks:
            self.look(probe, shown)
            if shown.obs:
                self.first_obs.add(_digest(next(iter(shown.obs.values()))))
        yield _moment(shown)
        while not (shown.ended or probe.stuck or step == self.max_steps or idle == IDLE):
            actions = self.draw(probe, shown, rng)
            if actions is None:
                return
            step += 1
            self.findings.where = f"episode {number}, step {step}" if looks else ""
            before = {agent: _digest(action) for agent, action in actions.items()}
            shown = probe.step(actions)
            idle = 0 if shown.obs or shown.ended else idle + 1
            if looks:
                for agent, digest in before.items():
                    if _digest(actions[agent]) != digest:
                        self.warn("step() changes the action it is given; copy it first", agent)
                self.look(probe, shown)
            yield _moment(shown)
        if looks:
            self.finish(probe, shown, step, idle)

    def draw(self, probe: Probe, shown: LaneStep, rng: np.random.Generator) -> dict[Agent, Any] | None:
        """Draws a random allowed action for each agent that must act; None if one of them has no usable spaces."""
        actions = {}
        for agent, obs in shown.obs.items():
            specs = self.spec(probe, agent)
            if specs is None:
                return None
            obs_layout, action_layout = specs
            mask = shown.masks.get(agent)
            allowed = None
            if mask_width(action_layout.space) and (mask is not None or obs_layout.has_mask):
                with suppress(SpaceError):  # noted when the observation was checked
                    layout = obs_spec(obs_layout.space, action_layout.space, info_mask=mask is not None)
                    tree = layout.allocate(1)
                    layout.write(obs, tree, 0, mask)
                    allowed = tree[MASK]
            drawn = random_actions(action_layout, 1, allowed, rng)
            actions[agent] = action_layout.to_env(drawn)[0]
        return actions

    def spec(self, probe: Probe, agent: Agent) -> tuple[ObsSpec, ActionSpec] | None:
        """Returns the layouts of an agent's observations and actions; None, with an error noted, if they cannot be
        used.
        """
        if agent not in self.specs:
            self.specs[agent] = None
            try:
                obs, action = probe.lane.spaces(agent)
                layouts = obs_spec(bounded(obs, probe.lane.max_entities), action), action_spec(action)
            except (Breach, SpaceError) as error:
                self.error(str(error), agent)
            else:
                self.specs[agent] = layouts
                for dropped in layouts[0].dropped:
                    self.warn(f"{dropped}; that part is left out", agent, sort=f"left out {dropped}")
        return self.specs[agent]

    # --- checking -----------------------------------------------------------------------------------------------------

    def look(self, probe: Probe, shown: LaneStep) -> None:
        """Checks all values that a reset or a step returned."""
        for agent, obs, digest in self.kept:
            if _digest(obs) != digest:
                text = "the arrays it returned as observation change in a later step"
                self.warn(f"{text}; Rookery copies them, others may not: return a copy", agent)
        self.kept = [(agent, obs, _digest(obs)) for agent, obs in shown.obs.items()]
        if len(self.seen_obs) < 2:
            self.seen_obs |= {digest for _, _, digest in self.kept}
        for agent, obs in [*shown.obs.items(), *shown.final.items()]:
            self.met[agent] = None
            specs = self.spec(probe, agent)
            if specs is not None:
                self.look_at_obs(agent, obs, *specs, shown.masks.get(agent), final=agent in shown.final)
        for agent, reward in shown.reward.items():
            value = np.asarray(reward)
            if value.size != 1 or value.dtype.kind not in "fiub":
                self.error(f"reward is {reward!r}, expected a finite number", agent, sort="reward type")
            elif not np.isfinite(value).all():
                self.error(f"reward is {value.item()}, expected a finite number", agent)
            else:
                self.rewards.append(float(value.item()))
        self.look_at_groups(probe, shown)

    def about_groups(self, probe: Probe) -> None:
        """Checks the groups that the environment declares."""
        groups, agents = declared_groups(probe.env), [str(agent) for agent in probe.lane.agents]
        if isinstance(probe.lane, GymLane) or {str(group) for group in groups} <= {*agents}:
            return
        try:
            self.groups = checked_groups(groups, agents, env_name(self.env))
        except EnvError as error:
            self.error(str(error), sort="groups")
        for group, members in self.groups.items():
            self.findings.add("note", f"group {group!r}: {', '.join(members)} win and lose together")

    def look_at_groups(self, probe: Probe, shown: LaneStep) -> None:
        """Checks the group rewards of a step."""
        reported: dict[str, tuple[Agent, float]] = {}
        for agent, reward in ({} if isinstance(probe.lane, GymLane) else probe.lane.group_rewards(shown)).items():
            group = next((name for name, members in self.groups.items() if str(agent) in members), None)
            value = np.asarray(reward)
            if group is None:
                hint = "name it in the attribute groups = {name: [agents]} of the environment"
                self.error(f"info has {GROUP_REWARD}, but the agent is in no group: {hint}", agent, sort="group")
            elif value.size != 1 or value.dtype.kind not in "fiub" or not np.isfinite(value).all():
                self.error(f"{GROUP_REWARD} is {reward!r}, expected a finite number", agent, sort="group reward")
            elif group in reported and reported[group][1] != value.item():
                mate, other = reported[group]
                text = f"{GROUP_REWARD} is {value.item():g}, and {str(mate)!r} of the same group reports {other:g}"
                self.error(f"{text}: members must say the same, or one of them alone", agent, sort="group rewards")
            else:
                reported[group] = agent, float(value.item())
        self.group_rewards += [reward for _, reward in reported.values()]

    def look_at_obs(
        self, agent: Agent, obs: Any, layout: ObsSpec, actions: ActionSpec, mask: Any, *, final: bool
    ) -> None:
        """Checks one observation, part by part."""
        if mask is not None:
            self.masked = True
            try:
                check_maskable(actions.space, "info")
            except SpaceError as error:
                self.error(str(error), agent)
            else:
                layout = layout if layout.has_mask else obs_spec(layout.space, actions.space, info_mask=True)
        for leaf in layout.leaves:
            part = ObsSpec(layout.space, (leaf,))
            tree = part.allocate(1)
            try:
                part.write(obs, tree, 0, mask)
            except SpaceError as error:
                self.error(f"observation {error}", agent)
                continue
            if leaf.kind == "mask" and final:
                continue  # no policy acts on it, and environments often allow no action after the end
            if problem := part.check(tree, slice(None)):
                self.error(f"observation {problem}", agent, sort=f"value {leaf.path}")
        for path, problem in _deviations(layout.space, obs, ""):
            self.warn(f"observation {path or 'obs'}: {problem}", agent, sort=f"{path} {problem.split()[0]}")

    def finish(self, probe: Probe, shown: LaneStep, step: int, idle: int) -> None:
        """Notes how an episode ended."""
        if idle == IDLE:
            text = f"no agent had to act for {IDLE} steps and the episode did not end"
            hint = "; if all agents have ended, set terminateds['__all__'] = True" if "dict" in probe.style else ""
            self.error(text + hint, sort="idle")
        elif shown.ended:
            self.lengths.append(step)
            self.ends.append("truncated" if shown.truncated and not shown.terminated else "terminated")
        elif not probe.stuck:
            limit = "set truncated after as many as it should have, or, by id, env.config.max_episode_steps=1000"
            text = f"the episode did not end within {self.max_steps:,} steps; returns are of whole episodes: {limit}"
            self.warn(text, sort="endless")

    # --- over all episodes --------------------------------------------------------------------------------------------

    def about_episodes(self, probe: Probe) -> None:
        """Checks statistics over all episodes."""
        add, lengths = self.findings.add, self.lengths
        self.findings.where = ""
        if len(lengths) >= 3 and len(set(lengths)) == 1 and set(self.ends) == {"terminated"} and lengths[0] >= 10:
            text = f"all {len(lengths)} episodes were terminated after exactly {lengths[0]} steps"
            limit = "as with a time limit: if it is one, set truncated instead, so that the final value is bootstrapped"
            self.warn(f"{text}, {limit}", sort="time limit")
        for agent in probe.lane.agents:
            if agent not in self.met and self.specs.get(agent) is not None:
                self.warn("is announced but never had to act", agent, sort="idle agent")
        if self.rewards and not any(self.rewards) and not any(self.group_rewards):
            text = f"all {len(self.rewards):,} rewards were 0: random play finds none, learning may not either"
            self.warn(text, sort="no reward")
        if len(self.seen_obs) == 1 and max(lengths, default=0) > 1:
            self.warn("all observations were the same: they do not show what actions change", sort="constant obs")
        elif len(self.first_obs) == 1 and self.episodes > 1 and lengths:
            add("note", "every episode begins with the same observation, whatever the seed")
        agents = len(self.met)
        facts = [probe.style, f"{agents} agent{'' if agents == 1 else 's'}"]
        if lengths:
            low, high = min(lengths), max(lengths)
            facts.append(f"episodes of {low} steps" if low == high else f"episodes of {low} to {high} steps")
        if self.rewards:
            facts.append(f"rewards from {min(self.rewards):g} to {max(self.rewards):g}")
        if self.group_rewards:
            facts.append(f"group rewards from {min(self.group_rewards):g} to {max(self.group_rewards):g}")
        add("note", ", ".join(facts))
        for agent, specs in self.specs.items():
            if specs is not None and agent in self.met:
                add("note", " ".join(f"observes {specs[0].space}, acts in {specs[1].space}".split()), agent)
        if probe.steps and probe.seconds:
            add("note", f"{probe.steps / probe.seconds:,.0f} steps a second, one environment alone")
        how = "by repeating its actions"
        if isinstance(probe.lane, GymLane):
            if not self.masked and probe.lane.env.has_wrapper_attr("action_masks"):
                self.warn("action_masks() is never called: return the mask as info['action_mask'] of reset and step")
            slow = f"{how}; get_state() and set_state(state) would be faster"
            how = "from its state" if can_capture(probe.env) else slow
        add("note", f"an interrupted episode is resumed {how}")

    def replay(self, copy: Probe, first: list[Moment]) -> None:
        """Checks that equal seeds and actions give equal episodes, and that environments do not affect each other."""
        self.findings.where = ""
        other = self.probe()
        if difference := _difference(first, list(islice(self.play(other, 0), REPLAY))):
            text = f"not deterministic: {difference} between two environments with the same seed and the same actions"
            hint = "draw from self.np_random after super().reset(seed=seed); runs cannot repeat exactly (exact: false)"
            self.warn(f"{text}; {hint}", sort="not deterministic")
            return
        if difference := _difference(first, list(islice(self.play(copy, 0), REPLAY))):
            text = f"not deterministic: {difference} when the same environment plays the same episode again"
            self.warn(f"{text}; state of an earlier episode survives reset(seed)", sort="not deterministic")
            return
        alone = list(islice(self.play(other, 1), REPLAY))
        both = zip_longest(islice(self.play(other, 1), REPLAY), islice(self.play(copy, 2), REPLAY))
        if difference := _difference(alone, [moment for moment, _ in both if moment is not None]):
            text = f"environments share state: {difference} in one when another is stepped beside it"
            self.error(f"{text}; keep changing state in self, not in the class or the module", sort="shared state")


def _check_batched(pair: Sequence[VectorEnv], name: str, findings: Findings, max_steps: int, streams: Streams) -> None:
    """Steps two vectorized environments of a class: its code is responsible for the rows, so only their content is
    checked.
    """
    lanes = pair[0].num_lanes
    generators = [streams.generator(Role.ACTION, 0) for _ in pair]
    shown = [one.reset(streams.episodes(Role.ENV)) for one in pair]
    ended = 0
    steps = min(max_steps, 1000)
    for step in range(steps):
        findings.where = f"step {step}"
        for k, kind in enumerate(pair[0].kinds):
            rows, twin = shown[0].rows[k], shown[1].rows[k]
            who = kind.agents[0] if len(kind.agents) == 1 else ", ".join(kind.agents)
            waiting = {path: array[rows.waiting] for path, array in rows.obs.items()}
            if problem := kind.obs.check(waiting, slice(None)):
                findings.add("error", f"observation {problem}", who, sort="obs")
            paid = [(one.reward, one.group_reward) for one in (rows, twin)]
            if not all(np.isfinite(reward).all() for reward in paid[0] if reward is not None):
                findings.add("error", "a reward is not finite", who)
            same = all(np.array_equal(rows.obs[path], twin.obs[path]) for path in rows.obs)
            same &= np.array_equal(rows.waiting, twin.waiting)
            if not (same and all(np.array_equal(*pair) for pair in zip(*paid, strict=True))):
                findings.add("warning", "not deterministic: differs between two with the same seeds and actions", who)
        ended += int(shown[0].ended.sum())
        shown = [
            one.step(random_answers(one, step, rng)) for one, step, rng in zip(pair, shown, generators, strict=True)
        ]
    findings.where = ""
    if not ended:
        findings.add("warning", f"no episode ended within {steps:,} steps of {lanes} environments", sort="endless")
    agents = sum(len(kind.agents) for kind in pair[0].kinds)
    for group, members in groups_of(pair[0]).items():
        findings.add("note", f"group {group!r}: {', '.join(members)} win and lose together")
    findings.add("note", f"{name} plays many environments in one call, {agents} agent{'' if agents == 1 else 's'} each")


def _deviations(space: spaces.Space[Any], obs: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yields differences between an observation and its space that can be tolerated: type, bounds, extra parts."""
    if isinstance(space, spaces.Dict) and isinstance(obs, Mapping):
        extra = [key for key in obs if key not in space.spaces]
        if extra:
            yield path, f"has {', '.join(map(repr, extra))}, which the space does not name: left out"
        for key, inner in space.spaces.items():
            if key in obs:
                yield from _deviations(inner, obs[key], f"{path}/{key}" if path else str(key))
    elif isinstance(space, spaces.Tuple) and isinstance(obs, tuple | list):
        for number, (inner, part) in enumerate(zip(space.spaces, obs, strict=False)):
            yield from _deviations(inner, part, f"{path}/{number}" if path else str(number))
    elif isinstance(space, spaces.Box):
        value = np.asarray(obs)
        if value.shape != space.shape or value.dtype.kind not in "fiub":
            return
        if value.dtype != space.dtype:
            yield path, f"dtype {value.dtype} where the space says {space.dtype}: converted in each step"
        finite = np.isfinite(value)
        outside = finite & ((value < space.low) | (value > space.high))
        if outside.any():
            worst = value[outside][0]
            low, high = space.low[outside][0], space.high[outside][0]
            yield path, f"value {worst:g} is outside the bounds {low:g} to {high:g} that the space gives"


def _moment(shown: LaneStep) -> Moment:
    """Returns the comparable content of a step."""
    moment: Moment = {}
    for agent in dict.fromkeys([*shown.obs, *shown.final, *shown.reward, *shown.terminated, *shown.truncated]):
        obs = shown.obs.get(agent, shown.final.get(agent))
        ends = f"{'acts ' if agent in shown.obs else ''}{'terminated ' if agent in shown.terminated else ''}"
        ends += "truncated" if agent in shown.truncated else ""
        moment[agent] = (_digest(obs), repr(np.asarray(shown.reward.get(agent, 0.0)).tolist()), ends)
    return moment


def _digest(value: Any) -> str:
    """Returns a text that is equal for equal values: arrays by type, shape and bytes, containers part by part."""
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}:{_digest(value[key])}' for key in value)}}}"
    if isinstance(value, tuple | list):
        return f"({','.join(map(_digest, value))})"
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return f"{value.dtype}{value.shape}{hashlib.blake2b(value.tobytes(), digest_size=12).hexdigest()}"
    return repr(value)


def _difference(first: list[Moment], second: list[Moment]) -> str:
    """Returns the first difference between two episodes: ``step 3, agent 'a': the reward differs (0.0 and 1.0)``, or
    nothing.
    """
    for step, (one, two) in enumerate(zip_longest(first, second)):
        if one is None or two is None:
            return f"step {step}: one episode has ended, the other has not, they differ"
        for agent in dict.fromkeys([*one, *two]):
            where = f"step {step}" + ("" if agent == AGENT else f", agent {str(agent)!r}")
            if agent not in one or agent not in two:
                return f"{where}: the agents that take part differ"
            for name, mine, other in zip(("observation", "reward", "end"), one[agent], two[agent], strict=True):
                if mine != other:
                    values = f" ({mine} and {other})" if name == "reward" else ""
                    return f"{where}: the {name} differs{values}"
    return ""
