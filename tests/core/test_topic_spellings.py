"""Spellings of topic names, and what TopicName of Pulsar 4.0.7, 4.2.4 and 5.0.0-M1 says of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.topics import TopicName

ACCEPTED = {
    "t": "public/default",
    "/t": "public/default",  # as the next two by 4.0 only
    "t/": "public/default",
    "//t//": "public/default",
    " t": "public/default",
    "a b": "public/default",
    ".": "public/default",
    "a/b/c": "a/b",
    "a/b/c ": "a/b",
    "persistent://a/b/c": "a/b",
    "Persistent://a/b/c": "a/b",
    "PERSISTENT://a/b/c": "a/b",
    "non-persistent://a/b/c": "a/b",
    "Non-Persistent://a/b/c": "a/b",
    "NON-PERSISTENT://a/b/c": "a/b",
    "persistent://a/b/c ": "a/b",
    "persistent://a/b/c\t": "a/b",
    "persistent://a/b/c\n": "a/b",
    "persistent://a/b/c\0d": "a/b",
    "persistent://a/b/c%2Fd": "a/b",
    "persistent://a/b/ä": "a/b",
    "persistent://a=:.-_/b=:.-_/c": "a=:.-_/b=:.-_",
    "persistent://./../c": "./..",
    "persistent://../b/c": "../b",
    "persistent://a/b-partition-3/c": "a/b-partition-3",
    "persistent://a/b/c/d": "a/b/c",  # as the next three by 4.0 only
    "persistent://a/b/c/d/e": "a/b/c",
    "persistent://a/b/x://y": "a/b/x:",
    "persistent://a/b/c-partition-1/x": "a/b/c-partition-1",
    "topic://a/b/c": "a/b",  # as the next two by 5.0 only
    "Topic://a/b/c": "a/b",
    "segment://a/b/c/0-8000-1": "a/b",
    "segment://a/b/c/0000-7fff-9223372036854775807": "a/b",
    "segment://a/b/c/0000-7fff-\u0663": "a/b",
}
"""Tenant and namespace of each name that a release accepts; releases that accept one agree about it."""

REFUSED = [
    "", " ", "/", "a/b", "/a/b/c", "a/b/c/", "a//b/c", "a/b//c", "a/b/c/d", " a/b/c", "a/b/ ", "a/b/x://y",
    "x://a/b/c", "://a/b/c", "persistent:/a/b/c", "persistent//a/b/c", "non_persistent://a/b/c",
    " persistent://a/b/c", "persistent:///a/b/c", "persistent://a//b/c", "persistent://a/b//c",
    "persistent://a/b/c/", "persistent://a/b/", "persistent://a/b/ ", "persistent://a/b",
    "persistent://a/b c/d", "persistent://a b/c/d", "persistent://a%2Fb/c/d", "persistent://ä/b/c",
    "persistent://a/ä/c", "persistent://a\t/b/c", "persistent://a/b/\u2003", "segment://a/b/c",
    "segment://a/b/c/", "segment://a/b/c/x", "segment://a/b/c/0000-7fff", "segment://a/b/c/0000-7fff-1-2",
    "segment://a/b/c/7fff-0000-1", "segment://a/b/c/0000-10000-1", "segment://a/b/c/0000-7fff--1",
    "segment://a/b/c/0000-7fff-9223372036854775808", "segment://a/b/c/0000-7fff-99999999999999999999",
    "segment://a/b//0000-ffff-0", "a//c", "persistent://", "persistent://a", "persistent:///b/c",
]  # fmt: skip
"""No release accepts them."""

ODD = [
    "per\u017fistent://a/b/c", "pers\u0131stent://a/b/c", "persistent://a/b/\u00a0", "persistent://a/b/\u0085",
    "segment://a/b/c/+000-7fff-0", "segment://a/b/c/0000-7fff-+1", "segment://a/b/c/d/0000-7fff-0",
    "topic://a/b/c/d",
]  # fmt: skip
"""Pulsar accepts them: letters that Java takes for s and i, blanks that it does not take for such; 5.0
signs in the descriptor of a segment, and scalable topics with a slash in the name."""

PARTITIONS = {
    "c-partition-0": ("c", 0),
    "c-partition-7": ("c", 7),
    "c-partition-2147483647": ("c", 2147483647),
    "c-partition-1-partition-2": ("c-partition-1", 2),
    "c-partition-\uff11": ("c", 1),
    "c-partition-\u0661": ("c", 1),
}
"""Names of partitions: the topic, and the number of the partition."""

NO_PARTITIONS = [
    "c", "c-partition-", "c-partition-00", "c-partition-01", "c-partition-+1", "c-partition--1",
    "c-partition-1x", "c-partition-2147483648", "c-partition-99999999999", "c-partition-\uff10\uff11",
    "c-partition-\U0001d7cf", "c-partition-\u00b2", "-partition-1", "c-partition-x",
]  # fmt: skip
"""They end like one and are topics of their own."""


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_name_that_a_release_accepts_has_the_namespace_that_it_says(name: str) -> None:
    """Otherwise a client would count for another group than its topic's."""
    topic = TopicName.parse(name)

    assert topic is not None
    assert f"{topic.tenant}/{topic.namespace}" == ACCEPTED[name]


@pytest.mark.parametrize("name", REFUSED)
def test_a_name_that_no_release_accepts_is_none(name: str) -> None:
    """The gate refuses what the broker would refuse."""
    assert TopicName.parse(name) is None


@pytest.mark.parametrize("name", ODD)
def test_a_name_that_only_java_takes_for_one_is_none(name: str) -> None:
    """No client has such a topic by mistake, and refusing it misleads none."""
    assert TopicName.parse(name) is None


@pytest.mark.parametrize(
    "spellings",
    [
        ("t", "/t", "t/", "//t//", "public/default/t", "persistent://public/default/t"),
        ("a/b/c", "persistent://a/b/c", "Persistent://a/b/c", "PERSISTENT://a/b/c"),
        ("non-persistent://a/b/c", "Non-Persistent://a/b/c", "NON-PERSISTENT://a/b/c"),
        ("topic://a/b/c", "Topic://a/b/c"),
        (
            "segment://a/b/c/0000-7fff-1",
            "SEGMENT://a/b/c/0-7FFF-01",
            "segment://a/b/c/00000000-00007fff-\u0661",
        ),
    ],
)
def test_all_spellings_of_a_name_are_one_topic(spellings: tuple[str, ...]) -> None:
    """No spelling gets round a limit or an attachment of the topic."""
    assert len({TopicName.parse(spelling) for spelling in spellings}) == 1


@pytest.mark.parametrize("local_name", PARTITIONS)
def test_a_partition_belongs_to_its_topic(local_name: str) -> None:
    """The name is read as getPartitionIndex does, with digits of all scripts of the basic plane."""
    base, index = PARTITIONS[local_name]

    topic = TopicName("persistent", "a", "b", local_name)

    assert topic.split_partition() == (TopicName("persistent", "a", "b", base), index)


@pytest.mark.parametrize("local_name", NO_PARTITIONS)
def test_a_name_that_only_looks_like_a_partition_is_a_topic_of_its_own(local_name: str) -> None:
    """It has its own limit, and does not share in that of the topic that it is named after."""
    topic = TopicName("persistent", "a", "b", local_name)

    assert topic.split_partition() == (topic, 0)


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("t", "persistent://public/default/t"),
        ("a/b/c", "persistent://a/b/c"),
        ("non-persistent://a/b/c", "non-persistent://a/b/c"),
        ("persistent://a/b/c-partition-3", "persistent://a/b/c-partition-3"),
        ("persistent://a/cluster/b/c/d", "persistent://a/cluster/b/c/d"),
    ],
)
def test_a_name_is_written_in_full(name: str, full: str) -> None:
    """With its domain, its tenant and its namespace, and with the number of a partition."""
    assert str(TopicName.parse(name)) == full


@given(st.text())
def test_any_text_is_a_topic_or_not(name: str) -> None:
    """No text makes the parser fail, and a name that is one parses to itself."""
    topic = TopicName.parse(name)

    assert topic is None or TopicName.parse(str(topic)) == topic
