"""Settings under which a judgement takes no time."""

from __future__ import annotations

SMALL = {"fit_steps": 60, "clone_steps": 40, "resamples": 100}
