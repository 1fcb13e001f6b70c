"""Entity encoders: attention over a variable number of entities in an observation.

After ML-Agents' encoder of variable-length observations and Baker et al. 2019 (arXiv:1909.07528): a linear layer embeds
each entity together with the rest of the observation ("self"), entities attend to each other by multi-head attention
(Vaswani et al. 2017) with a residual, and the features are the mean over the entities present. They do not depend on
the order of entities, nor on the values of absent rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.core.batch import TensorTree
from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import Leaf
from rookery.models.layers import HIDDEN_GAIN, linear, orthogonal

ABSENT = -1e9
"""Added to the scores of absent entities: their weight is then exactly 0, without NaN for an empty set."""


class EntityEmbedding(nn.Module):
    """Linear layer on each entity of a set, concatenated with the rest of the observation.

    It equals one layer on the concatenation, but multiplies the rest of the observation once, not for every entity.

    Args:
        leaf: The set: of kind ``entities``, or a box ``[max, k]`` whose absent rows are zeros.
        num_self: Width of the rest of the observation.
        size: Width of the embedding.
        generator: Draws the weights, orthogonal as a whole.
    """

    def __init__(self, leaf: Leaf, num_self: int, size: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.path = leaf.path
        self.flagged = leaf.kind == "entities"
        self.scale = leaf.scale
        self.num_entities = leaf.shape[0]
        num_columns = leaf.shape[1] - self.flagged
        whole = orthogonal(size, num_columns + num_self, gain=HIDDEN_GAIN, generator=generator)
        self.weight = nn.Parameter(whole[:, :num_columns].clone())
        self.self_weight = nn.Parameter(whole[:, num_columns:].clone()) if num_self else None
        self.bias = nn.Parameter(torch.zeros(size, dtype=torch.float32, device="cpu"))

    def forward(self, entities: Tensor, own: Tensor | None) -> tuple[Tensor, Tensor]:
        """Returns embeddings ``[N, C, size]`` of entities as stored, ``[N, max, columns]``, and a mask ``[N, C]`` of
        present entities. C is `max`, or fewer if later ones are absent in all rows.

        Args:
            entities: The set.
            own: ``[N, num_self]``, the rest of the observation; None if there is none.
        """
        if self.flagged:
            present, entities = entities[..., 0] > 0, entities[..., 1:]
        else:
            present = (entities != 0).any(-1)
            entities = entities.to(torch.float32) / self.scale
        used = _columns_in_use(present)
        present, entities = present[:, :used], entities[:, :used]
        entities = torch.where(present.unsqueeze(-1), entities, 0.0)
        embedded = functional.linear(entities, self.weight)
        if self.self_weight is None or own is None:
            return embedded + self.bias, present
        return embedded + functional.linear(own, self.self_weight, self.bias).unsqueeze(1), present


class EntityEncoder(nn.Module):
    """Encoder of all entity sets of an observation: one embedding per set, one attention over all of them.

    Args:
        leaves: The sets.
        num_self: Width of the rest of the observation.
        size: Width of embeddings and of the features.
        heads: Attention heads; `size` is split among them.
        generator: Draws the weights.

    Raises:
        ConfigError: If the heads do not divide the width.
    """

    def __init__(
        self, leaves: Sequence[Leaf], num_self: int, size: int, heads: int, *, generator: torch.Generator
    ) -> None:
        super().__init__()
        if size % heads:
            allowed = ", ".join(str(number) for number in range(1, min(size, 16) + 1) if size % number == 0)
            raise ConfigError(
                f"model.entity_heads is {heads}, which does not divide model.entity_size = {size}: use one of {allowed}"
            )
        self.heads = heads
        self.num_features = size
        embeddings = [EntityEmbedding(leaf, num_self, size, generator=generator) for leaf in leaves]
        self.embeddings = nn.ModuleList(embeddings)
        self.paths = tuple(leaf.path for leaf in leaves)
        self.num_entities = sum(leaf.shape[0] for leaf in leaves)
        self.query_key_value = linear(size, 3 * size, gain=1.0, generator=generator)
        self.output = linear(size, size, gain=1.0, generator=generator)

    def forward(self, obs: TensorTree, own: Tensor | None) -> Tensor:
        """Returns features ``[N, size]`` of the sets in observations ``[N, ...]`` by leaf path; zeros if all are empty.

        Args:
            obs: Observations.
            own: ``[N, num_self]``, the rest of the observation; None if there is none.
        """
        pairs = [embed(obs[path], own) for path, embed in zip(self.paths, self.embeddings, strict=True)]
        embedded, present = pairs[0] if len(pairs) == 1 else (torch.cat(parts, 1) for parts in zip(*pairs, strict=True))
        return attended_mean(embedded, present, self.query_key_value, self.output, self.heads)


def attended_mean(
    embedded: Tensor, present: Tensor, query_key_value: nn.Module, output: nn.Module, num_heads: int
) -> Tensor:
    """Applies attention among the present entities, with a residual; returns their mean ``[N, size]``, 0 without any.

    Args:
        embedded: ``[N, C, size]``, finite for absent entities too.
        present: ``[N, C]`` bool.
        query_key_value: A layer from `size` to three times that.
        output: A layer from `size` to `size`.
        num_heads: Attention heads; `size` is split among them.
    """
    num, count, size = embedded.shape
    x = functional.layer_norm(embedded, (size,))
    heads = query_key_value(x).view(num, count, 3, num_heads, size // num_heads)
    query, key, value = heads.permute(2, 0, 3, 1, 4)
    bias = torch.zeros_like(present, dtype=torch.float32).masked_fill_(~present, ABSENT)[:, None, None]
    attended = functional.scaled_dot_product_attention(query, key, value, bias)
    x = functional.layer_norm(x + output(attended.transpose(1, 2).reshape(num, count, size)), (size,))
    share = present.float() / present.sum(1, keepdim=True).clamp(min=1)
    return (x * share.unsqueeze(-1)).sum(1)


def _columns_in_use(present: Tensor) -> int:
    """Returns the number of columns of ``[N, C]`` that contain all present entities: the cost of attention grows with
    their square. Returns all columns on devices that would have to be synchronized, and under a compiler.
    """
    if present.device.type != "cpu" or torch.compiler.is_compiling():
        return present.shape[1]
    return int(present.any(0).nonzero()[-1:].sum()) + 1
