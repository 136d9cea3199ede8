"""JSON Web Tokens as Pulsar issues them: find the role of a token, if it is valid.

The key decides the algorithm, never the token: a secret allows only HS256, an RSA key only RS256, a P-256
key only ES256. So a token that says ``none``, or one that was "signed" with the text of a public key in
place of a secret, is refused before anything is computed. Several public keys are tried one after the
other, so that keys can be changed without a moment in which no token is valid.

No part of a token is logged or repeated in a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

from coordinator.config import Config, ConfigError
from coordinator.ports import TokenRefused

_MIN_SECRET_BYTES = 32
_MIN_RSA_BITS = 2048


class BadKey(ValueError):
    """A key that cannot be used; the text gives the reason."""


@dataclass(frozen=True, slots=True, repr=False)
class TokenKey:
    """A key and the one algorithm that goes with it; has no repr, so that no log can show it."""

    algorithm: str
    material: bytes | RSAPublicKey | EllipticCurvePublicKey

    @classmethod
    def secret(cls, content: bytes) -> Self:
        """Read the secret of ``pulsar tokens create-secret-key``.

        Raises:
            BadKey: the secret is too short to resist guessing.
        """
        if len(content) < _MIN_SECRET_BYTES:
            raise BadKey(f"a secret key has at least {_MIN_SECRET_BYTES} bytes")
        return cls("HS256", content)

    @classmethod
    def public(cls, content: bytes) -> Self:
        """Read the public key of ``pulsar tokens create-key-pair`` (DER), or PEM.

        Raises:
            BadKey: it is not an RSA key of 2,048 bits or more, nor a P-256 key.
        """
        load = load_pem_public_key if content.lstrip().startswith(b"-----") else load_der_public_key
        try:
            key = load(content)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise BadKey("not a public key in DER or PEM") from error
        match key:
            case RSAPublicKey() if key.key_size >= _MIN_RSA_BITS:
                return cls("RS256", key)
            case EllipticCurvePublicKey() if isinstance(key.curve, SECP256R1):
                return cls("ES256", key)
        raise BadKey(f"use an RSA key of {_MIN_RSA_BITS} bits or more, or an elliptic P-256 key")


class TokenVerifier:
    """`coordinator.ports.Verifier` by keys.

    Args:
        keys: at least one key.
        role_claim: the claim that holds the role.
    """

    def __init__(self, keys: Sequence[TokenKey], role_claim: str) -> None:
        self._keys = tuple(keys)
        self._role_claim = role_claim

    def role_of(self, token: str) -> str:
        """Return the role of a valid token.

        Raises:
            TokenRefused: the token is not valid.
        """
        role = self._claims_of(token).get(self._role_claim)
        # Some issuers write a list of roles; Pulsar takes the first.
        if isinstance(role, list) and role:
            role = role[0]
        if not isinstance(role, str) or not role:
            raise TokenRefused(f"The token has no claim {self._role_claim}")
        return role

    def _claims_of(self, token: str) -> dict[str, Any]:
        try:
            algorithm = jwt.get_unverified_header(token).get("alg")
        except (jwt.InvalidTokenError, RecursionError) as error:  # the latter of 10,000 brackets
            raise TokenRefused("The token cannot be read") from error
        keys = [key for key in self._keys if key.algorithm == algorithm]
        if not keys:
            accepted = ", ".join(sorted({key.algorithm for key in self._keys}))
            raise TokenRefused(f"The token's algorithm is not accepted here; use {accepted}")
        for key in keys:
            try:
                # Pulsar checks audience and the subject's type only when told to; so do we.
                options: Any = {"verify_aud": False, "verify_sub": False}
                return jwt.decode(token, key.material, algorithms=[key.algorithm], options=options)
            except jwt.InvalidSignatureError:
                continue
            except jwt.ExpiredSignatureError as error:
                raise TokenRefused("The token has expired") from error
            except jwt.ImmatureSignatureError as error:
                raise TokenRefused("The token is not valid yet") from error
            except jwt.InvalidTokenError as error:
                raise TokenRefused("The token cannot be read") from error
        raise TokenRefused("The token's signature does not fit any key known here")


def verifier_of(config: Config) -> TokenVerifier:
    """Return the verifier with the keys that a configuration names, at least one.

    Raises:
        ConfigError: a key cannot be read or used.
    """
    keys = [
        _key("auth_public_key_files", path, TokenKey.public)
        for path in config.auth_public_key_files
    ]
    if config.auth_secret_key_file:
        keys.append(_key("auth_secret_key_file", config.auth_secret_key_file, TokenKey.secret))
    return TokenVerifier(keys, config.auth_role_claim)


def _key(name: str, path: str, build: Callable[[bytes], TokenKey]) -> TokenKey:
    try:
        return build(Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(f"{name}: {path} cannot be read: {error.strerror}") from error
    except BadKey as error:
        raise ConfigError(f"{name}: {path}: {error}") from error
