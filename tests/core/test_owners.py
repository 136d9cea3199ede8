"""The roles that attachments name, and the group of each role."""

from __future__ import annotations

import re

import pytest

from coordinator.core.model import Attachments
from coordinator.core.owners import (
    ALLOWED_TENANTS_MAX,
    ANONYMOUS,
    NAME_SIZE_MAX,
    can_be_attached,
    cluster_owner,
    group_of_role,
    number_attached,
    role_owner,
    subscription_key,
    subscription_owner,
    uses_of,
    validate_tenants,
)
from coordinator.core.topics import TopicName

ROLES = {"alice": "a", "team-*": "t", "team-blue-*": "blue", "": "rest"}


@pytest.mark.parametrize(
    ("role", "group"),
    [
        ("alice", "a"),
        ("alice2", "rest"),
        ("team-red", "t"),
        ("team-", "t"),
        ("team", "rest"),
        ("team-blue-1", "blue"),
        (ANONYMOUS, "rest"),
        ("Alice", "rest"),
        ("alice\x00", "rest"),
        ("team-" + "x" * 10_000, "t"),
        ("*", "rest"),
        ("team-*", "t"),
        ("\ud800", "rest"),
    ],
)
def test_a_role_has_the_group_of_its_name_or_of_the_longest_pattern_or_the_default(
    role: str, group: str
) -> None:
    """Letters count as they are."""
    assert group_of_role(ROLES, role) == group


def test_a_role_without_an_attachment_and_a_default_has_no_group() -> None:
    """So does every role where none is attached."""
    assert group_of_role({"alice": "a"}, "bob") is None
    assert group_of_role({}, "alice") is None


@pytest.mark.parametrize("name", ["*", "**", "***"])
def test_a_pattern_that_matches_every_role_is_refused_by_name(name: str) -> None:
    """The default is for that."""
    with pytest.raises(ValueError, match=r"matches every role; attach the default"):
        role_owner(name)


@pytest.mark.parametrize("name", ["*-a", "a*b", "a**", "*a*"])
def test_a_star_stands_at_the_end_alone(name: str) -> None:
    """So one of two patterns that match is always the longer one."""
    with pytest.raises(ValueError, match=r"at its end, as in team-\*"):
        role_owner(name)


@pytest.mark.parametrize("name", ["*" * 300, "a*" + "b" * 300])
def test_the_refusal_of_a_long_pattern_shows_its_first_80_letters(name: str) -> None:
    """They are enough to find it again."""
    with pytest.raises(ValueError, match=re.escape(f"role {name[:80]!r}: ")):
        role_owner(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a\nb", "printable"),
        ("a\x00", "printable"),
        ("\ud800", "printable"),
        ("\u202eadmin", "printable"),
        ("x" * (NAME_SIZE_MAX + 1), "at most 255 bytes"),
        ("/" * 86, "counts three times"),
        ("x" * 10_240, "at most 255 bytes"),
    ],
)
def test_a_name_that_no_page_could_show_is_refused(name: str, reason: str) -> None:
    """The refusal does not repeat all of it."""
    with pytest.raises(ValueError, match=reason) as refused:
        role_owner(name)
    assert len(str(refused.value)) < 250
    assert not can_be_attached(name)


@pytest.mark.parametrize("name", ["alice", "a b", "spiffe://x/y", "ä@b.c", "x" * NAME_SIZE_MAX])
def test_any_other_name_can_be_attached(name: str) -> None:
    """Mail addresses, SPIFFE ids and common names are among them."""
    assert role_owner(name).subject == f"roles/{name}"
    assert can_be_attached(name)


def test_what_is_attached_to_a_group_is_told_in_words() -> None:
    """Roles stand beside tenants and namespaces."""
    attached = Attachments({"t": "g"}, {"t/n": "g"}, roles={"a": "g", "b": "h", "": "g"})
    assert uses_of(attached, "g") == ("role a", "roles without an attachment", "t", "t/n")
    assert attached.roles_of("g") == ("", "a")


@pytest.mark.parametrize(
    "given", ["persistent/t/n/a/s", "persistent://t/n/a/s", "PERSISTENT://t/n/a/s"]
)
def test_a_subscription_has_one_name(given: str) -> None:
    """However its topic is spelt."""
    assert subscription_owner(given).subject == "subscriptions/persistent/t/n/a/s"


def test_partitions_of_a_topic_are_one_subscription() -> None:
    """So are the segments of a scalable topic; a subscription may have a slash."""
    for topic in ("persistent://t/n/a", "persistent://t/n/a-partition-7"):
        parsed = TopicName.parse(topic)
        assert parsed is not None
        assert subscription_key(parsed, "s/1") == subscription_owner("persistent/t/n/a/s/1").name


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "write persistent/tenant/namespace/topic/subscription"),
        ("persistent/t/n/a", "write persistent/tenant/namespace/topic/subscription"),
        ("persistent/t/n/a/", "write persistent/tenant/namespace/topic/subscription"),
        ("other/t/n/a/s", "write persistent/tenant/namespace/topic/subscription"),
        ("persistent/t/n/a-partition-1/s", "name the topic persistent://t/n/a"),
        ("persistent/t/n/a/s\n", "printable"),
        ("persistent/t/n/a/" + "s" * 255, "at most 255 bytes"),
    ],
)
def test_what_names_no_subscription_is_refused(name: str, reason: str) -> None:
    """With the form that does."""
    with pytest.raises(ValueError, match=reason):
        subscription_owner(name)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a*", "x" * 256, "a\n"])
def test_what_names_no_cluster_is_refused(name: str) -> None:
    """Clusters are named as tenants are."""
    with pytest.raises(ValueError, match="cluster"):
        cluster_owner(name)


def test_attached_owners_are_counted_by_tenant_and_all_together() -> None:
    """A tenant has itself, its namespaces and its subscriptions; roles and clusters have none."""
    attachments = Attachments(
        {"shop": "g", "shopping": "g"},
        {"shop/eu": "g", "shopping/eu": "g", "bank/shop": "g"},
        roles={"shop": "g", "": "g"},
        subscriptions={"persistent/shop/eu/t/s": "g", "persistent/bank/shop/t/s": "g"},
        clusters={"shop": "g"},
    )
    assert number_attached(attachments, "shop") == 3
    assert number_attached(attachments, "bank") == 2
    assert number_attached(attachments, "none") == 0
    assert number_attached(attachments) == 10


def test_a_list_of_tenants_is_sorted() -> None:
    """It may be empty, and as long as the bound."""
    most = [f"t{number:04}" for number in range(ALLOWED_TENANTS_MAX)]

    assert validate_tenants(["shop", "a.b"]) == ("a.b", "shop")
    assert validate_tenants(()) == ()
    assert validate_tenants(most) == tuple(most)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("shop", "must be a list of tenants' names, but is 'shop'"),
        (["shop", "a", "shop"], "shop stands twice; name it once"),
        (["a/b"], "'a/b' names no tenant"),
        ([".."], "'..' names no tenant"),
        ([7], "7 names no tenant"),
        (["t"] * (ALLOWED_TENANTS_MAX + 1), "names 1,001 tenants; at most 1,000 may stand"),
    ],
)
def test_what_is_no_list_of_tenants_is_refused(names: object, reason: str) -> None:
    """The reason names what is wrong with it."""
    with pytest.raises(ValueError, match=re.escape(reason)):
        validate_tenants(names)
