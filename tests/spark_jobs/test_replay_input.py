"""A story has the definitions in the order in which they replaced each other."""

from __future__ import annotations

import pandas as pd

from spark_jobs.replay_input import story_of


def test_a_definition_holds_after_the_one_that_it_replaces() -> None:
    """A broker whose clock is behind knew the third one a second before the second one was known."""
    row = {
        "resource_group": "g", "monitoring_class": "Publish", "broker": "b", "second": 100,
        "messages": 1, "bytes": 10, "wanted": 1, "topics": 1,
    }  # fmt: skip
    settings = {
        "monitoring_class": "Publish", "publish_bytes": None, "dispatch_messages": None,
        "dispatch_bytes": None, "law": "max-min", "overshoot_policy": "balanced", "weights": "equal",
    }  # fmt: skip
    told = [
        {"resource_group": "g", "configuration_version": version, "known_second": known,
         "publish_messages": limit, **settings}
        for version, known, limit in ((1, 90, 10), (2, 105, 20), (3, 104, 30))
    ]  # fmt: skip
    story = story_of(pd.DataFrame([row]), pd.DataFrame(told))

    assert story is not None
    assert [(since, group.limits.publish_messages) for since, group in story.definitions] == [
        (0, 10), (5, 20), (5, 30),
    ]  # fmt: skip
