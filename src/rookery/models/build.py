"""Builds trunks from settings: `Encoder` for any observation layout, or the user's own module.

A custom model is ``MyModel(obs_space, **module_config)`` with ``forward(obs) -> features [N, F]`` and an attribute
``num_features`` = F. `obs` looks like the space: a tensor ``[N, *shape]`` for a plain space, a dict or tuple of them
for Dict and Tuple. Boxes and MultiBinary come as float32 in the space's own shape (uint8 boxes divided by their upper
bound, 255 for images, unless `categorical_images` names them; other boxes normalized if `normalize_obs` is
on); Discrete and MultiDiscrete come as int64 counted from 0. A set of entities comes as float32 ``[N, max, 1 + k]``;
its first column is 1 for members that exist. An action mask in the space is left out (the head applies it), and so are
unusable parts (in a tuple, None takes their place). `CustomMemory` describes models with their own memory,
`OutputTrunk` models that compute the outputs of the heads themselves (``output=action_params``).
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Interval
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.batch import Sequences, TensorTree, put_together
from rookery.core.errors import ConfigError, nearest
from rookery.core.settings.fields import FormerName, FormerValue, PositiveFloat, Settings
from rookery.core.settings.layers import import_object
from rookery.core.settings.reach import ARGUMENTS, CODE, Few, Label, Layers, Width
from rookery.core.settings.trust import CodeKind
from rookery.core.spaces.arrays import ActionSpec, Leaf, ObsSpec
from rookery.models.cells.base import Memory
from rookery.models.entities import EntityEncoder
from rookery.models.hyper import MOST_GOALS, HyperLinear
from rookery.models.image_encoders import ImageEncoder, image_layout
from rookery.models.layers import ACTIVATIONS, HIDDEN_GAIN, linear, orthogonal
from rookery.models.memory import MemoryConfig, build_memory
from rookery.models.recall import PREVIOUS
from rookery.models.sequence_split import SplitSequences

NETWORK = CodeKind(
    "a network (a class of torch.nn.Module, or a function that makes one)",
    lambda found: issubclass(found, nn.Module),
    functions=True,
)

CONTRACT = (
    "a custom model is MyModel(obs_space, **module_config) with forward(obs) -> float features [N, F] "
    "and an attribute num_features = F"
)
REMEMBERS = (
    "a custom model with memory has initial_memory(n), which returns a tensor [n, ...] or a tuple of them, and "
    "forward(obs, memory) -> features [N, F], memory"
)


OUTPUT_CONTRACT = (
    "with model.output=action_params a custom model is MyModel(obs_space, action_space, num_outputs, "
    "**module_config) with forward(obs) -> float (outputs [N, num_outputs], values [N]), or outputs alone with an "
    "attribute num_values = 0"
)

CRITIC_ACTION = "\0action"
"""Leaf path of the action that a critic evaluates; no key of a space begins like this."""

FEATURES = "\0features"
"""Leaf path of a custom model's features, for the layers after it."""


Normalizer = tuple[tuple[int, ...], Tensor, Tensor] | None
"""Arguments of `functional.layer_norm` after its input; None for a layer without normalization."""


@dataclass(frozen=True)
class ModelConfig(Settings):
    """Settings of a network below its action and value heads."""

    hidden: Layers = (64, 64)
    """Widths of the hidden layers; an empty list uses the inputs as features (for images, the output of their network).
    """

    activation: Literal["tanh", "relu", "elu", "silu", "gelu", "linear"] = "tanh"
    """Activation function after each hidden layer."""

    initial_weights: Literal["orthogonal", "unit_rows"] = "orthogonal"
    """Initial weights of hidden layers: ``orthogonal`` (Saxe et al. 2014); ``unit_rows`` = for each unit a vector of
    length 1, so that units of a wide first layer see few inputs as strongly as many, as in RLlib 1.x.
    """

    layer_norm: bool = False
    """Whether LayerNorm is applied to each hidden layer before its activation function."""

    shared_trunk: bool = False
    """Whether the value function shares the policy's trunk instead of having its own network."""

    normalize_obs: bool | None = None
    """Whether observation boxes other than uint8 images are normalized by their running mean and standard deviation.
    Null = if `sampling.warmup_steps` random decisions show values more than 10 times away from 1.
    """

    obs_clip: PositiveFloat = 10.0
    """Normalized observations are clipped to this many standard deviations."""

    log_std_init: Annotated[float, Interval(ge=-20, le=2)] = 0.0
    """Initial log standard deviation of continuous actions; bounded actions are scaled to [-1, 1]."""

    cnn: Literal["auto", "nature", "impala", "small", "drq", "simple", "nature_leaky", "resnet", "match3", "flat"] = (
        "auto"
    )
    """Network for images: ``nature`` (Mnih et al. 2015), ``impala`` (residual, Espeholt et al. 2018), ``small`` for
    grid worlds, ``drq`` (DrQ-v2, Yarats et al. 2021), or one of ML-Agents' (two convolutions, its forms of the first
    two, two for boards, or none); ``auto`` = nature from 36 pixels on, small below.
    """

    cnn_width: Few = 1
    """Factor on the number of filters of the image network."""

    cnn_features: Width | None = None
    """Features per image; none = 512 (nature), 256 (impala), 50 (drq) or 128 (the others)."""

    categorical_images: Annotated[tuple[Label, ...] | None, FormerName("codes")] = None
    """Paths of uint8 images whose values are categories from 0 to 31 (objects, colours, states) instead of brightness;
    an embedding is learned for each. Null = `sampling.warmup_steps` random decisions detect them: no larger value
    occurs; ``[]`` = none.
    """

    entities: tuple[Label, ...] = ()
    """Paths of boxes ``[max, k]`` in the observation that are also treated as sets; rows of zeros are absent members.
    They are not normalized.
    """

    entities_as: Literal["set", "flat"] = "set"
    """Encoding of entity sets: ``set`` = attention, independent of their order; ``flat`` = one vector, row after row.
    """

    entity_size: Width = 64
    """Width of the attention over entities."""

    entity_heads: Few = 4
    """Attention heads for entity sets; `entity_size` is split among them."""

    goals: tuple[Label, ...] = ()
    """Paths of the parts of the observation that are goals."""

    goal_conditioning: Literal["hyper", "none"] = "hyper"
    """Use of goals: ``hyper`` = they generate the weights of the last hidden layer; ``none`` = they are ordinary
    inputs.
    """

    memory: MemoryConfig = field(default_factory=MemoryConfig)
    """Memory from one decision to the next: ``memory.kind``."""

    precision: Literal["float32", "bfloat16"] = "float32"
    """Number format of matrix products in image networks during learning, and on kernels in the networks of DQN, PQN,
    SAC, TD3 and DDPG; all else stays float32. The space preset chooses bfloat16 for images if the CPU supports it.
    """

    compile: bool = False
    """Whether `torch.compile` compiles network and loss for learning: costs seconds to a minute at the start and after
    each change of shapes, then shortens updates of small networks. Needs a C++ compiler.
    """

    native: bool = True
    """Whether compiled kernels run the networks that they support (docs/kernels.md), many times faster on a CPU; torch
    runs all others. `compile` turns kernels off.
    """

    module: Annotated[type[nn.Module] | Callable[..., nn.Module] | str | None, CODE] = None
    """Your own model instead of `hidden` and `activation`: a class, function or import path "package.module:Name"."""

    module_config: Annotated[dict[str, Any], ARGUMENTS] = field(default_factory=dict)
    """Keyword arguments of `module`."""

    output: Annotated[
        Literal["features", "action_params"], FormerName("gives"), FormerValue("outputs", "action_params")
    ] = "features"
    """Output of `module`: ``features``, the input of the heads, or ``action_params``, which replace the heads: the
    parameters of the action distribution and the state values (actor-critic algorithms), or the Q-values (dqn).
    """

    @property
    def remembers(self) -> bool:
        """Whether the network has a learned memory: a cell or the module's own."""
        try:
            module = import_object(self.module) if isinstance(self.module, str) else self.module
        except ConfigError:  # reported when the model is built
            module = None
        return self.memory.kind != "none" or hasattr(module, "initial_memory")


def build_body(
    obs: ObsSpec, action: ActionSpec, cfg: ModelConfig, *, generator: torch.Generator, outputs: int | None = None
) -> tuple[nn.Module, Memory | None, int]:
    """Returns the body below a policy's heads: trunk, memory or None, and the number of features.

    Args:
        obs: Layout of the observations.
        action: Layout of the actions, passed to a model with ``output=action_params``.
        cfg: What to build.
        generator: Draws the weights.
        outputs: Width of the outputs of a model with ``output=action_params``; None = parameters of the action
            distribution.

    Raises:
        ConfigError: As `build_trunk`; and if `cfg.memory` adds a cell to a custom model with its own memory.
    """
    if cfg.module is not None:
        _check_recall(cfg)
    if cfg.output == "action_params":
        width = action.num_parameters if outputs is None else outputs
        trunk: nn.Module = _build_custom(obs, cfg, generator, (action, width))
    else:
        trunk = build_trunk(obs, cfg, generator=generator)
    if isinstance(trunk, CustomTrunk) and trunk.remembers:
        if cfg.memory.kind != "none":
            raise ConfigError(
                f"model.memory.kind = {cfg.memory.kind!r}, but model.module has its own memory (initial_memory): "
                "leave one of them out"
            )
        memory = CustomMemory(trunk)
        return nn.Identity(), memory, memory.num_features
    width = int(trunk.num_features)  # type: ignore[arg-type]
    cell = build_memory(cfg.memory, width, generator)
    return trunk, cell, width if cell is None else cell.num_features


def build_trunk(obs: ObsSpec, cfg: ModelConfig, *, generator: torch.Generator) -> nn.Module:
    """Builds a module from observations (tensors ``[N, ...]`` by leaf path) to features ``[N, F]``, `num_features` = F.

    Args:
        obs: Layout of the observations.
        cfg: What to build.
        generator: All first weights come from it; equal states give equal weights.

    Raises:
        ConfigError: If a custom model breaks the contract (tested on two rows of zeros), an image is too small for the
            chosen network, or the observation lacks a part that a setting names.
    """
    if cfg.module is not None:
        return _build_custom(obs, cfg, generator)
    if cfg.module_config:
        raise ConfigError(f"model.module_config is {cfg.module_config}, but model.module is not set; {CONTRACT}")
    leaves = {leaf.path: leaf for leaf in obs.leaves if leaf.kind != "mask"}
    _check_codes(cfg.categorical_images or (), leaves)
    _check_paths("goals", cfg.goals, leaves)
    _check_paths("entities", cfg.entities, leaves)
    for path in cfg.entities:
        leaf = leaves[path]
        if leaf.kind not in ("box", "entities") or len(leaf.shape) != 2:
            raise ConfigError(
                f"model.entities: {path!r} is a {leaf.kind} of shape {leaf.shape}; a set is a box of shape (max, k)"
            )
    if not cfg.goals or cfg.goal_conditioning == "none":
        return Encoder(obs, cfg, cfg.hidden, generator=generator)
    if not cfg.hidden:
        raise ConfigError(
            "model.goal_conditioning=hyper makes the weights of the last hidden layer, and model.hidden is empty: give "
            "it a layer, or set model.goal_conditioning=none"
        )
    trunk = Encoder(obs, cfg, cfg.hidden[:-1], generator=generator)
    goals = ObsSpec(obs.space, tuple(leaves[path] for path in cfg.goals))
    goal = Encoder(goals, cfg, cfg.hidden[-1:], generator=generator)
    return GoalTrunk(trunk, goal, cfg, generator=generator)


def with_action(obs: ObsSpec, action: ActionSpec) -> ObsSpec:
    """Returns the layout of observations with an action, ``[N, k]``, under the path `CRITIC_ACTION`."""
    shape = action.shape if action.kind == "box" else (action.num_numbers,)
    leaf = Leaf(CRITIC_ACTION, "box", shape, np.dtype(np.float32))
    mask = [leaf for leaf in obs.leaves if leaf.kind == "mask"]
    return ObsSpec(obs.space, (*[leaf for leaf in obs.leaves if leaf.kind != "mask"], leaf, *mask), obs.dropped)


def build_critic_trunk(obs: ObsSpec, action: ActionSpec, cfg: ModelConfig, *, generator: torch.Generator) -> nn.Module:
    """Builds a trunk for a Q-function; its input is observations with the action under the path `CRITIC_ACTION`.

    The action is one more vector for `build_trunk`. A custom model does not receive it: its features and the action go
    through the layers of `hidden` together. Arguments as of `build_trunk`.

    Raises:
        ConfigError: As `build_trunk`; and for a custom model with its own memory.
    """
    if cfg.module is None:
        return build_trunk(with_action(obs, action), cfg, generator=generator)
    trunk = _build_custom(obs, cfg, generator)
    if trunk.remembers:
        raise ConfigError(
            "model.module has its own memory (initial_memory), which a Q-function cannot use: leave "
            "initial_memory out and set model.memory.kind"
        )
    return CustomCriticTrunk(trunk, action, cfg, generator)


def _check_paths(setting: str, paths: tuple[str, ...], leaves: Mapping[str, Leaf]) -> None:
    for path in paths:
        if path not in leaves:
            raise ConfigError(
                f"model.{setting}: the observation has no part {path!r}{nearest(path, list(leaves))}; it has "
                f"{', '.join(leaves)}"
            )


def _check_codes(paths: tuple[str, ...], leaves: Mapping[str, Leaf]) -> None:
    """Refuses `categorical_images` for parts that are not uint8 images, and names the uint8 images."""
    images = [path for path, leaf in leaves.items() if leaf.dtype == np.uint8 and image_layout(leaf)]
    for path in paths:
        if path not in images:
            there = f"there are {', '.join(images)}" if images else "there is none: leave model.categorical_images out"
            near = nearest(path, images)
            raise ConfigError(f"model.categorical_images: the observation has no uint8 image {path!r}{near}; {there}")


class MixedLinear(nn.Module):
    """Linear layer on numbers and categories, equal to one on the numbers followed by one-hot categories."""

    offsets: Tensor
    weight: nn.Parameter | None
    table: nn.Parameter | None

    def __init__(self, num_inputs: int, sizes: Sequence[int], num_outputs: int, *, generator: torch.Generator) -> None:
        super().__init__()
        whole = orthogonal(num_outputs, num_inputs + sum(sizes), gain=HIDDEN_GAIN, generator=generator)
        self.weight = nn.Parameter(whole[:, :num_inputs].clone()) if num_inputs else None
        self.table = nn.Parameter(whole[:, num_inputs:].T.contiguous()) if sizes else None
        self.bias = nn.Parameter(torch.zeros(num_outputs, dtype=torch.float32, device="cpu"))
        self.register_buffer(
            "offsets", torch.tensor([0, *sizes], dtype=torch.int64, device="cpu").cumsum(0)[:-1], persistent=False
        )

    def forward(self, numbers: Tensor | None, categories: Tensor | None) -> Tensor:
        """Returns ``[N, num_outputs]`` for numbers ``[N, num_inputs]`` and categories ``[N, len(sizes)]``, int64."""
        output: Tensor = self.bias
        if self.weight is not None:
            assert numbers is not None
            output = functional.linear(numbers, self.weight, self.bias)
        if self.table is not None:
            assert categories is not None
            if len(self.offsets) == 1:  # a plain look-up is twice as fast as a sum of one
                looked_up = functional.embedding(categories.squeeze(1), self.table)
            else:
                looked_up = functional.embedding_bag(categories + self.offsets, self.table, mode="sum")
            output = looked_up + output
        return output


@torch.no_grad()
def _scale_rows(layer: nn.Linear | MixedLinear) -> None:
    """Scales the weights of each output to a Euclidean length of 1."""
    table = getattr(layer, "table", None)
    parts = [part for part in (layer.weight, None if table is None else table.T) if part is not None]
    lengths = torch.cat(parts, 1).norm(dim=1, keepdim=True)
    for part in parts:
        part /= lengths


class Encoder(nn.Module):
    """Trunk for any observation layout: maps an observation tree to features.

    The first linear layer takes numbers, flags and categories. It equals a linear layer on their concatenation with
    one-hot categories, but looks categories up in a table instead of multiplying zeros. Each image goes through a
    convolutional network, each entity set through attention; their outputs are further inputs of that layer. Action
    masks are never encoded.

    Args:
        obs: Layout of the observations.
        cfg: Settings of the network; see `build_trunk`.
        hidden: Widths of the layers; if empty, the features are the inputs themselves, with one-hot categories.
        generator: Draws the weights.

    Raises:
        ConfigError: If an image is too small for the chosen network, or attention heads do not divide their width.
    """

    def __init__(self, obs: ObsSpec, cfg: ModelConfig, hidden: Sequence[int], *, generator: torch.Generator) -> None:
        super().__init__()
        leaves = [leaf for leaf in obs.leaves if leaf.kind != "mask"]
        sets = [leaf for leaf in leaves if leaf.kind == "entities" or leaf.path in cfg.entities]
        sets = sets if cfg.entities_as == "set" else []
        image_leaves = [leaf for leaf in leaves if image_layout(leaf)]
        numbers = [leaf for leaf in leaves if leaf.kind in ("box", "multi_binary", "entities")]
        elsewhere = {leaf.path for leaf in (*sets, *image_leaves)}
        self.vectors = tuple(leaf for leaf in numbers if leaf.path not in elsewhere)
        self.categories = tuple(leaf for leaf in leaves if leaf.kind in ("discrete", "multi_discrete"))
        self.sizes = tuple(size for leaf in self.categories for size in leaf.sizes)
        self.image_paths = tuple(leaf.path for leaf in image_leaves)
        # A list: users choose the paths, and the name of a module cannot be "keys" or contain a dot.
        images = [
            ImageEncoder(
                leaf,
                cnn=cfg.cnn,
                cnn_width=cfg.cnn_width,
                cnn_features=cfg.cnn_features,
                precision=cfg.precision,
                codes=leaf.path in (cfg.categorical_images or ()),
                generator=generator,
            )
            for leaf in image_leaves
        ]
        self.images = nn.ModuleList(images)
        self.activation = cfg.activation
        self._activate = ACTIVATIONS[cfg.activation]
        num_numbers = sum(int(np.prod(leaf.shape)) for leaf in self.vectors)
        num_numbers += sum(image.num_features for image in images)
        self.sets: EntityEncoder | None = None
        if sets:
            num_self = num_numbers + sum(self.sizes)
            self.sets = EntityEncoder(sets, num_self, cfg.entity_size, cfg.entity_heads, generator=generator)
            num_numbers += cfg.entity_size
        self.first = MixedLinear(num_numbers, self.sizes, hidden[0], generator=generator) if hidden else None
        self.layers = nn.ModuleList(
            linear(hidden[i], hidden[i + 1], gain=HIDDEN_GAIN, generator=generator) for i in range(len(hidden) - 1)
        )
        made_norms = [nn.LayerNorm(width, dtype=torch.float32, device="cpu") for width in hidden if cfg.layer_norm]
        self.norms = nn.ModuleList(made_norms)
        self.num_features = hidden[-1] if hidden else num_numbers + sum(self.sizes)
        # A single vector, the usual case, needs no concatenation, and the first layer is an ordinary layer. Parameters
        # are kept in lists, because calling a module for them costs as much as a product of eight rows.
        plain = [leaf.path for leaf in self.vectors if leaf.dtype == np.float32 and leaf.scale == 1.0]
        alone = len(leaves) == 1 and len(leaves[0].shape) == 1 and self.first is not None
        self._plain_path = plain[0] if plain and alone else None
        chain = [] if self.first is None else [self.first, *self.layers]
        if cfg.initial_weights == "unit_rows":
            for layer in chain:
                _scale_rows(layer)
        norms: list[Normalizer] = [None] * len(chain)
        if made_norms:
            norms = [(norm.normalized_shape, norm.weight, norm.bias) for norm in made_norms]
        skipped = 0 if self._plain_path is not None else 1
        self._first_norm = norms[0] if norms else None
        self._chain = tuple(
            (layer.weight, layer.bias, norm) for layer, norm in list(zip(chain, norms, strict=True))[skipped:]
        )

    def forward(self, obs: TensorTree) -> Tensor:
        """Returns features ``[N, num_features]`` of observations ``[N, ...]`` by leaf path."""
        activation = self._activate
        x = self._first_features(obs) if self._plain_path is None else obs[self._plain_path]
        for weight, bias, norm in self._chain:
            x = functional.linear(x, weight, bias)
            x = activation(x if norm is None else functional.layer_norm(x, *norm))
        return x

    def take_convolutions(self, images: nn.ModuleList) -> None:
        """Replaces the convolutions on images by those of an encoder with the same settings."""
        for mine, other in zip(self.images, images, strict=True):
            mine.embedding, mine.convolutions = other.embedding, other.convolutions

    def with_maps(self, obs: TensorTree) -> TensorTree:
        """Returns observations in which the images are `Maps`, which `forward` and networks that share the convolutions
        take in their place.
        """
        seen: dict[str, Any] = dict(obs)
        for path, image in zip(self.image_paths, self.images, strict=True):
            assert isinstance(image, ImageEncoder)
            seen[path] = image.maps(seen[path])
        return seen

    def _first_features(self, obs: TensorTree) -> Tensor:
        """Returns the first layer's output for several concatenated leaves; without layers, these are the features."""
        numbers, categories = self._numbers(obs), self._categories(obs)
        if self.sets is not None:
            own = _one_hots(numbers, categories, self.sizes)
            found = self.sets(obs, own)
            numbers = found if numbers is None else torch.cat((numbers, found), 1)
        if self.first is None:
            features = _one_hots(numbers, categories, self.sizes)
            assert features is not None
            return features
        x = self.first(numbers, categories)
        return self._activate(x if self._first_norm is None else functional.layer_norm(x, *self._first_norm))

    def _numbers(self, obs: TensorTree) -> Tensor | None:
        """Concatenates boxes, flags and image features, float32."""
        parts: list[Tensor] = []
        for leaf in self.vectors:
            part = obs[leaf.path]
            if len(leaf.shape) != 1:
                part = part.reshape(len(part), -1)
            if leaf.dtype != np.float32:
                part = part.to(torch.float32)
            parts.append(part if leaf.scale == 1.0 else part / leaf.scale)
        parts += [image(obs[path]) for path, image in zip(self.image_paths, self.images, strict=True)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1) if parts else None

    def _categories(self, obs: TensorTree) -> Tensor | None:
        """Concatenates all categories, int64 ``[N, len(sizes)]``."""
        parts = [obs[leaf.path].reshape(-1, len(leaf.sizes)) for leaf in self.categories]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1) if parts else None


def _one_hots(numbers: Tensor | None, categories: Tensor | None, sizes: Sequence[int]) -> Tensor | None:
    """Returns numbers followed by one-hot categories, float32 ``[N, num_inputs + sum(sizes)]``; None without both."""
    parts = [] if numbers is None else [numbers]
    if categories is not None:
        parts += [functional.one_hot(categories[:, i], size).float() for i, size in enumerate(sizes)]
    return torch.cat(parts, 1) if parts else None


class GoalTrunk(nn.Module):
    """Trunk whose last layer has weights generated from the goal.

    Args:
        trunk: Encodes the whole observation including the goal, with all hidden layers but the last.
        goal: Encodes the goal alone.
        cfg: Width of the last hidden layer, its activation and norm.
        generator: Draws its weights.
    """

    def __init__(self, trunk: Encoder, goal: Encoder, cfg: ModelConfig, *, generator: torch.Generator) -> None:
        super().__init__()
        self.trunk = trunk
        self.goal = goal
        width = cfg.hidden[-1]
        self.layer = HyperLinear(trunk.num_features, width, goal.num_features, generator=generator)
        self.norm = nn.LayerNorm(width, dtype=torch.float32, device="cpu") if cfg.layer_norm else nn.Identity()
        self.num_features = width
        self._activate = ACTIVATIONS[cfg.activation]
        leaves = (*goal.vectors, *goal.categories)
        is_choice = not goal.image_paths and not goal.sets and all(leaf.kind != "box" for leaf in leaves)
        self._choices = tuple(leaf.path for leaf in leaves) if is_choice else ()

    def forward(self, obs: TensorTree) -> Tensor:
        """Returns features ``[N, num_features]`` of observations ``[N, ...]`` by leaf path."""
        x, few = self.trunk(obs), self._few_goals(obs) if self._choices else None
        if few is None:
            made = self.layer(x, self.goal(obs))
        else:
            goals, which = few
            made = self.layer.shared_by_rows(x, self.goal(goals), which)
        return self._activate(self.norm(made))

    def _few_goals(self, obs: TensorTree) -> tuple[TensorTree, Tensor] | None:
        """Returns the distinct goals, one observation each, and ``[N]`` the goal's index of each row; None if there are
        many.
        """
        leaves = {path: obs[path] for path in self._choices}
        flat = torch.cat([value.reshape(len(value), -1).long() for value in leaves.values()], 1)
        goals, which = torch.unique(flat, dim=0, return_inverse=True)
        if len(goals) > MOST_GOALS:
            return None
        rows = torch.arange(len(which), device=which.device, dtype=torch.int64)
        first = which.new_empty(len(goals)).scatter_(0, which, rows)  # any row of each
        return {path: value[first] for path, value in leaves.items()}, which


WITH_MODES = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)
"""Modules that compute other outputs in training mode."""


class CustomTrunk(nn.Module):
    """Trunk that calls a user's module with observations shaped like the environment's space.

    An entry ``action_mask`` of observations is left out, since the policy's head applies it, unless the module has a
    true attribute `sees_mask`: it then receives the flags, ``[N, choices]`` bool, and the head applies them too. With a
    true attribute `sees_previous` it is also called with ``previous=``: the last action and reward by leaf path
    (`models/recall.py:PREVIOUS`), if enabled in `MemoryConfig`.

    Batch normalization and dropout are in training mode while gradients are computed, and in evaluation mode otherwise:
    when acting, and for the values of targets.
    """

    def __init__(self, obs: ObsSpec, module: nn.Module) -> None:
        super().__init__()
        sees_mask = bool(getattr(module, "sees_mask", False))
        self._previous = [leaf.path for leaf in obs.leaves if leaf.path in PREVIOUS and _sees_previous(module)]
        self.leaves = {leaf.path: leaf for leaf in obs.leaves if leaf.kind != "mask" or sees_mask}
        self.layout = _layout(obs.space, "", self.leaves)
        self.module = module
        self._has_modes = any(isinstance(part, WITH_MODES) for part in module.modules())
        self.num_features: int = module.num_features  # type: ignore[assignment]

    @property
    def remembers(self) -> bool:
        """Whether the module has its own memory."""
        return hasattr(self.module, "initial_memory")

    def initial_memory(self, num_rows: int) -> Any:
        """Returns the module's memory of `num_rows` slots at the start of an episode."""
        return self.module.initial_memory(num_rows)  # type: ignore[operator]

    def forward(self, obs: TensorTree, *memory: Any) -> Any:
        """Returns features ``[N, num_features]`` of observations ``[N, ...]`` by leaf path; with `memory`, also the
        memory after this decision.
        """
        if self._has_modes and self.module.training != torch.is_grad_enabled():
            self.module.train(torch.is_grad_enabled())
        seen = self._nested(self.layout, put_together(obs))
        if self._previous:
            return self.module(seen, *memory, previous={path: obs[path] for path in self._previous})
        return self.module(seen, *memory)

    def _nested(self, layout: Any, obs: TensorTree) -> Any:
        if isinstance(layout, dict):
            return {key: self._nested(inner, obs) for key, inner in layout.items()}
        if isinstance(layout, tuple):
            return tuple(self._nested(inner, obs) for inner in layout)
        if layout is None:
            return None
        leaf, value = self.leaves[layout], obs[layout]
        value = value.to(torch.float32) if leaf.dtype == np.uint8 else value
        return value if leaf.scale == 1.0 else value / leaf.scale


class OutputTrunk(CustomTrunk):
    """Trunk that calls a user's module without heads: its features are the outputs of the heads, concatenated.

    It is made as ``MyModel(obs_space, action_space, num_outputs, **module_config)``; ``forward(obs)`` returns
    ``(outputs [N, num_outputs], values [N])``, or values ``[N, S]`` with an attribute `num_values` = S, or, with
    `num_values` = 0, only outputs. Outputs are the logits of all discrete actions, then of all flags, the means of all
    continuous actions and their log standard deviations; for Q-learning, the Q-values.

    Args:
        obs: Layout of the observations.
        module: The user's module.
        num_outputs: Number of parameters of the action distribution, or of Q-values.
    """

    def __init__(self, obs: ObsSpec, module: nn.Module, num_outputs: int) -> None:
        self.num_values = int(getattr(module, "num_values", 1))
        module.num_features = num_outputs + self.num_values  # type: ignore[assignment]
        super().__init__(obs, module)
        self.num_outputs = num_outputs

    def forward(self, obs: TensorTree, *memory: Any) -> Any:
        """Returns concatenated outputs and values, ``[N, num_outputs + S]``; and the memory after, if there is one."""
        given = super().forward(obs, *memory)
        if not self.num_values:
            return given
        (outputs, values), *after = given if memory else (given,)
        features = torch.cat((outputs, values.reshape(outputs.shape[0], -1)), 1)
        return (features, *after) if memory else features


class CustomMemory(Memory):
    """Runs a user's module with its own memory in place of trunk and memory, one decision at a time, also in learning.

    The module has ``initial_memory(n)``, which returns the memory of n slots before an episode (a tensor ``[n, ...]``
    or a tuple of them), and ``forward(obs, memory) -> features [n, F], memory``. It receives the initial memory at the
    start of every episode.

    The first number of the stored memory is 1 once an episode has begun; before that the module receives its initial
    memory, which may be learned.

    Args:
        model: ``(obs [n, ...] by leaf path, memory) -> (features, memory)``, with `num_features` and `initial_memory`.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.num_features = int(model.num_features)  # type: ignore[arg-type]
        initial = self._initial()
        self._is_one = isinstance(initial, Tensor)
        self._shapes = [part.shape[1:] for part in parts_of(initial)]
        self._widths = [math.prod(shape) for shape in self._shapes]
        self.size = 1 + sum(self._widths)

    def _initial(self) -> Any:
        """Returns the initial memory of one slot, a tensor ``[1, ...]`` or a tuple of them."""
        return self.model.initial_memory(1)  # type: ignore[operator]

    def advance(self, x: Any, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Processes one decision of N slots; `x` are observations by leaf path."""
        initial = torch.cat([part.reshape(1, -1).to(memory) for part in parts_of(self._initial())], 1)
        remembered = torch.where(memory[:, :1] > 0, memory[:, 1:], initial).split(self._widths, 1)
        parts = tuple(part.reshape(-1, *shape) for part, shape in zip(remembered, self._shapes, strict=True))
        features, after = self.model(x, parts[0] if self._is_one else parts)
        return features, torch.cat(
            [torch.ones_like(memory[:, :1]), *[part.reshape(part.shape[0], -1) for part in parts_of(after)]], 1
        )

    def forward(self, x: Any, memory: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
        """Processes all decisions of B sequences, one time step after another; `x` are observations by path."""
        pieces = SplitSequences.of(sequences)
        seen = {path: pieces.pack(leaf).split(pieces.counts) for path, leaf in put_together(x).items()}
        features, after, kept = [], [], pieces.before(memory)
        for step, count in enumerate(pieces.counts):
            now, kept = self.advance({path: rows[step] for path, rows in seen.items()}, kept[:count])
            features.append(now)
            after.append(kept)
        return pieces.unpack(torch.cat(features)), torch.cat(after).index_select(0, pieces.last_packed)


def parts_of(memory: Any) -> tuple[Tensor, ...]:
    """Returns a module's memory as a tuple of tensors."""
    return (memory,) if isinstance(memory, Tensor) else tuple(memory)


class CustomCriticTrunk(nn.Module):
    """A user's module, followed by hidden layers on its features and an action."""

    def __init__(self, trunk: CustomTrunk, action: ActionSpec, cfg: ModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.trunk = trunk
        features = Leaf(FEATURES, "box", (trunk.num_features,), np.dtype(np.float32))
        seen = with_action(ObsSpec(action.space, (features,)), action)
        self.layers = Encoder(seen, cfg, cfg.hidden, generator=generator)
        self.num_features = self.layers.num_features

    def forward(self, obs: TensorTree) -> Tensor:
        """Returns features ``[N, num_features]`` of observations ``[N, ...]`` by leaf path, including the action."""
        features: Tensor = self.layers({FEATURES: self.trunk(obs), CRITIC_ACTION: obs[CRITIC_ACTION]})
        return features


def _sees_previous(module: Any) -> bool:
    return bool(getattr(module, "sees_previous", False))


def _layout(space: spaces.Space[Any], path: str, leaves: Mapping[str, Leaf]) -> Any:
    """Returns the space's dicts and tuples, with leaf paths in place of arrays and None for parts without one."""
    prefix = f"{path}/" if path else ""
    if isinstance(space, spaces.Dict):
        inside = {key: _layout(part, f"{prefix}{key}", leaves) for key, part in space.spaces.items()}
        return {key: part for key, part in inside.items() if part is not None}
    if isinstance(space, spaces.Tuple):
        return tuple(_layout(part, f"{prefix}{i}", leaves) for i, part in enumerate(space.spaces))
    name = path or "obs"
    return name if name in leaves else None


def _build_custom(
    obs: ObsSpec, cfg: ModelConfig, generator: torch.Generator, outputs: tuple[ActionSpec, int] | None = None
) -> CustomTrunk:
    """Builds a trunk from the user's module; an `OutputTrunk` if `outputs` has the action layout and their number."""
    make: Any = cfg.module
    contract = CONTRACT if outputs is None else OUTPUT_CONTRACT
    if make is None:
        raise ConfigError(f"model.output = 'action_params', but model.module is not set; {contract}")
    if isinstance(make, str):
        try:
            make = NETWORK.find(make)
        except ConfigError as error:
            raise ConfigError(f"model.module {error}") from error
    name = getattr(make, "__name__", repr(make))
    seed = int(torch.randint(2**62, (), generator=generator, dtype=torch.int64, device="cpu"))
    with torch.random.fork_rng(
        devices=[]
    ):  # a user's module draws from the global generator, which is restored afterwards
        torch.default_generator.manual_seed(seed)
        try:
            if outputs is None:
                module = make(obs.space, **cfg.module_config)
            else:
                module = make(obs.space, outputs[0].space, outputs[1], **cfg.module_config)
        except Exception as error:
            raise ConfigError(f"model.module {name} cannot be built: {_cause(error)}; {contract}") from error
        if not isinstance(module, nn.Module):
            raise ConfigError(f"model.module {name} makes a {type(module).__name__}, not a torch.nn.Module; {contract}")
        width = getattr(module, "num_features", None) if outputs is None else outputs[1]
        if not isinstance(width, int) or width < 1:
            found = "has no num_features" if width is None else f"has num_features {width!r}, not a positive int"
            raise ConfigError(f"model.module {name} {found}; {CONTRACT}")
        leaves = {leaf.path: leaf for leaf in obs.leaves}
        _check_codes(cfg.categorical_images or (), leaves)
        plain = {path: replace(leaves[path], scale=1.0) for path in cfg.categorical_images or ()}
        seen = replace(obs, leaves=tuple(({**leaves, **plain}).values()))
        trunk = CustomTrunk(seen, module) if outputs is None else OutputTrunk(seen, module, width)
        _try_out(trunk, obs, name)
    return trunk


def _try_out(trunk: CustomTrunk, obs: ObsSpec, name: str) -> None:
    rows = {path: torch.from_numpy(array) for path, array in obs.allocate(2).items()}
    training = trunk.training
    trunk.eval()  # zeros must not enter the statistics of a batch norm
    contract = OUTPUT_CONTRACT if isinstance(trunk, OutputTrunk) else CONTRACT
    contract = f"{contract}; {REMEMBERS}" if trunk.remembers else contract
    memory: Any = None
    try:
        with torch.no_grad():
            if trunk.remembers:
                memory = trunk.initial_memory(2)
            given: Any = trunk(rows, memory) if trunk.remembers else trunk(rows)
    except Exception as error:
        raise ConfigError(f"model.module {name} failed on two rows of zeros: {_cause(error)}; {contract}") from error
    trunk.train(training)
    features, after = given, None
    if trunk.remembers:
        if not isinstance(given, tuple) or len(given) != 2:
            raise ConfigError(
                f"model.module {name} returned a {type(given).__name__}, not features and memory; {contract}"
            )
        features, after = given
        for label, value in (("initial_memory(2)", memory), ("the memory after two rows", after)):
            _check_memory(value, f"model.module {name}: {label}", contract)
    if not isinstance(features, Tensor):
        raise ConfigError(f"model.module {name} returned a {type(features).__name__}, not a tensor; {contract}")
    if features.shape != (2, trunk.num_features) or not features.is_floating_point():
        raise ConfigError(
            f"model.module {name} returned {features.dtype} {tuple(features.shape)} for 2 rows, "
            f"not floats (2, {trunk.num_features}) as its num_features says; {contract}"
        )
    if trunk.remembers and _shapes(after) != _shapes(memory):
        raise ConfigError(
            f"model.module {name} returns memory {_shapes(after)} after two rows, and initial_memory(2) returns "
            f"{_shapes(memory)}; {contract}"
        )


def _check_memory(memory: Any, label: str, contract: str) -> None:
    """Raises ConfigError unless `memory` is a memory of two rows."""
    parts = list(memory) if isinstance(memory, tuple | list) else [memory]
    if not parts or not all(isinstance(part, Tensor) and part.dim() > 0 and len(part) == 2 for part in parts):
        found = [tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__ for part in parts]
        raise ConfigError(f"{label} is {found}, not tensors of two rows; {contract}")
    if not all(part.is_floating_point() and part.numel() for part in parts):
        found = [f"{part.dtype} {tuple(part.shape)}" for part in parts]
        raise ConfigError(f"{label} is {found}, not floats; {contract}")


def _shapes(memory: Any) -> list[tuple[int, ...]]:
    return [tuple(part.shape) for part in parts_of(memory)]


def _check_recall(cfg: ModelConfig) -> None:
    """Raises ConfigError if settings would add recalled inputs to a custom model."""
    memory = cfg.memory
    widened = {"previous_action": memory.previous_action, "previous_reward": memory.previous_reward}
    widened = {} if _sees_previous(cfg.module) else widened
    requested = [name for name, given in {**widened, "frame_stack": memory.frame_stack > 1}.items() if given]
    if requested:
        raise ConfigError(
            f"model.memory.{requested[0]}: a custom model (model.module) receives only the observations of its space; "
            f"leave it out, or give the model its own memory: {REMEMBERS}"
        )


def _cause(error: Exception) -> str:
    """Describes an error of the user's code, with the line that raised it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"
