"""LOOKUP and PARTITIONED_METADATA, written anew from the fields that a client may set.

*Which address.* A broker answers a LOOKUP with the address of the listener that the client names, or else
of the listener that the request came in by. A client that names ``internal`` would be led round the gate,
to the broker's own port. So the name is left out: the gate's connections come in by the external
listener.

*Which identity.* A proxy names its client in fields of its own. Where the gate vouches for its clients
(connect_policy.py), the broker would believe any client that sets these fields, so they are left out.
"""

from __future__ import annotations

from typing import Final

from coordinator.gate.protocol import schema
from coordinator.gate.protocol.frames import (
    LOOKUP,
    PARTITIONED_METADATA,
    read_message,
    select_fields,
)
from coordinator.gate.protocol.own_frames import command_frame

_LISTENER_NAME: Final = 7
_ORIGINAL_OF_LOOKUP: Final = frozenset((4, 5, 6))
_ORIGINAL_OF_METADATA: Final = frozenset((3, 4, 5))


def rewrite_lookup(data: bytes, start: int, end: int, *, vouches: bool) -> bytes:
    """Return the frame to send in place of the LOOKUP whose sub-message lies between two positions.

    Raises:
        MalformedFrame: it is not in canonical form.
    """
    read_message(data, start, end, schema.LOOKUP)
    dropped = {_LISTENER_NAME} | (_ORIGINAL_OF_LOOKUP if vouches else frozenset())
    kept = schema.LOOKUP.keys() - dropped
    return command_frame(LOOKUP, select_fields(data, start, end, kept))


def rewrite_partitioned_metadata(data: bytes, start: int, end: int, *, vouches: bool) -> bytes:
    """Return the frame to send in place of a PARTITIONED_METADATA, as ``rewrite_lookup``.

    Raises:
        MalformedFrame: it is not in canonical form.
    """
    read_message(data, start, end, schema.PARTITIONED_METADATA)
    kept = schema.PARTITIONED_METADATA.keys() - (_ORIGINAL_OF_METADATA if vouches else frozenset())
    return command_frame(PARTITIONED_METADATA, select_fields(data, start, end, kept))
