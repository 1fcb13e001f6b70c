"""Settings of a Rookery run from the options of an ML-Agents run: `layers_of`.

Everything that ML-Agents decides is decided here too, defaults included, so that presets of ours change nothing. There
are three layers: what ML-Agents has no key for, its defaults, and what the file and flags say, each value with the line
that it came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from rookery.face import (
    ALGORITHMS,
    SMALLEST,
    AlgorithmConfig,
    ConfigError,
    Layer,
    fields_of,
    image_layout,
    import_object,
    nearest,
)
from rookery_mlagents.files.behaviors import BehaviorSpaces
from rookery_mlagents.files.reading_behaviors import SIGNALS, TRAINERS, demonstrations_of
from rookery_mlagents.files.run_options import RunOptions, demonstration_problem, plain
from rookery_mlagents.files.sections import (
    BehaviorOptions,
    CriteriaOptions,
    OwnOptions,
    POCAOptions,
    PPOOptions,
    RewardOptions,
)
from rookery_mlagents.key_meanings import PICTURES, Case, M, P, S, Values
from rookery_mlagents.keys import (
    BEHAVIOR_ROWS,
    ONLY_GIVEN,
    PLAYER,
    RUN_ROWS,
    KeyRow,
    KeyStatus,
    constants,
)

AS_IS = "as ML-Agents 1.1.0"
"""Source of settings without a key in ML-Agents."""

DEFAULT = "ML-Agents' default of"
"""Source of a default value, before the key."""

CLOSEST: dict[str, tuple[str, ...]] = {
    "lr": ("learning_rate", "learning_rate_schedule"),
    "entropy_coef": ("beta", "beta_schedule", "learning_rate_schedule"),
    "clip": ("epsilon", "epsilon_schedule", "learning_rate_schedule"),
    "hidden": ("hidden_units", "num_layers"),
    "activation": (),
    "num_features": ("hidden_units",),
    "cnn_features": ("hidden_units",),
    "largest": ("strength",),
    "cnn": ("vis_encode_type",),
    "kind": ("memory",),
    "size": ("memory_size",),
    "replay": ("demo_path",),
    "epochs": ("num_epoch",),
    "samples": ("samples_per_update",),
    "snapshot_every": ("save_steps",),
    "team_change_every": ("team_change", "save_steps"),
    "swap_every": ("swap_steps",),
    "latest_ratio": ("play_against_latest_model_ratio",),
    "initial_rating": ("initial_elo",),
    "goals": (),
    **{
        name: (name,)
        for name in ("strength", "gamma", "use_actions", "window", "sequence_length", "batch_size", "combine")
    },
    **dict.fromkeys(("scale", "share", "minibatches", "reward", "penalty", "forward_share", "k_factor"), ()),
    "rating_games": (),
}
"""For the last part of a path set by a function of several keys: the keys that determine it, by their last part, the
most important first; empty = the same as in ML-Agents."""


NO_BEHAVIORS: Mapping[str, BehaviorSpaces] = MappingProxyType({})


def layers_of(
    options: RunOptions,
    behaviors: Mapping[str, BehaviorSpaces],
    replays: Mapping[tuple[str, str], str] | None = None,
    to_come: Mapping[str, BehaviorSpaces] = NO_BEHAVIORS,
) -> list[Layer]:
    """Returns the settings of the Rookery run, lowest layer first.

    The source of each value is the line of the file that decided it, ``ball.yaml:12 hyperparameters.beta``, so that
    ``rookery explain`` names it.

    Args:
        options: Options of the run.
        behaviors: Spaces of the environment's behaviours by name, from `match_behaviors`.
        replays: For each behaviour and ``demo_path`` of it that is a file of ML-Agents, the replay directory it was
            read into, as `import_demonstrations` gives it.
        to_come: Behaviours that may appear later, as `entries_to_come` gives them. They have policies; the run
            waits for those to end that have appeared.

    Raises:
        ConfigError: If a behaviour has no options, or a value is not possible; names it, its place and a remedy.
    """
    cases = [
        Case(name, options, options.of(name), spaces, behaviors, replays or {})
        for name, spaces in (*behaviors.items(), *to_come.items())
    ]
    if not behaviors:
        raise ConfigError("the environment has no agent, so that there is no behaviour to train")
    problems = [line for case in cases for line in _refusals(case)]
    if problems:
        raise ConfigError(*dict.fromkeys(problems))
    mapping = {agent: name for name, spaces in behaviors.items() for agent in spaces.agents}
    if options.plays_unity:  # players may show more behaviours later
        mapping |= {name: name for name in (*behaviors, *to_come)}
    teams = {} if options.plays_unity else {case.name: case.spaces.agents for case in cases if acts_for_team(case.own)}
    mapping = {agent: name for agent, name in mapping.items() if name not in teams} | {name: name for name in teams}
    as_is: Values = {"policy_mapping": mapping or None} | ({"teams": teams} if teams else {})
    defaults: Values = {}
    given: Values = {}
    sources: dict[str, str] = {}
    for case in cases:
        own = case.own.trainer_type not in TRAINERS
        for path, value in ({} if own else constants(case)).items():
            as_is[_named(path, case)] = value
        if isinstance(case.own.hyperparameters, OwnOptions):
            for key, one in case.own.hyperparameters.values.items():
                given[f"policies.{case.name}.{key}"] = one
                sources[f"policies.{case.name}.{key}"] = _source(case, f"hyperparameters.{key}") or ""
        for path, (value, keys) in _decided(case).items():
            source = next(filter(None, (_source(case, key) for key in keys)), None)
            if own and _changes_nothing(case, path, value):
                continue
            here = _named(path, case)
            inner = [f"{here}.{key}" for key in value] if isinstance(value, Mapping) else []
            if source is not None:
                given[here] = value
                sources |= dict.fromkeys((here, *inner), source)
            elif not (own and path.startswith(P) and path != f"{P}max_decisions") and not (
                keys and keys[0] in ONLY_GIVEN
            ):
                defaults[here], sources[here] = value, f"{DEFAULT} {keys[0]}" if keys else AS_IS
    file = options.file or "flags"
    return [
        Layer(AS_IS, {path: value for path, value in as_is.items() if value is not None or path != "policy_mapping"}),
        Layer("ML-Agents' defaults", {path: value for path, value in defaults.items() if path not in given}, sources),
        Layer(file, given, sources),
    ]


def notes_of(options: RunOptions, behaviors: Mapping[str, BehaviorSpaces]) -> list[str]:
    """Returns lines about ignored entries: keys, and behaviours that the environment does not have.

    Args:
        options: Options of the run.
        behaviors: Spaces of the environment's behaviours, by name.
    """
    lines = list(options.notes)
    for name in options.behaviors:
        if name not in behaviors:
            place = options.places.get(f"behaviors.{name}", options.file)
            later = ""
            if options.plays_unity:
                later = "; it is trained when it appears"
                if any(demonstrations_of(options.of(name))):
                    first = next(iter(behaviors), "")
                    later += f", if its agents see and do what is in its demonstrations, or the same as {first}"
            lines.append(f"{place}: behaviors.{name}: {lacks(name, options, behaviors)}{later}")
    for key, criteria in criteria_of(options):
        if criteria.behavior not in behaviors:  # refused in a Python environment
            at = options.places.get(f"{key}.behavior", options.file)
            reason = lacks(criteria.behavior, options, behaviors)
            lines.append(
                f"{at}: {key}.behavior = {criteria.behavior!r}: {reason}; the lesson lasts until a behaviour of "
                "that name has appeared and reached the threshold"
            )
    for name, spaces in behaviors.items():
        case = Case(name, options, options.of(name), spaces, behaviors)
        lines += _overshoot(case)
        plain_case = replace(case, options=RunOptions(), own=replace(BehaviorOptions(), reward_signals=all_signals()))
        for row in _rows(case):
            if row.of_players and not options.plays_unity and (place := _place(case, row.key)) is not None:
                lines.append(f"{place}: {row.key} does nothing here: {PLAYER}")
            place, value = _place(case, row.key), _value(case, row.key)
            means_something = value not in row.fine and value != _value(plain_case, row.key)
            if row.status is KeyStatus.IGNORED and place is not None and means_something:
                lines.append(f"{place}: {row.key} does nothing here: {row.text}")
    return list(dict.fromkeys(lines))


def _overshoot(case: Case) -> Iterator[str]:
    """Yields a note if the first update would come after the last step, because the buffer size exceeds the number of
    steps.
    """
    hyper, steps = case.own.hyperparameters, case.own.max_steps
    if isinstance(hyper, PPOOptions | POCAOptions) and hyper.buffer_size > steps:
        place = _place(case, "max_steps") or _place(case, "hyperparameters.buffer_size") or case.options.file
        yield (
            f"{place}: {case.name}: max_steps = {steps:,} is less than buffer_size = {hyper.buffer_size:,}: the first "
            f"update ends the training, at {hyper.buffer_size:,} steps; ML-Agents would end it at {steps:,} and learn "
            "nothing at all. Make buffer_size smaller, or max_steps larger"
        )


def all_signals() -> dict[str, RewardOptions]:
    """Returns every reward signal with its defaults."""
    return {name: signal() for name, signal in SIGNALS.items()}


def _named(path: str, case: Case) -> str:
    """Returns a path that contains the name of the behaviour."""
    return path.replace("NAME", case.name, 1) if path.startswith(("policies.NAME.", "self_play.NAME.")) else path


def _rows(case: Case) -> Iterator[KeyRow]:
    """Yields the rows that apply to a behaviour."""
    trainer = case.own.trainer_type
    for row in BEHAVIOR_ROWS:
        own = trainer not in TRAINERS and "ppo" in row.only and not row.key.startswith("hyperparameters.")
        if not row.only or trainer in row.only or own:
            yield row
    yield from RUN_ROWS


def _decided(case: Case) -> dict[str, tuple[object, list[str]]]:
    """Returns the settings determined by keys, each with these keys, the most important first."""
    found: dict[str, tuple[object, list[str]]] = {}
    rows = list(_rows(case))
    groups: dict[int, list[KeyRow]] = {}
    for row in rows:
        if row.status is KeyStatus.SET:
            found[row.paths[0]] = _value(case, row.key), [row.key]
        elif row.meaning is not None:
            groups.setdefault(id(row.meaning), []).append(row)
    for group in groups.values():
        meaning, keys = group[0].meaning, [row.key for row in group]
        assert meaning is not None
        if case.own.trainer_type not in TRAINERS and not any(_place(case, key) for key in keys):
            continue
        for path, value in meaning(case).items():
            found[path] = value, _deciding(path, keys)
    return found


def _deciding(path: str, keys: list[str]) -> list[str]:
    """Returns the keys of a function that determine one of its paths."""
    if keys == ["environment_parameters"]:
        return [f"environment_parameters.{path.rpartition('.')[2]}"]
    if len(keys) == 1:
        return keys
    last = path.rpartition(".")[2]
    if last not in CLOSEST:
        return keys
    ends = CLOSEST[last]
    return [key for end in ends for key in keys if key.rpartition(".")[2] == end]


def _value(case: Case, key: str) -> object:
    """Returns the value of a key in the options; None if its section is missing."""
    section, _, rest = key.partition(".")
    top = section if hasattr(case.options, section) and not hasattr(case.own, section) else ""
    found: object = plain(getattr(case.options, top)) if top else plain(case.own)
    for part in (rest if top else key).split("."):
        if part:
            found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _place(case: Case, key: str) -> str | None:
    """Returns the place where a key was set; None if it has its default."""
    return case.options.place_of(case.name, key) or case.options.places.get(key)


def _source(case: Case, key: str) -> str | None:
    """Returns the source of a value for `rookery explain`: the place and the key; None for a default."""
    place = _place(case, key)
    return None if place is None else place if place.startswith("--") else f"{place} {key}"


# -- refusals ----------------------------------------------------------------------------------------------------------


def _refusals(case: Case) -> Iterator[str]:
    """Yields a line for each key whose value is not possible for a behaviour in its environment."""
    own, actions = case.own, case.spaces.actions

    def line(key: str, why: str) -> str:
        return f"{_place(case, key) or case.options.file or 'default'}: {case.name}: {key}: {why}"

    for row in _rows(case):
        value = _value(case, row.key)
        if row.status is KeyStatus.REFUSED and value is not None and value not in row.fine:
            yield line(row.key, f"{value!r} cannot be: {row.text}")
    for key, demo in demonstrations_of(own):
        problem = demonstration_problem(case.options, case.name, key, demo)
        if problem is not None and (case.name, demo) not in case.replays:
            yield problem
    if own.trainer_type == "sac" and actions.num_flags:
        yield line(
            "trainer_type",
            f"sac learns numbers and choices, and agents of this behaviour act in {actions.space}, which has flags; "
            "use ppo, which takes any actions, or choices of two",
        )
    if own.trainer_type == "sac" and own.behavioral_cloning is not None and own.behavioral_cloning.samples_per_update:
        yield line(
            "behavioral_cloning.samples_per_update",
            "sac clones a batch beside each of its gradient steps, and makes no passes over demonstrations: leave it "
            "out",
        )
    remembers = own.network_settings.memory is not None
    if own.behavioral_cloning is not None and remembers:
        yield line(
            "behavioral_cloning",
            "demonstrations do not say what a policy remembered, so one with a memory cannot be cloned row by row; "
            "leave memory out, or use the reward signal gail, which rewards decisions by themselves",
        )
    if own.trainer_type not in TRAINERS:
        yield from _own_refusals(case, line("trainer_type", ""))
    for key, encoder in encoders_of(own):
        smallest = SMALLEST.get(PICTURES[encoder], 0)
        for leaf in case.spaces.obs.leaves:
            layout = image_layout(leaf)
            if layout is not None and min(layout[1:3]) < smallest:
                _, height, width, _ = layout
                fit = [name for name, own_name in PICTURES.items() if min(height, width) >= SMALLEST.get(own_name, 0)]
                yield line(
                    key,
                    f"{encoder} needs images of at least {smallest} pixels a side, and sensor {leaf.path!r} shows "
                    f"{height} x {width}: use {' or '.join(fit)}",
                )
    device = case.options.torch_settings.device
    if device is not None and device not in ("cpu", "cuda", "cuda:0"):
        place = case.options.places.get("torch_settings.device", "--torch-device")
        yield f"{place}: torch_settings.device = {device!r}: must be cpu or cuda{nearest(device, ['cpu', 'cuda'])}"
    for key, criteria in criteria_of(case.options):
        if case.name != criteria.behavior and case.options.plays_unity:
            continue
        at = case.options.places.get(f"{key}.behavior", case.options.file)
        if criteria.behavior not in case.behaviors and not case.options.plays_unity:
            reason = lacks(criteria.behavior, case.options, case.behaviors)
            yield f"{at}: {key}.behavior = {criteria.behavior!r}: {reason}"
        elif criteria.behavior == case.name and criteria.measure == "elo" and own.self_play is None:
            at = case.options.places.get(f"{key}.measure", at)
            yield f"{at}: {key}.measure = Elo: {case.name} has no section self_play, so it has no rating: add one"


def criteria_of(options: RunOptions) -> Iterator[tuple[str, CriteriaOptions]]:
    """Yields the completion criteria of all lessons, with their keys."""
    for name, parameter in options.environment_parameters.items():
        for number, lesson in enumerate(parameter.curriculum):
            if lesson.completion_criteria is not None:
                key = f"environment_parameters.{name}.curriculum.{number}.completion_criteria"
                yield key, lesson.completion_criteria


def lacks(name: str, options: RunOptions, behaviors: Mapping[str, BehaviorSpaces]) -> str:
    """Returns the explanation that an environment has no behaviour of a name. Of two entries of the file, neither is a
    misspelling of the other.
    """
    near = nearest(name, [one for one in behaviors if {name, one} - {*options.behaviors}])
    there = ", ".join(behaviors)
    if options.plays_unity:
        return f"the game does not have this behaviour at the start{near}; it has {there}"
    return f"the environment has no such behaviour{near}; it has {there}"


def encoders_of(own: BehaviorOptions) -> Iterator[tuple[str, str]]:
    """Yields the image networks of a behaviour and its signals, by the keys that set them."""
    yield "network_settings.vis_encode_type", own.network_settings.vis_encode_type
    for name, signal in own.reward_signals.items():
        if name != "extrinsic":
            network = signal.network_settings
            yield f"reward_signals.{name}.network_settings.vis_encode_type", network.vis_encode_type


def settings_class(trainer_type: str) -> object:
    """Returns the settings class of an algorithm without keys of its own in ML-Agents.

    Raises:
        ConfigError: If it cannot be imported.
    """
    return import_object(trainer_type) if ":" in trainer_type else ALGORITHMS.load(trainer_type)


def acts_for_team(own: BehaviorOptions) -> bool:
    """Returns whether the algorithm of a behaviour acts for all of its agents at once, as a team."""
    if own.trainer_type in TRAINERS:
        return False
    found = settings_class(own.trainer_type)
    return isinstance(found, type) and issubclass(found, AlgorithmConfig) and found.capabilities.needs_team


def _changes_nothing(case: Case, path: str, value: object) -> bool:
    """Returns whether a value of a custom algorithm has no effect: the environment's reward has weight one if it is the
    only signal, and a policy without a memory needs no memory. An algorithm with such a setting gets the value.
    """
    alone = list(case.own.reward_signals) == ["extrinsic"]
    same = {f"{M}memory.kind": "none"} | ({f"{S}extrinsic.strength": 1.0, f"{S}combine": "mean"} if alone else {})
    if path not in same or value != same[path]:
        return False
    found = settings_class(case.own.trainer_type)
    return path.removeprefix(P).partition(".")[0] not in fields_of(found)


def _own_refusals(case: Case, start: str) -> Iterator[str]:
    """Yields lines on a custom algorithm: settings that do not exist, and keys without a corresponding setting."""
    try:
        found: object = settings_class(case.own.trainer_type)
    except ConfigError as error:
        yield f"{start}{error}"
        return
    if not (isinstance(found, type) and issubclass(found, AlgorithmConfig)):
        yield f"{start}{case.own.trainer_type} is no class of settings that derives from rookery.extend.AlgorithmConfig"
        return
    known = list(fields_of(found))
    values = case.own.hyperparameters.values if isinstance(case.own.hyperparameters, OwnOptions) else {}
    for key in values:
        if key.partition(".")[0] not in known:
            place = _place(case, f"hyperparameters.{key}") or case.options.file
            yield (
                f"{place}: {case.name}: hyperparameters.{key}: {found.__name__} has no such setting"
                f"{nearest(key, known)}; it has {', '.join(known)}"
            )
    beside = ("name", "max_decisions", "init_from")
    for path, (value, keys) in _decided(case).items():
        field = path.removeprefix(P).partition(".")[0]
        given = next(filter(None, (_source(case, key) for key in keys)), None)
        if path.startswith(P) and field not in (*beside, *known) and given and not _changes_nothing(case, path, value):
            yield f"{given}: {case.name}: {found.__name__} has no setting {field!r}: leave the key out"
