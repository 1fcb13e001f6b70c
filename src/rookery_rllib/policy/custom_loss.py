"""A model's own loss in addition to its algorithm's: ``custom_loss`` of models of 2021.

It replaces the `loss` of the learner, so that the step stays that of ``core/optim.py:gradient_step``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from rookery.face import Algorithm, ConfigError
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.model.model_v2 import ModelV2, ScriptNetwork, script_network

COLUMNS = {"action": "actions", "logp": "action_logp", "advantage": "advantages", "value_target": "value_targets",
           "value": "vf_preds", "returns": "advantages"}  # fmt: skip
"""Names in 2021 of the fields of our batches."""

Loss = Callable[[Any, Any, Any], tuple[Tensor, Any]]


def add_custom_loss(learner: Algorithm[Any]) -> None:
    """Adds the `custom_loss` of a policy's model, if a script has one, to the loss of the learner.

    Raises a ConfigError if the algorithm does not have a single loss.
    """
    network = script_network(learner.policy)
    if network is None or not isinstance(network.model, ModelV2):
        return
    if type(network.model).custom_loss is ModelV2.custom_loss:
        return
    holder: Any = getattr(learner, "estimate", learner)  # which has the loss of algorithms with action values
    loss = getattr(holder, "loss", None)
    if loss is None:
        raise ConfigError(
            f"model {type(network.model).__name__}: custom_loss extends the loss of PPO, A2C, PG and DQN, not "
            f"that of {type(learner).__name__}; derive your own algorithm (rookery.extend.Algorithm)"
        )
    holder.loss = with_custom_loss(loss, network)


def with_custom_loss(loss: Loss, network: ScriptNetwork) -> Loss:
    """Returns a loss to which the model's `custom_loss` is applied."""
    model: Any = network.model
    name = f"model {type(model).__name__}: custom_loss"

    def changed(outputs: Any, batch: Any, cfg: Any) -> tuple[Tensor, Any]:
        value, metrics = loss(outputs, batch, cfg)
        given: Any = model.custom_loss([value], loss_batch(batch, network.latest_rows))
        losses = list(given) if isinstance(given, list | tuple) else [given]
        if len(losses) != 1 or not isinstance(losses[0], Tensor):
            raise ConfigError(f"{name} returned {given!r}: must return one loss, in a list: there is one optimizer")
        if losses[0].dim() or not losses[0].requires_grad:
            raise ConfigError(f"{name}: must return a scalar tensor that depends on the weights")
        return losses[0], metrics

    return changed


def loss_batch(batch: Any, rows: Tensor | None) -> SampleBatch:
    """Returns a batch for a model's loss: tensors ``[N, ...]`` by their names of 2021."""
    columns: dict[str, Any] = {} if rows is None else {"obs": rows}
    return SampleBatch(columns | tensors_of(batch, COLUMNS))


def tensors_of(batch: Any, names: Mapping[str, str]) -> dict[str, Tensor]:
    """Returns the present fields of our batch by their names of 2021; values have one number per row."""
    fields = {name: getattr(batch, name, None) for name in names}
    return {
        names[name]: value.squeeze(-1) if name in ("value", "value_target") else value
        for name, value in fields.items()
        if isinstance(value, Tensor)
    }
