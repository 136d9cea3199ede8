"""The beginning of a connection: CONNECT, authentication, CONNECTED; and authentication again, later.

Until the broker accepts a connection, only CONNECT, AUTH_RESPONSE and signs of life pass, so no group is
charged for an unknown client. A client answers each challenge once. A response without a challenge could
change who the broker takes the client for: it ends the connection.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinator.gate.engine.identity import Identity
from coordinator.gate.protocol import commands, schema
from coordinator.gate.protocol.connect_policy import Client, ConnectPolicy, NotWelcome
from coordinator.gate.protocol.final_errors import final_error_of
from coordinator.gate.protocol.frames import (
    AUTH_RESPONSE,
    CONNECT,
    FrameFault,
    MalformedFrame,
    read_message,
)
from coordinator.gate.protocol.own_frames import NO_REQUEST, error_frame
from coordinator.gate.protocol.stream import Decision, FrameVerdict, Handler


class Handshake:
    """Handlers for the frames that identify a client.

    Args:
        connect_policy: what a CONNECT may say.
        identity: the client's role, as far as the client proves one.
        answer: takes a frame for the client, to be sent between two others.
    """

    def __init__(
        self,
        connect_policy: ConnectPolicy,
        identity: Identity,
        answer: Callable[[bytes], None],
    ) -> None:
        self._connect_policy = connect_policy
        self._identity = identity
        self._answer = answer
        #: Whether the client has said CONNECT.
        self.connect_seen = False
        #: Challenges of the broker that the client has not answered.
        self.challenges = 0
        #: The error to a SEND that the client takes for final; None if there is none.
        self.final_error: int | None = None
        #: The client's identity, as far as its socket tells.
        self.client = Client()

    def handlers(self) -> dict[int, Handler]:
        """Return the handlers by command type; they stay when the connection is established."""
        return {CONNECT: self._on_connect, AUTH_RESPONSE: self._on_auth_response}

    @staticmethod
    def refuse_early(kind: int) -> None:
        """Refuse a command that must wait for CONNECTED.

        Raises:
            MalformedFrame: always.
        """
        raise MalformedFrame(FrameFault.NOT_CONNECTED, f"type {kind}")

    def _on_connect(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> Decision:
        if self.connect_seen:
            raise MalformedFrame(FrameFault.CONNECTED_TWICE, "CONNECT")
        self.connect_seen = True
        fields = commands.read_connect(data, body, command_end)
        self.final_error = final_error_of(fields.get(1))
        try:
            command = self._connect_policy.judge(fields, self.client)
        except NotWelcome as refusal:
            self._answer(error_frame(NO_REQUEST, refusal.error, str(refusal)))
            raise MalformedFrame(refusal.fault, refusal.detail) from None
        self._identity.connected(fields, self.client)
        return command

    def _on_auth_response(
        self, data: bytes, _start: int, body: int, command_end: int, _frame_end: int
    ) -> Decision:
        if not self.challenges:
            raise MalformedFrame(FrameFault.UNASKED_RESPONSE, "AUTH_RESPONSE")
        response = read_message(data, body, command_end, schema.AUTH_RESPONSE)
        self.challenges -= 1
        self._identity.answered(response)
        return FrameVerdict.PASSES
