"""Settings under which a judgement takes no time."""

from __future__ import annotations

SMALL = {"fit_steps": 30, "clone_steps": 20, "resamples": 100}
