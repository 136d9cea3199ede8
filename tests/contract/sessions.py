"""Sessions of ZooKeeper with more patience than a sidecar has.

A machine that stands still for some seconds must not end the session of a test, or a request of it, that
is about something else.
"""

from __future__ import annotations

from coordinator.adapters.zookeeper.access import ZooKeeperAccess
from coordinator.adapters.zookeeper.session import (
    DEFAULT_ROOT,
    NO_ACCESS_CONTROL,
    ZooKeeperSession,
)

PATIENT_S = 30.0
"""For a session and for a request; as long as the test cluster grants it."""


def patient(
    hosts: str, root: str = DEFAULT_ROOT, access: ZooKeeperAccess = NO_ACCESS_CONTROL
) -> ZooKeeperSession:
    """A session that is not started yet."""
    return ZooKeeperSession(
        hosts,
        root=root,
        session_timeout_s=PATIENT_S,
        request_timeout_s=PATIENT_S,
        access=access,
    )
