"""Topic names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.topics import TopicName


@pytest.mark.parametrize(
    ("name", "full", "tenant", "namespace"),
    [
        ("t", "persistent://public/default/t", "public", "default"),
        ("a/b/c", "persistent://a/b/c", "a", "b"),
        ("persistent://a/b/c", "persistent://a/b/c", "a", "b"),
        ("non-persistent://a/b/c", "non-persistent://a/b/c", "a", "b"),
        ("persistent://a/b/c-partition-3", "persistent://a/b/c-partition-3", "a", "b"),
        ("persistent://a/cluster/b/c", "persistent://a/cluster/b/c", "a", "cluster/b"),
        ("persistent://a/cluster/b/c/d", "persistent://a/cluster/b/c/d", "a", "cluster/b"),
    ],
)
def test_a_name_is_taken_apart_as_pulsar_does(
    name: str, full: str, tenant: str, namespace: str
) -> None:
    """Short, full, non-persistent and old names all lead to their tenant and namespace."""
    topic = TopicName.parse(name)

    assert topic is not None
    assert (str(topic), topic.tenant, topic.namespace) == (full, tenant, namespace)


@pytest.mark.parametrize(
    "name",
    ["", "/", "a/b", "a/b/c/d", "a//c", "persistent://", "persistent://a", "persistent://a/b",
     "persistent://a/b/", "persistent:///b/c", "segment://a/b/c", "://a/b/c"],
)  # fmt: skip
def test_a_name_of_no_known_form_is_no_topic(name: str) -> None:
    """The gate has no opinion on such a name; the broker will."""
    assert TopicName.parse(name) is None


@given(st.text())
def test_any_text_is_a_topic_or_not(name: str) -> None:
    """No text makes the parser fail, and a name that is one parses to itself."""
    topic = TopicName.parse(name)

    assert topic is None or TopicName.parse(str(topic)) == topic
