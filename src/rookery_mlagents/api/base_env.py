"""`BaseEnv`: base class of environments in ML-Agents' low-level API; scripts can derive their own environments from
it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from rookery_mlagents.api.specs import ActionTuple, BehaviorSpec
from rookery_mlagents.api.steps import DecisionSteps, TerminalSteps


class BaseEnv(ABC):
    @abstractmethod
    def step(self) -> None: ...

    @abstractmethod
    def reset(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @property
    @abstractmethod
    def behavior_specs(self) -> Mapping[str, BehaviorSpec]: ...

    @abstractmethod
    def set_actions(self, behavior_name: str, action: ActionTuple) -> None: ...

    @abstractmethod
    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: ActionTuple) -> None: ...

    @abstractmethod
    def get_steps(self, behavior_name: str) -> tuple[DecisionSteps, TerminalSteps]: ...
