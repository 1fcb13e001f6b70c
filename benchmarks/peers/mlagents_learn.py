"""ML-Agents' own ``mlagents-learn`` on today's Python: ``mlagents_learn.py FILE [its own options]``.

It runs in the environment that ``benchmarks/peers/install.sh mlagents`` makes. mlagents 1.1.0 was written for Python
3.10; what is changed here is what else would stop it, and nothing that it computes: names that numpy no longer has,
arrays of one element that are no numbers any more, the exporter of torch that it was written for, and numpy's numbers
in its JSON files.
"""

# ruff: noqa: D103, E402

from __future__ import annotations

import json
import os

os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"

import numpy as np

np.float = float
np.bool = bool

import mlagents.trainers.poca.trainer as poca_trainer
import torch
from mlagents.trainers import learn


def legacy(export: object) -> object:
    return lambda *args, **kwargs: export(*args, **{**kwargs, "dynamo": False})


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.onnx.export = legacy(torch.onnx.export)
    returns = poca_trainer.lambda_return
    poca_trainer.lambda_return = lambda *args, value_next=0.0, **kwargs: returns(
        *args,
        **kwargs,
        value_next=float(np.asarray(value_next).reshape(())),
    )
    json.JSONEncoder.default = lambda _, one: float(one)
    learn.main()
