"""The error that a client takes for final: its send fails, it does not repeat it, its connection stays.

Clients answer most errors to a SEND by connecting again and repeating all that has no receipt. One error
of each family is different (ClientCnx.handleSendError and ProducerImpl.recoverNotAllowedError of Java,
ClientConnection::handleSendError and ProducerImpl::removeCorruptMessage of C++):

============================  ================  =========================================================
client                        final error       the others
============================  ================  =========================================================
Java from 3.0                 NotAllowedError   ChecksumError: it repeats at once; TopicTerminatedError:
                                                the producer ends; any other: it connects again
C++ and Python from 3.2       ChecksumError     any other: it connects again
Go                            none              NotAllowedError: the producer ends, and its sends hang
============================  ================  =========================================================

Both compare the answer with the first SEND that they wait for, and take an answer to a later one for a
fault. So an error may go out only after the answers to all earlier SENDs of the producer.

A client tells its family and release in CONNECT. Those that tell a bare number, as Java did before 3.0,
cannot be told from old C++ ones; to these, and to unknown ones, nothing is refused.
"""

from __future__ import annotations

from typing import Final

from coordinator.gate.protocol.own_frames import CHECKSUM, NOT_ALLOWED

_FINAL_ERRORS: Final = {b"Pulsar-Java-v": NOT_ALLOWED, b"Pulsar-CPP-v": CHECKSUM}


def final_error_of(client_version: object) -> int | None:
    """Return the ServerError that a client of this version takes for final; None is none."""
    if isinstance(client_version, bytes):
        for prefix, error in _FINAL_ERRORS.items():
            if client_version.startswith(prefix):
                return error
    return None
