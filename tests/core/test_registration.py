"""A place in the membership is asked for when there can be one, and lost by others' word as well."""

from coordinator.core.model import Member
from coordinator.core.registration import Registration


def ready() -> Registration:
    """ZooKeeper is connected and the own broker answers."""
    registration = Registration("b1")
    registration.connected = registration.answering = True
    return registration


def test_it_is_asked_for_once_a_round_and_only_while_it_can_be_had() -> None:
    """The core does not ask without ZooKeeper, for a silent broker, or twice."""
    registration = Registration("b1")
    assert not registration.ask(1)
    registration.connected = True
    assert not registration.ask(1)
    registration.answering = True
    assert [registration.ask(round_) for round_ in (1, 1, 2)] == [True, False, True]
    registration.joined(7, {})
    assert not registration.ask(3)


def test_after_its_end_it_is_asked_for_at_once() -> None:
    """The core asks even in a round in which it asked before."""
    registration = ready()
    assert registration.ask(1)
    registration.joined(7, {})
    registration.end()

    assert registration.incarnation is None
    assert registration.ask(1)


def test_it_is_over_when_the_membership_showed_it_and_shows_it_no_more() -> None:
    """Before it was shown the membership is only late; another incarnation is another sidecar's."""
    registration = ready()
    registration.joined(7, {})
    assert not registration.look({"b2": Member("b2", 3)})
    assert not registration.look({"b1": Member("b1", 7)})

    assert registration.look({"b1": Member("b1", 8)})
    assert registration.look({})


def test_the_membership_may_show_it_before_the_store_has_answered() -> None:
    """Then it has been seen from the start."""
    registration = ready()
    registration.joined(7, {"b1": Member("b1", 7)})

    assert registration.seen
