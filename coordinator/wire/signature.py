"""The signature of a report: exactly this process wrote it.

Every sidecar makes an Ed25519 key when it starts and shows the public half in its registration in
ZooKeeper. The private half is in no file and ends with the process, so a stolen one speaks for one
broker, and only until that sidecar restarts. The whole report is signed, with broker, incarnation and
sequence: it cannot be sent again under another name, nor twice.

A signature is the first field of a payload (``ResourceUsageInfo.signature``): the length of the report
that follows and 64 bytes. Pulsar skips it as an unknown field. Bytes after the report are refused, so
that no byte that is read is unsigned.

To sign takes 0.03 ms and to check 0.11 ms for a report of 600 bytes, a little more for a large one: a
hundred brokers with a report a second cost each sidecar about 1 % of a processor.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from coordinator.wire.fields import BadReport

PUBLIC_KEY_BYTES = 32

_DOMAIN = b"pulsar-quota usage report\x00"
"""The prefix of all signed bytes, so that a signature of other data never fits a report."""

_LENGTH_BYTES = 4
_SIGNATURE_BYTES = 64
_FIELD = bytes((0xBA, 0x09, _LENGTH_BYTES + _SIGNATURE_BYTES))
"""Tag and length of field 151, as Protocol Buffers write them."""

_REPORT_AT = len(_FIELD) + _LENGTH_BYTES + _SIGNATURE_BYTES
_KEYS_MAX = 1024


class Signed(NamedTuple):
    """A report as bytes, and its signature; None if it has none."""

    report: bytes
    signature: bytes | None


class Signer:
    """Signs one sidecar's reports with a key of its own."""

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()
        #: The public key that verifies its reports.
        self.public_key = self._key.public_key().public_bytes_raw()

    def sign(self, report: bytes) -> bytes:
        """Return a report with its signature in front."""
        signature = self._key.sign(_DOMAIN + report)
        return _FIELD + len(report).to_bytes(_LENGTH_BYTES) + signature + report


def split_signature(payload: bytes) -> Signed:
    """Split a payload; nothing is verified yet.

    Raises:
        BadReport: the length in the signature does not match the bytes.
    """
    if not payload.startswith(_FIELD):
        return Signed(payload, None)
    signature_at = len(_FIELD) + _LENGTH_BYTES
    length = int.from_bytes(payload[len(_FIELD) : signature_at])
    report = payload[_REPORT_AT:]
    if len(report) != length:
        raise BadReport("signature tells another length than the report has")
    return Signed(report, payload[signature_at:_REPORT_AT])


def is_signed_by(public_key: bytes, signed: Signed) -> bool:
    """Return whether the owner of a key has signed a report."""
    if signed.signature is None or len(public_key) != PUBLIC_KEY_BYTES:
        return False
    try:
        _key(public_key).verify(signed.signature, _DOMAIN + signed.report)
    except (InvalidSignature, ValueError):  # ValueError: 32 bytes that are no key
        return False
    return True


@lru_cache(_KEYS_MAX)
def _key(public_key: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public_key)
