"""Settings for a quick off-policy evaluation."""

from __future__ import annotations

SMALL = {"fit_steps": 30, "clone_steps": 20, "resamples": 100}
