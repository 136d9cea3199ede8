"""Keys and tokens for tests, made anew in every run."""

from __future__ import annotations

import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from admin_api.requests.access import Access
from coordinator.adapters.tokens import TokenKey, TokenVerifier

SECRET = b"a secret of more than 32 bytes, as Pulsar makes"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def der(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    """The public key as ``pulsar tokens create-key-pair`` writes it."""
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


KEYS = (TokenKey.secret(SECRET), TokenKey.public(der(RSA_KEY)), TokenKey.public(der(EC_KEY)))


def token(role: str = "admin", key: Any = SECRET, algorithm: str = "HS256", **claims: Any) -> str:
    """A token for a role."""
    return jwt.encode({"sub": role} | claims, key, algorithm)


def in_seconds(seconds: int) -> int:
    """A time as tokens have it."""
    return int(time.time()) + seconds


def access() -> Access:
    """Admin may do everything, alice is admin of the tenant public, other roles may read."""
    return Access(TokenVerifier(KEYS, "sub"), ("admin",), {"public": ("alice",)})
