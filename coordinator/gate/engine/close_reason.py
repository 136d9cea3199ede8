"""Why the gate closes connections by itself."""

from __future__ import annotations

from enum import Enum


class CloseReason(Enum):
    """Why the gate closed or refused a connection."""

    TOO_MANY = "too many connections"
    TOO_MANY_OF_HOST = "too many connections of one host"
    NO_DESCRIPTORS = "no file descriptors left"
    TLS_HANDSHAKE = "TLS handshake failed or took too long"
    NO_CONNECT = "client did not say CONNECT in time"
    CLIENT_SILENT = "client did not answer the broker's challenge in time"
    BROKER_SILENT = "broker did not answer CONNECT in time"
    CLIENT_STALLED = "client took nothing of what was sent to it"
    BROKER_STALLED = "broker took nothing of what was sent to it"
    FRAME_UNFINISHED = "client did not complete a held frame in time"
    END_NOT_TAKEN = "rest of a closed connection was not taken in time"
    MALFORMED = "malformed frame"
    FAULT = "fault of the gate itself"
