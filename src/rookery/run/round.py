"""The state of learning between two calls of playing: policies, rollouts and gradient steps that are left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from rookery.core.batch import Rollout
from rookery.core.state import Stateful


class Round(Stateful):
    """Learning that follows one call of playing, or that takes place while nothing is played.

    Args:
        names: Policies that learn, in this order.
        rollouts: Rollouts of these policies by name; None = they learn from replay alone.
        env_steps: Environment steps that learning from replay alone is for; None = those of one call of playing.

    Attributes:
        alone: Whether they learn from replay alone.
        left: Gradient steps on replay that the first policy still has to make; None = not begun.
    """

    saved = ("names", "left", "env_steps", "alone")
    fixed = ("rollouts", "all_names")

    def __init__(
        self, names: Iterable[str] = (), rollouts: Mapping[str, Rollout] | None = None, env_steps: int | None = None
    ) -> None:
        self.names = list(names)
        self.all_names = tuple(self.names)
        self.rollouts = dict(rollouts or {})
        self.alone = rollouts is None
        self.env_steps = env_steps
        self.left: int | None = None

    def each(self, check: Callable[[], None]) -> Iterator[str]:
        """Yields the policies that still have to learn; each must have learned when the next is requested.

        Args:
            check: Called between two policies; raises if the run is to stop.
        """
        while self.names:
            yield self.names[0]
            self.names, self.left = self.names[1:], None
            if self.names:
                check()

    def keep(self) -> None:
        """Copies the rollouts, whose memory is overwritten by further playing."""
        self.rollouts = {name: rollout.map(lambda _, tensor: tensor.clone()) for name, rollout in self.rollouts.items()}

    def state_dict(self) -> dict[str, Any]:
        """Returns the whole state, rollouts included."""
        rollouts = {
            name: vars(rollout.map(lambda _, tensor: tensor.to("cpu", copy=True)))
            for name, rollout in self.rollouts.items()
        }
        return {**super().state_dict(), "rollouts": rollouts, "all_names": list(self.all_names)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave."""
        state = dict(state)
        self.rollouts = {name: Rollout(**fields) for name, fields in state.pop("rollouts").items()}
        self.all_names = tuple(state.pop("all_names"))
        super().load_state_dict(state)
