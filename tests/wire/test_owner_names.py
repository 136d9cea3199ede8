"""Roles as names of nodes; each has one spelling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.owners import NAME_SIZE_MAX, OwnerKind, role_owner
from coordinator.wire.documents import (
    OWNER_SCHEMA,
    DocumentError,
    decode_attachment,
    encode_attachment,
    validate_name,
)
from coordinator.wire.owner_names import owner_in_subject, owner_node, owner_of

ROLE = OwnerKind.ROLE


@given(st.text(min_size=0, max_size=90))
def test_every_role_that_can_be_attached_comes_back(name: str) -> None:
    """Its node's name is one that a release without roles takes for a namespace's."""
    try:
        owner = role_owner(name)
    except ValueError:
        return
    node = owner_node(owner)
    assert owner_of(ROLE, node) == owner
    assert owner_in_subject(owner.subject) == owner
    assert len(validate_name(node)) <= NAME_SIZE_MAX


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("alice", "alice"),
        ("team-*", "team-=2A"),
        ("", "="),
        ("..", "=2E."),
        ("a=b/ä", "a=3Db=2F=C3=A4"),
    ],
)
def test_letters_that_no_namespace_has_are_written_as_their_bytes(name: str, node: str) -> None:
    """So are "=", and the first of dots alone; the default is a lone "="."""
    assert owner_node(role_owner(name)) == node


@pytest.mark.parametrize(
    "node",
    ["a=", "=61", "a=2a", "=2A", "=FF", "=ED=A0=80", "a=2A=2A", "=00", "a/b", "a=3", "==", ""],
)
def test_any_other_spelling_is_refused(node: str) -> None:
    """A user of a ZooKeeper shell may have written it."""
    with pytest.raises(DocumentError):
        owner_of(ROLE, node)


def test_a_release_without_roles_refuses_the_attachment_of_one() -> None:
    """It names the schema; this release reads it."""
    data = encode_attachment("gold", schema=OWNER_SCHEMA)
    with pytest.raises(DocumentError, match="schema 2 is newer than 1"):
        decode_attachment(data)
    assert decode_attachment(data, OWNER_SCHEMA) == "gold"
    assert decode_attachment(encode_attachment("gold"), OWNER_SCHEMA) == "gold"


def test_a_subject_of_a_role_that_cannot_be_attached_is_no_subject() -> None:
    """Other subjects are not judged here."""
    with pytest.raises(DocumentError, match="matches every role"):
        owner_in_subject("roles/*")
    assert owner_in_subject("tenants/*") is None
