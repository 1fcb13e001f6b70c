"""Every key of a configuration of 2021, with its default, status and translation: `ROWS`.

A row is made next to the function that translates its key; see `rows.Row`. Defaults, the translation, the arguments of
RLlib 2's methods, messages about unknown keys and a page of the documentation are made from the rows.
"""

from __future__ import annotations

from rookery_rllib.config.bandit_keys import BANDIT_KEYS
from rookery_rllib.config.evolution_keys import EVOLUTION_KEYS
from rookery_rllib.config.exploration_keys import EXPLORATION
from rookery_rllib.config.model_keys import MODEL
from rookery_rllib.config.on_policy_keys import IMPALA_AND_APPO, PPO_AND_A2C
from rookery_rllib.config.replay_keys import CRITIC_KEYS, DQN_KEYS, OFFLINE_KEYS, REPLAY
from rookery_rllib.config.rows import Row
from rookery_rllib.config.run_keys import ENVIRONMENT, EVALUATION, LEARNING, MULTIAGENT, REPORTING
from rookery_rllib.config.sampling_keys import SAMPLING
from rookery_rllib.config.team_keys import TEAM_KEYS

SUBJECTS: dict[str, list[list[Row]]] = {
    "Sampling": SAMPLING,
    "Environment": ENVIRONMENT,
    "Learning": LEARNING,
    "Evaluation": EVALUATION,
    "Results and logs": REPORTING,
    "multiagent": MULTIAGENT,
    "model": MODEL,
    "PPO, A2C and variants": PPO_AND_A2C,
    "IMPALA and APPO": IMPALA_AND_APPO,
    "Replay": REPLAY,
    "DQN and variants": DQN_KEYS,
    "SAC, DDPG, TD3": CRITIC_KEYS,
    "MARWIL, BC, CQL": OFFLINE_KEYS,
    "QMIX and MADDPG": TEAM_KEYS,
    "ES and ARS": EVOLUTION_KEYS,
    "LinUCB and LinTS": BANDIT_KEYS,
    "Exploration": EXPLORATION,
}
"""The rows by subject; keys with the same text are neighbours."""

ROWS: list[Row] = [row for subject in SUBJECTS.values() for rows in subject for row in rows]

SECTIONS = ("model", "multiagent", "exploration_config", "Q_model", "policy_model", "optimization")
"""Sections whose keys are in the table one by one."""


def rows_of(algorithm: str) -> dict[str, list[Row]]:
    """Returns the rows of the keys of an algorithm, by key; a few keys have two, which both hold."""
    found: dict[str, list[Row]] = {}
    for row in ROWS:
        if not row.only or algorithm in row.only:
            found.setdefault(row.key, []).append(row)
    return found
