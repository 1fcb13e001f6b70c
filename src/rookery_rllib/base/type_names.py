"""Names of types that annotations of scripts use."""

from __future__ import annotations

from typing import Any

TrainerConfigDict = AlgorithmConfigDict = PartialTrainerConfigDict = PartialAlgorithmConfigDict = dict
EnvConfigDict = ModelConfigDict = EnvInfoDict = ResultDict = GradInfoDict = LearnerStatsDict = ModelWeights = dict
FromConfigSpec = dict[str, Any] | type | str
EnvType = EnvCreator = AgentID = EnvObsType = EnvActionType = FileType = LocalOptimizer = TensorType = Any
PolicyID = str
EnvID = int | str
EpisodeID = UnrollID = int
MultiAgentDict = dict[Any, Any]
MultiEnvDict = dict[int | str, dict[Any, Any]]
MultiAgentPolicyConfigDict = dict[str, tuple[Any, Any, Any, dict[str, Any]]]
ViewRequirementsDict = dict[str, Any]
ModelInputDict = dict[str, Any]
ModelGradients = list[Any]
SampleBatchType = Any
SpaceStruct = TensorStructType = Any
TensorShape = tuple[int, ...] | list[int]
PolicyState = dict[str, Any]
TensorConfigDict = dict[str, Any]
