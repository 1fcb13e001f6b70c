"""Data exchanged between a game and its training in addition to observations and actions, by custom side channels."""

from __future__ import annotations

from uuid import UUID


class PlayerChannel:
    """Custom side channel. The C# side is a class derived from `SideChannel` with the same id.

        class Levels(PlayerChannel):
            def receive(self, lane, message):
                print(lane, message.decode())

    Give it to `UnityEnv` (docs/how-to/unity.md). Derive a class from it to read what games send.

    Args:
        channel_id: The channel's id, as the game has it.
    """

    def __init__(self, channel_id: UUID | str) -> None:
        self.id = channel_id if isinstance(channel_id, UUID) else UUID(channel_id)
        self._waiting: list[list[bytes]] = []
        self._early: list[tuple[bytes, int | None]] = []

    def receive(self, lane: int, message: bytes) -> None:
        """Receives a message of the player of a lane."""

    def send(self, message: bytes, lane: int | None = None) -> None:
        """Sends bytes with the next answer to the player of a lane; None = to all players."""
        if not self._waiting:
            self._early.append((bytes(message), lane))
        for number, waiting in enumerate(self._waiting):
            if lane in (None, number):
                waiting.append(bytes(message))

    def open(self, num_lanes: int) -> None:
        """Receives the number of players."""
        self._waiting, early, self._early = [[] for _ in range(num_lanes)], self._early, []
        for message, lane in early:
            self.send(message, lane)

    def take(self, lane: int) -> list[bytes]:
        """Returns the messages to a player that were not sent yet."""
        taken, self._waiting[lane] = self._waiting[lane], []
        return taken
