"""The seal of a report: a holder of the shared key wrote it, and it was not changed.

The signature tells which sidecar wrote it (signature.py). The seal costs a thirtieth of that and is
checked first, so that a sender without the key causes no signature checks.

A seal is the last field of a report's message (``ResourceUsageInfo.seal``): eight bytes that name the
key, and the HMAC-SHA256 of all bytes before the field. A reader without keys, and Pulsar itself, skips it
as an unknown field. A sealed report cannot be replayed later, since the sequence inside only grows.

To change the key without a gap, add the new one as second everywhere (it opens), then put it first (it
seals), then remove the old one.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256

from coordinator.wire.fields import BadReport

MIN_KEY_BYTES = 16

_NAME_BYTES = 8
_MAC_BYTES = 32
_FIELD = bytes((0xB2, 0x09, _NAME_BYTES + _MAC_BYTES))
"""Tag and length of field 150, as Protocol Buffers write them."""

_SEAL_BYTES = len(_FIELD) + _NAME_BYTES + _MAC_BYTES


class Seal:
    """Seals reports and opens them.

    Args:
        keys: the first one seals, all of them open; none seals nothing and opens everything.
        accept_unsealed: whether reports without a seal are opened too, while keys are introduced.

    Raises:
        ValueError: a key is too short to be a secret.
    """

    def __init__(self, keys: Sequence[bytes] = (), *, accept_unsealed: bool = False) -> None:
        for key in keys:
            if len(key) < MIN_KEY_BYTES:
                raise ValueError(f"a key needs at least {MIN_KEY_BYTES} bytes, found {len(key)}")
        self._keys = {_name_of(key): key for key in keys}
        self._first = keys[0] if keys else None
        self._accept_unsealed = accept_unsealed or not keys

    def close(self, payload: bytes) -> bytes:
        """Return a report with its seal."""
        if self._first is None:
            return payload
        return payload + _FIELD + _name_of(self._first) + _mac(self._first, payload)

    def check(self, payload: bytes) -> None:
        """Check the seal of received bytes.

        Raises:
            BadReport: there is no seal, its key is unknown, or it does not fit.
        """
        if not self._keys:
            return
        report, seal = payload[:-_SEAL_BYTES], payload[-_SEAL_BYTES:]
        if not is_seal(seal):
            if self._accept_unsealed:
                return
            raise BadReport("not sealed: bus_key_files is not set at its sender")
        name, mac = seal[len(_FIELD) : -_MAC_BYTES], seal[-_MAC_BYTES:]
        key = self._keys.get(name)
        if key is None:
            raise BadReport(f"sealed with an unknown key: {name.hex()}")
        if not hmac.compare_digest(_mac(key, report), mac):
            raise BadReport("the seal does not fit: it was changed, or its sender has no key")


def is_seal(field: bytes) -> bool:
    """Return whether this looks like a seal, with any key."""
    return len(field) == _SEAL_BYTES and field.startswith(_FIELD)


def _name_of(key: bytes) -> bytes:
    """Return an id that identifies a key without revealing it."""
    return sha256(b"pulsar-quota bus key " + key).digest()[:_NAME_BYTES]


def _mac(key: bytes, payload: bytes) -> bytes:
    return hmac.digest(key, payload, sha256)
