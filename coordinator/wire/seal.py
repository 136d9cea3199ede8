"""The seal of a report: who shares the key wrote it, and nobody changed it.

A seal is the last field of a report's message (``ResourceUsageInfo.seal``): eight bytes that name the
key, and the HMAC-SHA256 of all bytes before the field. A reader without keys, and Pulsar itself, skips it
as a field that it does not know. What is sealed cannot be played again later, since the sequence inside
only grows; who holds the key can speak for any broker, so the key belongs to sidecars only.

Keys are changed without a gap: the new one is added as second everywhere (it opens), then comes first (it
seals), then the old one goes.
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
"""Field 150, of so many bytes, as Protocol Buffers write it."""

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
        """A report with its seal."""
        if self._first is None:
            return payload
        return payload + _FIELD + _name_of(self._first) + _mac(self._first, payload)

    def check(self, payload: bytes) -> None:
        """See that the seal of what arrived is whole.

        Raises:
            BadReport: there is none, its key is unknown, or it does not fit.
        """
        if not self._keys:
            return
        report, seal = payload[:-_SEAL_BYTES], payload[-_SEAL_BYTES:]
        if len(seal) < _SEAL_BYTES or not seal.startswith(_FIELD):
            if self._accept_unsealed:
                return
            raise BadReport("not sealed: bus_key_files is not set at its sender")
        name, mac = seal[len(_FIELD) : -_MAC_BYTES], seal[-_MAC_BYTES:]
        key = self._keys.get(name)
        if key is None:
            raise BadReport(f"sealed with an unknown key: {name.hex()}")
        if not hmac.compare_digest(_mac(key, report), mac):
            raise BadReport("the seal does not fit: it was changed, or its sender has no key")


def _name_of(key: bytes) -> bytes:
    """What tells keys apart without telling anything of them."""
    return sha256(b"pulsar-quota bus key " + key).digest()[:_NAME_BYTES]


def _mac(key: bytes, payload: bytes) -> bytes:
    return hmac.digest(key, payload, sha256)
