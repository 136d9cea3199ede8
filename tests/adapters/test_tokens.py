"""A token proves a role only with a valid signature, audience and time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from coordinator.adapters.tokens import BadKey, TokenKey, TokenVerifier
from coordinator.ports import TokenRefused
from tests.admin_api.keys import EC_KEY, KEYS, RSA_KEY, SECRET, der, in_seconds, token

VERIFIER = TokenVerifier(KEYS, "sub")


@pytest.mark.parametrize(
    "good",
    [
        token(),
        token(exp=in_seconds(3600), nbf=in_seconds(-3600)),
        token(aud="pulsar"),
        token(key=RSA_KEY, algorithm="RS256"),
        token(key=EC_KEY, algorithm="ES256"),
        jwt.encode({"sub": ["admin", "other"]}, SECRET, "HS256"),
    ],
)
def test_a_token_stands_for_its_role(good: str) -> None:
    """Secret, RSA and elliptic keys are accepted, and an audience if none is configured."""
    assert VERIFIER.role_of(good) == "admin"


def test_the_role_may_be_in_another_claim() -> None:
    """Pulsar's tokenAuthClaim."""
    verifier = TokenVerifier([TokenKey.secret(SECRET)], "group")

    assert verifier.role_of(token("somebody", group="admin")) == "admin"
    with pytest.raises(TokenRefused, match="no claim group"):
        verifier.role_of(token())


def signed_with_public_key_as_secret() -> str:
    """The classic forgery: HS256 with the text of a public key, which is no secret."""
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in ({"alg": "HS256", "typ": "JWT"}, {"sub": "admin"})
    )
    signature = hmac.new(der(RSA_KEY), head + b"." + body, hashlib.sha256).digest()
    return b".".join([head, body, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


def deep() -> str:
    """A head of more brackets than a reader of JSON may follow."""
    head = base64.urlsafe_b64encode(b"[" * 60_000).rstrip(b"=").decode()
    return f"{head}.e30.c2ln"


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (jwt.encode({"sub": "admin"}, "", "none"), "algorithm is not accepted"),
        (token(exp=in_seconds(-3600)), "has expired"),
        (token(nbf=in_seconds(3600)), "not valid yet"),
        (token(key=b"another secret of more than 32 bytes"), "signature does not fit"),
        (token(algorithm="HS384", key=SECRET + SECRET), "algorithm is not accepted"),
        (
            token(key=ec.generate_private_key(ec.SECP256R1()), algorithm="ES256"),
            "signature does not fit",
        ),
        (signed_with_public_key_as_secret(), "signature does not fit"),
        (token()[:-2], "cannot be read|signature does not fit"),
        ("", "cannot be read"),
        ("a.b.c", "cannot be read"),
        ("x" * 5000, "cannot be read"),
        (deep(), "cannot be read"),
        (token(""), "no claim sub"),
        (jwt.encode({"name": "admin"}, SECRET, "HS256"), "no claim sub"),
        (jwt.encode({"sub": 7}, SECRET, "HS256"), "no claim sub"),
        (jwt.encode({"sub": []}, SECRET, "HS256"), "no claim sub"),
        (jwt.encode({"sub": "admin", "exp": "soon"}, SECRET, "HS256"), "cannot be read"),
    ],
)
def test_a_token_that_proves_nothing_is_refused(bad: str, why: str) -> None:
    """Each with its reason, and none with a part of the token in it."""
    with pytest.raises(TokenRefused, match=why) as refusal:
        VERIFIER.role_of(bad)

    assert not bad or bad[:20] not in str(refusal.value)


def test_keys_can_be_changed() -> None:
    """While both public keys are named, tokens of both are good."""
    new = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    keys = [TokenKey.public(der(key)) for key in (RSA_KEY, new)]
    verifier = TokenVerifier(keys, "sub")

    for key in (RSA_KEY, new):
        assert verifier.role_of(token(key=key, algorithm="RS256")) == "admin"


def test_a_public_key_may_be_pem() -> None:
    """OpenSSL writes it so."""
    pem = EC_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    assert TokenKey.public(pem).algorithm == "ES256"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not a public key"),
        (b"-----BEGIN PUBLIC KEY-----\nrubbish\n-----END PUBLIC KEY-----", "not a public key"),
        (der(ec.generate_private_key(ec.SECP384R1())), "P-256"),
        (der(rsa.generate_private_key(public_exponent=65537, key_size=1024)), "2048 bits"),
    ],
)
def test_a_public_key_that_cannot_be_used_is_refused(content: bytes, why: str) -> None:
    """The sidecar refuses it at the start, with the reason."""
    with pytest.raises(BadKey, match=why):
        TokenKey.public(content)


def test_a_short_secret_is_refused() -> None:
    """It could be guessed."""
    with pytest.raises(BadKey, match="at least 32 bytes"):
        TokenKey.secret(b"secret")


def test_a_key_does_not_show_itself() -> None:
    """A traceback with local variables does not show it either."""
    assert "secret of more" not in repr(TokenKey.secret(SECRET))
