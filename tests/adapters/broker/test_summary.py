"""The broker's statistics of all its topics, walked one by one."""

from __future__ import annotations

import pytest

from coordinator.adapters.broker.summary import each_topic


def test_summaries_are_walked_topic_by_topic_and_leave_out_what_is_not_stored() -> None:
    """White space and empty levels do no harm."""
    topic = '{"subscriptions": {}, "backlogSize": -1, "storageSize": 2, "bytesInCount": 3}'
    text = f"""{{ "a/b" : {{"0x0_0x1":{{"non-persistent":{{"non-persistent://a/b/n": {topic}}},
        "persistent" :{{ "persistent://a/b/\\u00fc" : {topic} , "persistent://a/b/d":{topic}}} }} }},
        "c/d":{{}} }}"""
    found = list(each_topic(text))
    assert [summary.topic for summary in found] == ["persistent://a/b/ü", "persistent://a/b/d"]
    assert (found[0].size_bytes, found[0].storage_bytes) == (0, 2)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[", "[]", "{", '{"a"', '{"a": 1}', '{"a": {"b": {"c": {"d": 1'),
        pytest.param(f'{{"a": {{"b": {{"c": {{"d": {"[" * 100_000}', id="brackets"),
        pytest.param(
            '{"a": {"b": {"persistent": {"d": {"subscriptions": {}, "backlogSize": 1e999}}}}}',
            id="infinite",
        ),
    ],
)
def test_a_broken_summary_is_told(text: str) -> None:
    """As an error, not as a broker without topics."""
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the text says
        list(each_topic(text))
