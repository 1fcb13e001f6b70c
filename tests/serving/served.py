"""Checkpoints of untrained policies, and a server of them."""

import http.client
import json
from collections import OrderedDict
from contextlib import contextmanager

import numpy as np
import torch
from gymnasium import spaces

from rookery.core.io.files import FOLDER, write_directory
from rookery.core.process.internal_errors import InternalErrors
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.models.build import ModelConfig
from rookery.policies.export import policy_files
from rookery.policies.policy import Policy
from rookery.serving.batcher import Batcher
from rookery.serving.server import PolicyServer, ServingOptions

TOKEN = "open-sesame"

PLAIN = spaces.Box(-1, 1, (4,), np.float32)
MANY_SORTS = spaces.Dict(
    OrderedDict(
        camera=spaces.Box(0, 255, (3,), np.uint8),
        place=spaces.Discrete(5, start=1),
        body=spaces.Dict(OrderedDict(angles=spaces.Box(-10, 10, (2, 2), np.float32), flags=spaces.MultiBinary(3))),
        action_mask=spaces.MultiBinary(3),
    )
)
HYBRID = spaces.Dict(OrderedDict(move=spaces.Discrete(3), aim=spaces.Box(-2, 2, (2,), np.float32)))


def policy(obs=PLAIN, action=None, name="main", seed=0, info_mask=False, **model):
    action = action or spaces.Box(-1, 1, (2,), np.float32)
    settings = ModelConfig(**{"hidden": [16], **model})
    generator = torch.Generator().manual_seed(seed)
    made = Policy(obs_spec(obs, action, info_mask=info_mask), action_spec(action), settings, name, generator=generator)
    with torch.no_grad():
        for weight in made.parameters():
            weight.copy_(0.15 * torch.randn(weight.shape, generator=generator))
        if made.normalizer is not None:
            rows = made.obs_spec.allocate(50)
            rng = np.random.default_rng(seed)
            tree = {
                path: torch.from_numpy(rng.normal(3, 2, rows[path].shape)).float() for path in made.normalizer.paths
            }
            made.normalizer.update(tree)
    return made


def checkpoint(run, number, *policies, **facts):
    """Writes policies as a checkpoint of a run; gives its path."""
    path = run / FOLDER / f"{number:06d}"
    path.parent.mkdir(parents=True, exist_ok=True)
    files = policy_files({one.name: one for one in policies}, {one.name: one.model for one in policies})
    write_directory(path, files, {"format": 1, **facts})
    return path


@contextmanager
def serving(path, said=None, **options):
    told = [] if said is None else said
    run = path if (path / FOLDER).is_dir() else None
    if run is not None:
        path = sorted((run / FOLDER).iterdir())[-1]
    name = options.pop("name", None)
    given = ServingOptions(**{"token": TOKEN, "seconds": 0.02, **options})
    with PolicyServer(path, given, run, name, say=told.append).running() as server:
        yield server


def batcher_of(version, said=None, **limits):
    """A batcher by itself; what goes wrong in it is appended to `said`."""
    told = [] if said is None else said
    given = {"max_rows": 8, "max_waiting": 99, "max_remembered": 99, **limits}
    return Batcher(version, internal_errors=InternalErrors(told.append), **given)


class Web:
    """Speaks HTTP to a server, over one connection."""

    def __init__(self, server, token=TOKEN):
        self.link = http.client.HTTPConnection(*server.address, timeout=10)
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def call(self, method, path, body=None, **headers):
        text = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        self.link.request(method, path, text, {**self.headers, **headers})
        answer = self.link.getresponse()
        return answer.status, json.loads(answer.read())

    def act(self, obs, **fields):
        return self.call("POST", "/act", {"obs": obs, **fields})
