"""A player's end of the line, as small as it can be: what it sends, and what it gets."""

from __future__ import annotations

from dataclasses import replace

import grpc
import numpy as np

from rookery_mlagents.link.messages import (
    GOODBYE,
    OK,
    ActionSpecProto,
    AgentInfoProto,
    BrainParametersProto,
    FloatData,
    HeaderProto,
    ListAgentInfoProto,
    ObservationProto,
    UnityMessageProto,
    UnityOutputProto,
    UnityRLInitializationOutputProto,
    UnityRLOutputProto,
)
from rookery_mlagents.link.protobuf_classes import METHOD, SERVICE
from rookery_mlagents.link.protobuf_wire import from_bytes, to_bytes


class Client:
    """One connection to a port."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        # a connection of its own: calls to one place would share one otherwise
        options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        self.channel = grpc.insecure_channel(where, options=options)
        self.call = self.channel.unary_unary(f"/{SERVICE}/{METHOD}")

    def send(self, message: UnityMessageProto | bytes, seconds: float = 20.0) -> UnityMessageProto:
        content = message if isinstance(message, bytes) else to_bytes(message)
        return from_bytes(UnityMessageProto, self.call(content, timeout=seconds))

    def begin(self, message: UnityMessageProto | bytes) -> grpc.Future:
        content = message if isinstance(message, bytes) else to_bytes(message)
        return self.call.future(content, timeout=20.0)

    def greet(self, version: str = "1.5.0", package: str = "3.0.0", name: str = "Game") -> UnityMessageProto:
        return self.send(greeting(version, package, name))

    def close(self) -> None:
        self.channel.close()


def greeting(version: str = "1.5.0", package: str = "3.0.0", name: str = "Game") -> UnityMessageProto:
    start = UnityRLInitializationOutputProto(name, version, "", (), package)
    return UnityMessageProto(HeaderProto(OK), UnityOutputProto(None, start))


EMPTY = UnityMessageProto(HeaderProto(OK))
BYE = UnityMessageProto(HeaderProto(GOODBYE))


def seen(values, name: str = "", **more) -> ObservationProto:
    array = np.asarray(values, np.float32)
    return ObservationProto(array.shape, float_data=FloatData(tuple(array.ravel().tolist())), name=name, **more)


def agents(ids, obs=None, ended=(), **more) -> tuple[AgentInfoProto, ...]:
    obs = np.zeros((len(ids), 2)) if obs is None else obs
    made = [AgentInfoProto(id=one, observations=(seen(row),), **more) for one, row in zip(ids, obs, strict=True)]
    return tuple(replace(info, ended=info.id in ended) for info in made)


def brain(name: str, numbers: int = 0, branches: tuple[int, ...] = ()) -> BrainParametersProto:
    return BrainParametersProto(brain_name=name, action_spec=ActionSpecProto(numbers, len(branches), branches))


def output(infos: dict[str, tuple[AgentInfoProto, ...]], brains=(), side_channel: bytes = b"") -> UnityMessageProto:
    told = UnityRLOutputProto({name: ListAgentInfoProto(some) for name, some in infos.items()}, side_channel)
    start = UnityRLInitializationOutputProto(brain_parameters=tuple(brains)) if brains else None
    return UnityMessageProto(HeaderProto(OK), UnityOutputProto(told, start))
