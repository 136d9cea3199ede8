"""The store's JSON documents: canonical, tolerant of additions, strict about everything else."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.allocation.laws import LAWS
from coordinator.core.allocation.splitting import WEIGHTS
from coordinator.core.model import Dimension, ExactRates, Rates, ResourceGroup
from coordinator.core.topics import TopicName
from coordinator.core.transfer.policies import PARTITION_POLICIES, POLICIES
from coordinator.wire.documents import (
    MAX_RATE,
    DocumentError,
    MemberDocument,
    decode_attachment,
    decode_escrow,
    decode_group,
    decode_member,
    decode_topic_limit,
    encode_attachment,
    encode_group,
    encode_member,
    encode_topic_limit,
    is_super_users,
    tenants_own_in,
    validate_name,
)

rates = st.none() | st.integers(0, MAX_RATE)
groups = st.builds(
    ResourceGroup,
    name=st.from_regex(r"\A[A-Za-z0-9_:=-]{1,255}\Z"),
    limits=st.builds(Rates, rates, rates, rates, rates),
    law=st.sampled_from(sorted(LAWS)),
    weights=st.sampled_from(sorted(WEIGHTS)),
    overshoot_policy=st.sampled_from(sorted(POLICIES)),
    partition_policy=st.sampled_from(PARTITION_POLICIES),
    configuration_version=st.integers(0, MAX_RATE),
)


@given(groups)
def test_a_group_reads_back_as_it_was_written(group: ResourceGroup) -> None:
    """Name and version travel beside the document, everything else in it."""
    data = encode_group(group)
    assert decode_group(group.name, data, group.configuration_version) == group


def test_a_group_is_written_in_pulsars_words() -> None:
    """Pulsar's field names, -1 for unlimited, keys sorted."""
    group = ResourceGroup("gold", Rates(publish_messages=7, dispatch_bytes=0))
    assert encode_group(group) == (
        b'{"dispatchRateInBytes":0,"dispatchRateInMsgs":-1,"law":"max-min",'
        b'"overshootPolicy":"balanced","partitionPolicy":"hold",'
        b'"publishRateInBytes":-1,"publishRateInMsgs":7,"schema":1,"weights":"equal"}'
    )


@given(st.integers(1, 2**31 * 1_000))
def test_a_limit_of_messages_may_have_a_fraction(thousandths: int) -> None:
    """To a thousandth, and up to the largest that Pulsar takes."""
    limits = ExactRates.from_mapping({Dimension.PUBLISH_MESSAGES: Fraction(thousandths, 1_000)})
    group = ResourceGroup("gold", limits.whole, fractions=limits.fractions)
    assert decode_group("gold", encode_group(group), 0) == group


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ('"publishRateInMsgs":0.0005', "publishRateInMsgs must be an integer, or above 0"),
        ('"publishRateInMsgs":-0.5', "publishRateInMsgs must be an integer, or above 0"),
        ('"publishRateInMsgs":1e400', "publishRateInMsgs must be an integer, or above 0"),
        ('"publishRateInMsgs":NaN', "publishRateInMsgs must be an integer, or above 0"),
        ('"publishRateInMsgs":1.0', "publishRateInMsgs must be an integer, or above 0"),
        ('"publishRateInBytes":0.5', "publishRateInBytes must be an integer"),
        ('"publishRateInMsgs":0.5,"law":"static"', "a fraction needs law max-min"),
        ('"publishRateInMsgs":0.5,"publishRateInBytes":1', "needs publishRateInBytes -1"),
    ],
)
def test_a_fraction_that_cannot_be_shared_is_refused(fields: str, reason: str) -> None:
    """A stranger's document makes no limit other than it says."""
    with pytest.raises(DocumentError, match=reason):
        decode_group("gold", f'{{"schema":1,{fields}}}'.encode(), 0)


def test_attachments_and_members_read_back() -> None:
    """The group's name; the API's address."""
    assert decode_attachment(encode_attachment("gold")) == "gold"
    for member in (
        MemberDocument("http://one:1"),
        MemberDocument("http://one:1", bytes(range(32)), "host-1"),
    ):
        assert decode_member(encode_member(member, "0.1")) == member


def test_an_attachment_is_a_super_users_unless_it_says_otherwise() -> None:
    """Old releases wrote nothing about it, and read what is written now."""
    assert encode_attachment("gold", "root") == b'{"attachedBy":"root","group":"gold","schema":1}'
    own = encode_attachment("gold", "alice", by_super_user=False)
    assert decode_attachment(own) == "gold"
    assert not is_super_users(own)
    for data in (
        encode_attachment("gold"),
        b'{"schema":1,"group":"gold","superUser":0}',
        b'{"schema":1,"group":"gold","superUser":null}',
        b'{"schema":3,"group":"gold","superUser":false}',
        b"no document",
    ):
        assert is_super_users(data)


def test_a_topics_limit_is_a_super_users_unless_it_says_otherwise() -> None:
    """A value that is no list, or names no limit of the topic, counts for nothing."""
    topic = TopicName("persistent", "shop", "eu", "orders")
    limits = Rates(publish_messages=7, dispatch_bytes=8)
    assert tenants_own_in(encode_topic_limit(topic, limits)) == frozenset()
    own = frozenset({Dimension.DISPATCH_BYTES})
    data = encode_topic_limit(topic, limits, own)
    assert (decode_topic_limit(data), tenants_own_in(data)) == (limits, own)
    for said in (
        '"dispatchRateInBytes"',
        "7",
        '[["dispatchRateInBytes"]]',
        '["publishRateInBytes"]',
    ):
        data = b'{"schema":1,"dispatchRateInBytes":8,"tenantsOwn":' + said.encode() + b"}"
        assert tenants_own_in(data) == frozenset()


@given(
    st.binary()
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["schema", "group", "law", "publishRateInMsgs", "apiAddress"]),
                inner,
            )
        ),
    ).map(lambda document: json.dumps(document).encode())
)
def test_whatever_the_bytes_are_only_document_errors_come_out(data: bytes) -> None:
    """Bytes at random, and JSON at random with our own field names."""
    for decode in (
        lambda: decode_group("gold", data, 0),
        lambda: decode_attachment(data),
        lambda: is_super_users(data),
        lambda: tenants_own_in(data),
        lambda: decode_member(data),
    ):
        with contextlib.suppress(DocumentError):
            decode()


def test_a_newer_schema_is_refused_whole() -> None:
    """Its known fields may mean something else."""
    with pytest.raises(DocumentError, match="schema 3 is newer than 2"):
        decode_group("gold", b'{"schema":3}', 0)
    with pytest.raises(DocumentError, match="schema 2 is newer than 1"):
        decode_attachment(b'{"schema":2,"group":"gold"}')


def test_a_group_with_a_parent_has_a_schema_of_its_own() -> None:
    """A release that knows no trees refuses it by its schema; groups alone are written as before."""
    alone = ResourceGroup("web", Rates(publish_messages=7))
    child = replace(
        alone, parent="shop", weight=3, guarantees=Rates(publish_messages=5, dispatch_bytes=2**62)
    )
    data = encode_group(child)

    assert decode_group("web", data, 0) == child
    assert (
        json.loads(data).items()
        >= {
            "schema": 2,
            "parent": "shop",
            "weight": 3,
            "publishGuaranteeInMsgs": 5,
            "dispatchGuaranteeInBytes": 2**62,
        }.items()
    )
    assert json.loads(encode_group(alone)) == {
        key: value
        for key, value in (json.loads(data) | {"schema": 1}).items()
        if key not in {"parent", "weight"} and "Guarantee" not in key
    }


@pytest.mark.parametrize(
    "field",
    [
        '"parent":""',
        '"parent":"a/b"',
        '"parent":7',
        '"parent":null',
        '"weight":0',
        '"weight":1001',
        '"weight":true',
        '"publishGuaranteeInMsgs":-1',
        '"publishGuaranteeInMsgs":1.5',
        '"dispatchGuaranteeInBytes":9223372036854775808',
        '"onLimit":"drop"',
        '"onLimit":["refuse"]',
        '"onLimit":null',
        '"holdMillis":-1',
        '"holdMillis":600001',
        '"holdMillis":true',
        '"burstSeconds":-1',
        '"burstSeconds":3601',
        '"burstSeconds":0.5',
        '"burstSeconds":1e400',
    ],
)
def test_a_place_in_a_tree_or_a_handling_that_cannot_be_is_refused(field: str) -> None:
    """A stranger's document changes no tree, and makes no gate save up more than the most."""
    with pytest.raises(DocumentError):
        decode_group("web", b'{"schema":2,' + field.encode() + b"}", 0)


def test_a_group_with_credit_has_the_schema_that_older_releases_refuse() -> None:
    """They would certify less than it may pass; one that refuses publishes they read, and hold them."""
    usual = ResourceGroup("web", Rates(publish_messages=7))
    refusing = replace(usual, on_limit="refuse", hold_millis=0)
    saving = replace(usual, burst_seconds=5)

    assert decode_group("web", encode_group(refusing), 0) == refusing
    assert decode_group("web", encode_group(saving), 0) == saving
    said = json.loads(encode_group(refusing))
    assert (said["schema"], said["onLimit"], said["holdMillis"]) == (1, "refuse", 0)
    said = json.loads(encode_group(saving))
    assert (said["schema"], said["burstSeconds"]) == (2, 5)
    assert not {"onLimit", "holdMillis", "burstSeconds"} & json.loads(encode_group(usual)).keys()


def test_the_tenants_that_a_group_allows_are_written_where_there_are_any() -> None:
    """Sorted: equal definitions are equal bytes."""
    closed = ResourceGroup("web", Rates(publish_messages=7))
    opened = replace(closed, allowed_tenants=("bank", "shop"))

    assert decode_group("web", encode_group(opened), 0) == opened
    assert json.loads(encode_group(opened))["allowedTenants"] == ["bank", "shop"]
    assert "allowedTenants" not in json.loads(encode_group(closed))
    assert decode_group("web", b'{"schema":1,"allowedTenants":["shop","bank"]}', 0) == replace(
        opened, limits=Rates()
    )


@pytest.mark.parametrize(
    "names", ["null", "7", '"shop"', '["a/b"]', '["a","a"]', '[["a"]]', "[null]"]
)
def test_a_list_of_tenants_that_cannot_be_is_refused(names: str) -> None:
    """A stranger's document opens no group."""
    with pytest.raises(DocumentError, match="allowedTenants: "):
        decode_group("web", b'{"schema":1,"allowedTenants":' + names.encode() + b"}", 0)


@pytest.mark.parametrize("name", ["a", "A-z_0.9:=", "a" * 255, "...", ".a"])
def test_names_that_can_be_names(name: str) -> None:
    """Pulsar's own pattern."""
    assert validate_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 256, "a/b", "a,b", "a b", "a\n", "ä", "\0"])
def test_names_that_cannot_be_names(name: str) -> None:
    """They fit neither a path of ZooKeeper nor one of the admin REST."""
    with pytest.raises(ValueError, match="is not a name"):
        validate_name(name)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b'{"schema":1}', "an object of bases"),
        (b'{"schema":1,"bases":[],"claimed":[]}', "an object of bases"),
        (b'{"schema":1,"bases":{},"claimed":[]}', "must add up"),
        (b'{"schema":1,"bases":{"b1":[0,0,0,0]},"claimed":[]}', "broker@incarnation"),
        (b'{"schema":1,"bases":{"b1@x":[0,0,0,0]},"claimed":[]}', "broker@incarnation"),
        (b'{"schema":1,"bases":{"a/b@1":[0,0,0,0]},"claimed":[]}', "is not a name"),
        (b'{"schema":1,"bases":{"b1@1":[0,0,0]},"claimed":[]}', "must have 4 numbers"),
        (b'{"schema":1,"bases":{"b1@1":[0,0,0,1.5]},"claimed":[]}', "integers"),
        (b'{"schema":1,"bases":{},"claimed":[7]}', "broker@incarnation"),
        (b'{"schema":2,"bases":{},"claimed":[]}', "newer"),
    ],
)
def test_an_escrow_record_that_cannot_be_is_refused(document: bytes, reason: str) -> None:
    """No sidecar follows a spoilt record."""
    with pytest.raises(DocumentError, match=reason):
        decode_escrow("orders", document, 1, 0)


def test_a_definition_of_the_first_release_is_read_and_written_anew_with_all_that_came_since() -> (
    None
):
    """It says nothing of what is newer, which then has its default; a change keeps what it said."""
    first = b'{"publishRateInMsgs":7,"schema":1,"law":"max-min","overshootPolicy":"eager"}'

    group = decode_group("gold", first, 3)
    changed = replace(group, weights="topics", enforcement="observe")
    again = decode_group("gold", encode_group(changed), 4)

    assert (group.weights, group.enforcement, group.observes) == ("equal", "enforce", "")
    assert again == replace(changed, configuration_version=4)
    assert (again.limits.publish_messages, again.overshoot_policy) == (7, "eager")


@pytest.mark.parametrize("half", ['"\\ud800"', '"\\uDFFF x"'])
def test_half_of_a_surrogate_pair_is_no_text(half: str) -> None:
    """No answer could show it: one such document would keep all of a list from being told."""
    member = f'{{"schema":1,"apiAddress":{half}}}'
    with pytest.raises(DocumentError, match="not JSON"):
        decode_member(member.encode())
    raw = member.encode().decode("unicode_escape").encode(errors="surrogatepass")
    with pytest.raises(DocumentError, match="not JSON"):
        decode_member(raw)


def test_a_text_may_have_letters_of_any_script() -> None:
    """Written as they are, or as a whole surrogate pair."""
    for told in ('"http://\\u00e9:1"', '"http://\\ud83d\\ude00:1"', '"http://é😀:1"'):
        member = decode_member(f'{{"schema":1,"apiAddress":{told}}}'.encode())
        assert member.api_address.startswith("http://")
