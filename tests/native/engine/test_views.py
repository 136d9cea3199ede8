"""The view shows a limit that the broker's own limiter holds."""

from __future__ import annotations

from coordinator.core.model import NANOS_PER_SECOND, Attachments, Dimension, Rates
from coordinator.native.engine.counting import TopicCount
from coordinator.native.engine.dispatch import DispatchSteering
from coordinator.native.engine.rate_policy import NO_RATE, PolicyRate
from coordinator.native.engine.steering import Steering
from coordinator.native.engine.views import NativeState

S = NANOS_PER_SECOND


def state(*, behind_gate: bool = False) -> NativeState:
    """One broker with half of a limit of 3,000/s, at an interval of 2 s."""
    steering = Steering(behind_gate=behind_gate)
    steering.configure("pulsar://a:6650", 2)
    steering.set_members(["a", "b"])
    steering.set_whole({"g": Rates(publish_messages=3_000)})
    steering.set_attachments(Attachments({}, {"t/n": "g"}))
    for name, record in steering.records().items():
        steering.set_record(name, record)
    steering.set_limits("g", Rates(publish_messages=1_500))
    steering.decide(S)
    path = "gate+native" if behind_gate else "native"
    return NativeState(path, steering.own_url, interval_s=2, groups=steering.views())


def test_the_slack_names_the_delay_the_bucket_and_the_record() -> None:
    """Two thirds of 1,500/s at once every 2 s, and of 3,000/s after a write of the record."""
    said = state().slack("g", Dimension.PUBLISH_MESSAGES)
    assert "a change takes up to 2 s, 1,000 messages may pass at once" in said
    assert "and 2,000 after a write of the record." in said


def test_what_the_broker_cannot_hold_is_said() -> None:
    """Groups that nothing is attached to, of either class."""
    assert "no namespace is attached" in state().slack("other", Dimension.DISPATCH_BYTES)
    assert "no namespace is attached" in state().slack("other", Dimension.PUBLISH_BYTES)


def test_the_slack_of_a_dispatch_limit_names_the_topics_that_hold_it() -> None:
    """None of a unit that is not limited."""
    steering = Steering()
    steering.set_attachments(Attachments({}, {"t/n": "g"}))
    steering.set_limits("g", Rates(dispatch_messages=200))
    dispatch = DispatchSteering(steering)
    dispatch.poll([TopicCount("t/n", "persistent://t/n/a", consumers=1)], S, S)
    dispatch.found("persistent://t/n/a", NO_RATE, PolicyRate(200), S)
    dispatch.poll([TopicCount("t/n", "persistent://t/n/a", consumers=1)], S, 2 * S)
    shown = NativeState("native", "u", interval_s=1, groups=steering.views())
    assert shown.groups[0].dispatch == (200, None)
    assert "rates of 1 topic hold it" in shown.slack("g", Dimension.DISPATCH_MESSAGES)
    assert "Not held back" in shown.slack("g", Dimension.DISPATCH_BYTES)


def test_behind_a_gate_nothing_is_the_brokers() -> None:
    """The gate holds the limit before the broker's limiter has to."""
    assert state(behind_gate=True).slack("g", Dimension.PUBLISH_MESSAGES) == ""


def test_the_views_of_some_native_groups_are_those_among_all() -> None:
    """A native group may stand for several groups, and one group may have several of them."""
    steering = Steering()
    steering.set_attachments(Attachments({"t": "all"}, {"t/n": "g", "t/m": "h"}))
    views = {view.name: view for view in steering.views()}
    of_g = steering.names(["g"])

    assert len(views) == len(steering.names()) > len(of_g) == 1
    assert steering.views(of_g) == (views[of_g[0]],)
    assert views[of_g[0]].namespaces == ("t/n",)
    assert set(steering.names(["all"])) >= {*of_g, *steering.names(["h"])}
    assert steering.names(["other"]) == []
