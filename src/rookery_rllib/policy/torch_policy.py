"""TorchPolicy of 2021: a model, an action distribution and a loss of the script, trained by `core/optim.py`.

Scripts derive from `TorchPolicy`, or build a class from functions (`templates.py`). `loss_policies.py` has the actors
and the learner of such a class in a trainer.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rookery.face import ConfigError, ModelConfig, apply_gradients, compute_gradients, gradient_step, own_modes
from rookery_rllib.base.nested_dicts import force_list
from rookery_rllib.batch.numpy_functions import as_arrays
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.batch.sequences import pad_batch_to_sequences_of_same_size
from rookery_rllib.batch.torch_functions import convert_to_non_torch_type, convert_to_torch_tensor
from rookery_rllib.batch.view_requirement import ViewRequirement
from rookery_rllib.config.defaults import COMMON_CONFIG, MODEL_DEFAULTS
from rookery_rllib.model.shared_weights import separate
from rookery_rllib.policy.optimizers import AdamGroups, PolicyAdam, as_adam, attach
from rookery_rllib.policy.policies import LEARNER_STATS_KEY, Policy, states_in

DUMMY_ROWS = 32
"""Rows of zeros for a test call of a loss."""


@dataclass(frozen=True)
class StepSettings:
    """Settings for `gradient_step`; the optimizer's groups have the rates, and the policy clips."""

    lr: float = 0.0
    max_grad_norm: float | None = None
    model: ModelConfig = field(default_factory=ModelConfig)


STEP = StepSettings()


def _itself(batch: Any) -> Any:
    """Returns its argument: the script's loss calls the model itself."""
    return batch


class TorchPolicy(Policy):
    """A policy with a torch model and its own loss."""

    @own_modes()
    def __init__(
        self,
        observation_space: Any,
        action_space: Any,
        config: dict[str, Any],
        *,
        model: Any,
        loss: Callable[..., Any] | None,
        action_distribution_class: Any,
        action_sampler_fn: Callable[..., Any] | None = None,
        action_distribution_fn: Callable[..., Any] | None = None,
        max_seq_len: int = 20,
        get_batch_divisibility_req: Callable[[Any], int] | int | None = None,
    ) -> None:
        super().__init__(observation_space, action_space, config)
        self.framework = "torch"
        model = separate(model) if isinstance(model, nn.Module) else model
        self.model: Any = model
        self.unwrapped_model = model
        self.pristine = _copied(model)
        self._loss = loss
        self.dist_class = action_distribution_class
        self.action_sampler_fn = action_sampler_fn
        self.action_distribution_fn = action_distribution_fn
        self.max_seq_len = max_seq_len
        self.view_requirements = {**default_views(self), **model.view_requirements}
        for number in range(len(model.get_initial_state())):
            view = ViewRequirement(f"state_out_{number}", shift=-1)
            model.view_requirements[f"state_in_{number}"] = self.view_requirements[f"state_in_{number}"] = view
        self.exploration = self._create_exploration()
        self._optimizers: list[Any] = [as_adam(each) for each in force_list(self.optimizer())]
        divisor = get_batch_divisibility_req
        self.batch_divisibility_req = int((divisor(self) if callable(divisor) else divisor) or 1)

    def _train(self, training: bool) -> None:
        """Sets the model's training mode."""
        if self.model.training is not training:
            self.model.train(training)

    @property
    def device(self) -> torch.device:
        found: torch.device = next(iter(self.model.parameters())).device
        return found

    # --- acting -------------------------------------------------------------------------------------------------------

    @own_modes()
    def compute_actions_from_input_dict(
        self, input_dict: Any, explore: bool | None = None, timestep: int | None = None, episodes: Any = None, **kw: Any
    ) -> Any:
        return self._act(input_dict, states_in(input_dict), explore, timestep)

    @own_modes()
    def _act(self, columns: Mapping[str, Any], states: Any, explore: bool | None, timestep: int | None) -> Any:
        with torch.no_grad():
            input_dict, before = self._given(columns, states)
            return self._compute_action_helper(input_dict, before, self._ones(len(input_dict)), explore, timestep)

    def _given(self, columns: Mapping[str, Any], states: Any) -> tuple[SampleBatch, list[Tensor]]:
        """Converts columns and states to tensors."""
        given = self._lazy_tensor_dict(SampleBatch(as_arrays(dict(columns))))
        return given, convert_to_torch_tensor(list(states if states is not None else []), self.device)

    def _ones(self, num: int) -> Tensor:
        return torch.ones(num, dtype=torch.int32, device=self.device)

    def _compute_action_helper(
        self, input_dict: SampleBatch, state_batches: list[Tensor], seq_lens: Any, explore: Any, timestep: Any
    ) -> Any:
        """Computes actions, states after and extra columns, as arrays."""
        explore = self._explores(explore)
        timestep = self.global_timestep if timestep is None else timestep
        self._train(False)
        distribution, inputs = None, None
        if self.action_sampler_fn is not None:
            actions, logp, after = self.action_sampler_fn(
                self, self.model, input_dict, state_batches, explore=explore, timestep=timestep
            )
        else:
            self.exploration.before_compute_actions(explore=explore, timestep=timestep)
            inputs, kind, after = self.distribution_inputs(input_dict, state_batches, seq_lens, explore, timestep)
            distribution = kind(inputs, self.model)
            actions, logp = self.exploration.get_exploration_action(
                action_distribution=distribution, timestep=timestep, explore=explore
            )
        input_dict["actions"] = actions
        extra = dict(self.extra_action_out(input_dict, state_batches, self.model, distribution))
        if inputs is not None:
            extra["action_dist_inputs"] = inputs
        if logp is not None:
            extra |= {"action_logp": logp, "action_prob": torch.exp(logp.float())}
        self.global_timestep += len(input_dict["obs"])
        return convert_to_non_torch_type((actions, list(after), extra))

    def distribution_inputs(
        self, input_dict: SampleBatch, states: list[Tensor], seq_lens: Any, explore: bool, timestep: Any
    ) -> tuple[Any, Any, list[Any]]:
        """Returns the inputs ``[N, ...]`` of the action distribution, its class, and the states after."""
        make = self.action_distribution_fn
        if make is None:
            inputs, after = self.model(input_dict, states, seq_lens)
            return inputs, self.dist_class, after
        about: dict[str, Any] = {"explore": explore, "timestep": timestep, "is_training": False}
        parameters = inspect.signature(make).parameters
        takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
        if "input_dict" in parameters:
            about |= {"input_dict": input_dict, "state_batches": states, "seq_lens": seq_lens}
            about = {name: value for name, value in about.items() if takes_all or name in parameters}
            found = make(self, self.model, **about)
        else:
            about = {name: value for name, value in about.items() if takes_all or name in parameters}
            found = make(self, self.model, input_dict["obs"], **about)
        inputs, kind, after = found
        return inputs, kind, after

    @own_modes()
    def _log_likelihoods(self, actions: Any, columns: Mapping[str, Any], states: Any) -> Any:
        """Computes log-probabilities ``[N]``; raises a ConfigError if only an `action_sampler_fn` makes actions."""
        if self.action_sampler_fn is not None and self.action_distribution_fn is None:
            raise ConfigError(
                "compute_log_likelihoods: actions come from action_sampler_fn; give action_distribution_fn too"
            )
        with torch.no_grad():
            self._train(False)
            input_dict, before = self._given(columns, states)
            inputs, kind, _ = self.distribution_inputs(input_dict, before, self._ones(len(input_dict)), False, None)
            taken = convert_to_torch_tensor(np.asarray(as_arrays(actions)), self.device)
            return kind(inputs, self.model).logp(taken)

    @own_modes()
    def with_extras(self, batch: SampleBatch) -> SampleBatch:
        """Adds the further outputs of acting to rows: `extra_action_out`, the inputs of the distribution, and the
        states after each row.

        Args:
            batch: Rows with ``obs``, ``actions`` and ``state_in_<i>``; the weights are still those that sampled them.
        """
        states = [name for name in sorted(batch) if name.startswith("state_in_")]
        with torch.no_grad():
            self._train(False)
            seen = self._lazy_tensor_dict(SampleBatch(dict(batch)))
            before = [seen[name] for name in states]
            found: dict[str, Any] = {}
            after: list[Any] = []
            distribution = None
            if self.action_sampler_fn is None or self.action_distribution_fn is not None:
                inputs, kind, after = self.distribution_inputs(
                    seen, before, self._ones(len(batch)), self._explores(None), self.global_timestep
                )
                distribution = kind(inputs, self.model)
                found["action_dist_inputs"] = inputs
            found |= self.extra_action_out(seen, before, self.model, distribution)
        found |= {f"state_out_{number}": part for number, part in enumerate(after)}
        for name, column in found.items():
            array = np.asarray(as_arrays(column))
            if array.ndim and len(array) == len(batch):
                batch[name] = array
        return batch

    # --- learning -----------------------------------------------------------------------------------------------------

    @own_modes()
    def learn_on_batch(self, samples: Any) -> dict[str, Any]:
        """Makes one gradient step; rows of recurrent models are cut into sequences, in place."""
        self._train(True)
        custom_metrics: dict[str, Any] = {}
        if self.callbacks is not None:
            self.callbacks.on_learn_on_batch(policy=self, train_batch=samples, result=custom_metrics)
        if overrides(self, "compute_gradients", "apply_gradients"):
            gradients, fetched = self.compute_gradients(samples)
            self.apply_gradients(gradients)
            fetched = dict(fetched)
        else:
            batch = self._prepared(samples)
            fetched = self._fetched(self._stepped(batch))
        self._hand_out()
        return {**fetched, "model": self.model.metrics(), "custom_metrics": custom_metrics}

    def _prepared(self, samples: Any) -> SampleBatch:
        """Returns a batch for a loss: padded sequences, and columns that become tensors on access."""
        batch = samples if isinstance(samples, SampleBatch) else SampleBatch(samples)
        if not batch.zero_padded:
            pad_batch_to_sequences_of_same_size(
                batch,
                max_seq_len=self.max_seq_len,
                shuffle=False,
                batch_divisibility_req=self.batch_divisibility_req,
                view_requirements=self.view_requirements,
            )
        batch.is_training = True
        return self._lazy_tensor_dict(batch)

    def losses(self, batch: SampleBatch) -> list[Tensor]:
        """Computes the loss of each optimizer, with the custom loss; raises a ConfigError for another number."""
        if self._loss is None:
            raise ConfigError(f"{type(self).__name__}: has no loss: give loss_fn")
        given = force_list(self._loss(self, self.model, self.dist_class, batch))
        found: list[Tensor] = force_list(self.model.custom_loss(given, batch))
        if len(found) != len(self._optimizers):
            raise ConfigError(
                f"{type(self).__name__}: {len(found)} losses and {len(self._optimizers)} optimizers; return "
                "one for each of optimizer_fn"
            )
        return found

    def _gradient_of(self, number: int, kept: dict[str, Any]) -> Callable[..., Any]:
        """Returns the loss of an optimizer in the form of `core/optim.py`."""

        def loss(outputs: Any, batch: SampleBatch, cfg: Any) -> tuple[Tensor, dict[str, Any]]:
            kept["loss"] = self.losses(batch)[number].sum()
            return kept["loss"], {}

        return loss

    def _stepped(self, batch: SampleBatch) -> dict[str, Any]:
        """Makes the step of every optimizer; returns the report of gradients and batch."""
        if len(self._optimizers) > 1:
            found = self._computed(batch)
            self._apply()
            return found
        info: dict[str, Any] = {"allreduce_latency": 0.0}
        kept: dict[str, Any] = {}
        optimizer, engine = self._optimizers[0], self._optimizers[0].stepped

        def before() -> None:
            info.update(self.extra_grad_process(optimizer, kept["loss"]) or {})
            info.update(self._grad_info(batch))

        engine.before = before
        try:
            gradient_step(_itself, self._gradient_of(0, kept), batch, engine, STEP)
        finally:
            engine.before = None
        return info

    def _computed(self, batch: SampleBatch) -> dict[str, Any]:
        """Computes the gradients of all losses into the parameters' `grad`."""
        info: dict[str, Any] = {"allreduce_latency": 0.0}
        gradients = []
        for number, optimizer in enumerate(self._attached()):
            kept: dict[str, Any] = {}
            compute_gradients(_itself, self._gradient_of(number, kept), batch, optimizer.stepped, STEP)
            info.update(self.extra_grad_process(optimizer, kept["loss"]) or {})
            gradients.append(optimizer.stepped.flat.read_gradient())
        for optimizer, gradient in zip(self._optimizers, gradients, strict=True):  # losses may share weights
            optimizer.stepped.flat.write_gradient(gradient)
        info.update(self._grad_info(batch))
        return info

    def _apply(self) -> None:
        for optimizer in self._optimizers:
            apply_gradients(optimizer.stepped, lr=0.0, max_grad_norm=None)

    def _attached(self) -> Sequence[Any]:
        """The optimizers, with their parameters in one vector."""
        if any(optimizer.engine is None for optimizer in self._optimizers):
            attach(self._optimizers)
        return self._optimizers

    @property
    def engines(self) -> list[AdamGroups]:
        """The optimizers of `core/optim.py`, one for each loss."""
        return [optimizer.stepped for optimizer in self._attached()]

    def _grad_info(self, batch: SampleBatch) -> dict[str, Any]:
        with torch.no_grad():
            return dict(self.extra_grad_info(batch) or {})

    def _fetched(self, info: Mapping[str, Any]) -> dict[str, Any]:
        fetches = dict(self.extra_compute_grad_fetches())
        stats = {**fetches.get(LEARNER_STATS_KEY, {}), **info}
        return {**fetches, LEARNER_STATS_KEY: convert_to_non_torch_type(stats)}

    @own_modes()
    def compute_gradients(self, postprocessed_batch: Any) -> Any:
        """Returns a tensor for each of ``model.parameters()``, None for those without optimizer, and the report."""
        self._train(True)
        info = self._computed(self._prepared(postprocessed_batch))
        known: dict[int, Tensor] = {}
        for engine in self.engines:
            sizes = [parameter.numel() for parameter in engine.parameters]
            for parameter, part in zip(engine.parameters, engine.flat.read_gradient().split(sizes), strict=True):
                known[id(parameter)] = part.view_as(parameter)
        return [known.get(id(parameter)) for parameter in self.model.parameters()], self._fetched(info)

    @own_modes()
    def apply_gradients(self, gradients: Any) -> None:
        given = {
            id(parameter): torch.from_numpy(np.asarray(as_arrays(gradient))).reshape(-1)
            for parameter, gradient in zip(self.model.parameters(), gradients, strict=True)
            if gradient is not None
        }
        for engine in self.engines:
            parts = [
                given.get(id(one), torch.zeros(one.numel(), dtype=torch.float32, device="cpu")).to(self.device)
                for one in engine.parameters
            ]
            engine.flat.write_gradient(torch.cat(parts))
        self._apply()
        self._hand_out()

    # --- for subclasses -----------------------------------------------------------------------------------------------

    def optimizer(self) -> Any:
        """Returns the optimizer, or one for each loss; subclasses may return an Adam of torch."""
        return PolicyAdam(self.model.parameters(), lr=float(self.config.get("lr") or COMMON_CONFIG["lr"]))

    def extra_action_out(
        self, input_dict: Any, state_batches: list[Any], model: Any, action_dist: Any
    ) -> dict[str, Any]:
        return {}

    def extra_grad_process(self, optimizer: Any, loss: Any) -> dict[str, Any]:
        return {}

    def extra_compute_grad_fetches(self) -> dict[str, Any]:
        return {LEARNER_STATS_KEY: {}}

    def extra_grad_info(self, train_batch: Any) -> dict[str, Any]:
        return {}

    def loss_initialized(self) -> bool:
        """Returns True: the policy is always complete."""
        return True

    # --- state --------------------------------------------------------------------------------------------------------

    def get_initial_state(self) -> list[Any]:
        return [np.asarray(as_arrays(part)) for part in self.model.get_initial_state()]

    def get_weights(self) -> dict[str, np.ndarray]:
        return {name: np.array(as_arrays(value)) for name, value in self.model.state_dict().items()}

    @own_modes()
    def set_weights(self, weights: Any) -> None:
        self.model.load_state_dict({name: torch.from_numpy(np.asarray(as_arrays(v))) for name, v in weights.items()})
        self._hand_out()

    def get_state(self) -> dict[str, Any]:
        moments = [as_arrays(optimizer.state_dict()) for optimizer in self._attached()]
        return {**super().get_state(), "_optimizer_variables": moments}

    @own_modes()
    def set_state(self, state: Any) -> None:
        """Raises a ConfigError for another number of optimizers; the policy is then unchanged."""
        optimizers, moments = self._attached(), state.get("_optimizer_variables") or []
        if moments and len(moments) != len(optimizers):
            raise ConfigError(
                f"{type(self).__name__}.set_state: the state holds the moments of {len(moments)} optimizers, and the "
                f"policy has {len(optimizers)}: let optimizer() return as many as before"
            )
        if moments:
            for optimizer, own in zip(optimizers, moments, strict=True):
                optimizer.load_state_dict(own)
        super().set_state(state)

    def export_model(self, export_dir: str, onnx: int | None = None) -> None:
        """Raises a ConfigError: a checkpoint of the trainer holds the policy."""
        raise ConfigError(
            f"{type(self).__name__}.export_model: use trainer.save(), which keeps it, or write policy.get_weights()"
        )

    def import_model_from_h5(self, import_file: str) -> None:
        self.model.import_from_h5(import_file)

    def _lazy_tensor_dict(self, postprocessed_batch: Any, device: Any = None) -> SampleBatch:
        batch = (
            postprocessed_batch if isinstance(postprocessed_batch, SampleBatch) else SampleBatch(postprocessed_batch)
        )
        batch.set_get_interceptor(functools.partial(convert_to_torch_tensor, device=device or self.device))
        return batch

    def _initialize_loss_from_dummy_batch(
        self, auto_remove_unneeded_view_reqs: bool = True, stats_fn: Callable[..., Any] | None = None
    ) -> None:
        """Runs acting, postprocessing and loss on zeros, as policies of 2021 did in their constructor."""
        batch = self.postprocess_trajectory(self.dummy_batch())
        batch = self._prepared(batch)
        if self._loss is not None:
            self._train(True)
            self._loss(self, self.model, self.dist_class, batch)
            if stats_fn is not None:
                stats_fn(self, batch)
        self.global_timestep = 0

    def dummy_batch(self) -> SampleBatch:
        """Returns rows of zeros with the columns of a trajectory."""
        num, space = DUMMY_ROWS, self.observation_space
        obs = np.zeros((num, *space.shape), space.dtype)
        batch = SampleBatch({"obs": obs, "new_obs": obs.copy()})
        for number, part in enumerate(self.get_initial_state()):
            batch[f"state_in_{number}"] = np.zeros((num, *part.shape), np.float32)
        shape = np.shape(self.action_space.sample()) if hasattr(self.action_space, "shape") else ()
        kind = (
            np.int64
            if np.issubdtype(getattr(self.action_space, "dtype", None) or np.float32, np.integer)
            else np.float32
        )
        columns = {name: np.zeros((num, *shape), kind) for name in ("actions", "prev_actions")}
        columns |= {name: np.zeros(num, np.float32) for name in ("rewards", "prev_rewards", "action_logp")}
        columns |= {name: np.zeros(num, np.int64) for name in ("t", "eps_id", "agent_index", "unroll_id")}
        columns |= {"dones": np.zeros(num, bool), "action_prob": np.ones(num, np.float32)}
        for name, column in columns.items():
            batch[name] = column
        batch["infos"] = np.array([{} for _ in range(num)], dtype=object)
        return self.with_extras(batch)


def default_views(policy: Policy) -> dict[str, Any]:
    """Returns the view requirements that every policy has."""
    space, action = policy.observation_space, policy.action_space
    beside = ("rewards", "dones", "infos", "eps_id", "unroll_id", "agent_index", "t")
    return {
        "obs": ViewRequirement(space=space),
        "new_obs": ViewRequirement("obs", shift=1, space=space, used_for_compute_actions=False),
        "actions": ViewRequirement(space=action, used_for_compute_actions=False),
        "prev_actions": ViewRequirement("actions", shift=-1, space=action),
        "prev_rewards": ViewRequirement("rewards", shift=-1),
        **{name: ViewRequirement(used_for_compute_actions=False) for name in beside},
    }


def model_config_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the complete section ``model`` of a configuration."""
    return {**MODEL_DEFAULTS, **(config.get("model") or {})}


def _copied(model: Any) -> Any:
    """Copies a model that was not called yet; None if it cannot be copied."""
    try:
        return copy.deepcopy(model)
    except Exception:  # a script may store anything in its model
        return None


def overrides(policy: TorchPolicy, *names: str) -> bool:
    """Whether the class of a script overrides one of these methods."""
    return any(getattr(type(policy), name) is not getattr(TorchPolicy, name) for name in names)
