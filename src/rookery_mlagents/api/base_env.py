"""`BaseEnv`: the class that environments of ML-Agents' low-level API come from; scripts write their own by it, too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from rookery_mlagents.api.specs import ActionTuple, BehaviorSpec
from rookery_mlagents.api.steps import DecisionSteps, TerminalSteps


class BaseEnv(ABC):
    """A simulation with agents of any number of behaviours, which ask for actions when they need one."""

    @abstractmethod
    def step(self) -> None:
        """Lets the simulation go on with the actions that were set, until an agent has something to say."""

    @abstractmethod
    def reset(self) -> None:
        """Begins anew."""

    @abstractmethod
    def close(self) -> None:
        """Ends the simulation."""

    @property
    @abstractmethod
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]:
        """The behaviours that have had an agent so far, by name."""

    @abstractmethod
    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        """Sets the actions of all agents of a behaviour for the next step.

        Args:
            behavior_name: The behaviour.
            action: Actions in the order of its `DecisionSteps`.
        """

    @abstractmethod
    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: ActionTuple) -> None:
        """Sets the action of one agent for the next step.

        Args:
            behavior_name: The behaviour.
            agent_id: The agent, one of those that ask.
            action: An action of one row.
        """

    @abstractmethod
    def get_steps(self, behavior_name: str) -> tuple[DecisionSteps, TerminalSteps]:
        """Returns the agents of a behaviour that ask for an action now, and those whose episode ended since."""
