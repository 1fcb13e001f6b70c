"""Policies with weights that matter, and running what was exported of them."""

import numpy as np
import onnx
import onnxruntime
import torch

from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.models.build import ModelConfig
from rookery.onnx.written import random_observations
from rookery.policies.policy import Policy


def policy_of(obs, action, head=None, info_mask=False, **model):
    """A policy whose last layers and biases are not nearly zero, with a normalizer that has seen something."""
    generator = torch.Generator().manual_seed(0)
    layout = obs_spec(obs, action, info_mask=info_mask)
    policy = Policy(layout, action_spec(action), ModelConfig(**model), "main", generator=generator, head=head)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=generator) / max(1.0, weight[0].numel() ** 0.5 / 4))
        for name, weight in policy.head.named_parameters():
            if name.endswith("weight"):
                weight.mul_(3.0)
        for statistics in policy.normalizer.statistics if policy.normalizer is not None else ():
            statistics.update(torch.randn(50, *statistics.mean.shape, generator=generator) * 3 + 1)
    return policy.eval()


def observed(policy, rows=24):
    """Random observations, as arrays and as tensors."""
    tree = random_observations(policy, rows)
    return tree, {path: torch.from_numpy(array) for path, array in tree.items()}


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def outputs(path, **feeds):
    """Outputs of a file by name."""
    run = session(path)
    names = [one.name for one in run.get_outputs()]
    wanted = {one.name for one in run.get_inputs()}
    return dict(zip(names, run.run(None, {key: value for key, value in feeds.items() if key in wanted}), strict=True))


def sensed(policy, tree):
    """Observations as Unity's sensors send them: written a second time on purpose."""
    feeds = {}
    for number, leaf in enumerate(leaf for leaf in policy.own_spec.leaves if leaf.kind != "mask"):
        value = tree[leaf.path]
        if leaf.kind in ("discrete", "multi_discrete"):
            columns = value.reshape(len(value), -1)
            value = np.concatenate([np.eye(n)[columns[:, i]] for i, n in enumerate(leaf.sizes)], 1)
        elif leaf.kind == "entities":
            value = value[:, :, 1:]
        elif leaf.dtype == np.uint8 and leaf.kind == "box":
            value = value / leaf.scale
        if value.ndim == 4 and value.shape[-1] <= value.shape[1]:
            value = value.transpose(0, 3, 1, 2)
        feeds[f"obs_{number}"] = value.reshape(len(value), *(value.shape[1:] or (1,))).astype(np.float32)
    return feeds


def changed(path, change):
    """Loads a file, changes its model and saves it."""
    model = onnx.load(path)
    change(model)
    onnx.save(model, path)
    return path
