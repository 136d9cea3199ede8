"""Attachments and groups here are held against those that Pulsar has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from coordinator.core.model import Attachments, Rates, ResourceGroup
from coordinator.insight.model.conditions import ConditionKind
from coordinator.insight.shell.foreign_attachments import QUESTIONS_PER_LOOK
from coordinator.insight.shell.inventory import TENANTS_PER_LOOK, TOLD_MAX, InventoryWatch
from coordinator.ports import BrokerUnreachable, Catalogue, Refused, Versioned

URL = "http://broker-1:8080"


class Pulsar:
    """Has what a test has put into it, and remembers of which tenants it was asked."""

    def __init__(self, namespaces: Mapping[str, Sequence[str]], groups: Sequence[str] = ()) -> None:
        self.names = dict(namespaces)
        self.group_names = groups
        self.asked: list[str] = []
        self.failure: Exception | None = None
        self.attached: dict[str, str] = {}
        self.questions = 0

    async def tenants(self) -> Sequence[str]:
        if self.failure is not None:
            raise self.failure
        return list(self.names)

    async def namespaces(self, tenant: str) -> Sequence[str]:
        self.asked.append(tenant)
        return [f"{tenant}/{name}" for name in self.names.get(tenant, ())]

    async def groups(self) -> Sequence[str]:
        return self.group_names

    async def group_of(self, namespace: str) -> str:
        self.questions += 1
        if namespace.count("/") > 1:
            raise ValueError(namespace)
        return self.attached.get(namespace, "")


def catalogue(tenants: Mapping[str, str], namespaces: Mapping[str, str], *groups: str) -> Catalogue:
    """Groups, and what is attached to them."""
    versioned = {name: Versioned(ResourceGroup(name, Rates()), 1) for name in groups}
    return Catalogue(versioned, Attachments(tenants, namespaces))


def told(watch: InventoryWatch, kind: ConditionKind = ConditionKind.ORPHANED) -> list[str]:
    """The subjects of a kind of condition."""
    return [each.subject for each in watch.conditions(0) if each.kind is kind]


async def test_what_is_attached_and_does_not_exist_is_an_orphan() -> None:
    """A tenant, a namespace of a tenant that exists, and one of a tenant that does not."""
    pulsar = Pulsar({"shop": ["orders"], "public": []})
    watch = InventoryWatch(pulsar, 60.0, URL)
    watch.catalogue_changed(
        catalogue(
            {"shop": "g", "gone": "g"},
            {"shop/orders": "g", "shop/old": "g", "gone/one": "h"},
            "g",
            "h",
        )
    )
    assert told(watch) == [], "nothing was asked yet"
    await watch.look()

    assert told(watch) == ["gone", "shop/old", "gone/one"]
    assert [each.sentence for each in watch.conditions(0)][1:] == [
        "the namespace shop/old is attached to g, and Pulsar has none of that name",
        "the namespace gone/one is attached to h, and Pulsar has none of that name",
    ]


async def test_an_orphan_is_told_until_it_is_detached() -> None:
    """Detaching shows at once, since the catalogue is known."""
    pulsar = Pulsar({"shop": []})
    watch = InventoryWatch(pulsar, 60.0, URL)
    watch.catalogue_changed(catalogue({}, {"shop/a": "g", "shop/b": "g"}, "g"))
    await watch.look()
    assert told(watch) == ["shop/a", "shop/b"]

    watch.catalogue_changed(catalogue({}, {"shop/b": "g"}, "g"))
    assert told(watch) == ["shop/b"]


async def test_an_orphan_that_is_made_anew_is_told_until_its_old_attachment_ends() -> None:
    """It is not held in silence to the limit of the one before; attached again, it is meant."""
    pulsar = Pulsar({"shop": []})
    watch = InventoryWatch(pulsar, 60.0, URL)
    before = catalogue({"gone": "g"}, {"shop/b": "g"}, "g")
    watch.catalogue_changed(before)
    await watch.look()
    pulsar.names |= {"shop": ["b"], "gone": []}
    await watch.look()

    assert [each.sentence for each in watch.conditions(0)] == [
        "the tenant gone was deleted and made anew, and is attached to g as before",
        "the namespace shop/b was deleted and made anew, and is attached to g as before",
    ]
    watch.catalogue_changed(catalogue({"gone": "g"}, {}, "g"))
    assert told(watch) == ["gone"]
    watch.catalogue_changed(before)
    await watch.look()
    assert told(watch) == ["gone"]


async def test_a_group_that_only_pulsar_has_is_told() -> None:
    """Those that sidecars write into Pulsar for several groups at once are left out."""
    pulsar = Pulsar({}, ["theirs", "ours", "all-of=a=b"])
    watch = InventoryWatch(pulsar, 60.0, URL, lambda name: name.startswith("all-of="))
    watch.catalogue_changed(catalogue({}, {}, "ours"))
    await watch.look()

    assert told(watch, ConditionKind.ONLY_IN_PULSAR) == ["theirs"]
    (found,) = watch.conditions(0)
    assert found.sentence.endswith(f": pulsar-quota import --from {URL} takes it over")


async def test_a_namespace_that_was_attached_at_a_broker_is_told_until_it_is_known_here() -> None:
    """To a group of that name here, too; a name of an old form is passed over."""
    pulsar = Pulsar({"shop": ["cluster/old", "a", "b", "c"]}, ["gold", "all-of=a"])
    pulsar.attached = {"shop/a": "gold", "shop/b": "all-of=a", "shop/c": "gold"}
    watch = InventoryWatch(pulsar, 60.0, URL, lambda name: name.startswith("all-of="))
    watch.catalogue_changed(catalogue({}, {"shop/c": "gold"}, "gold"))
    await watch.look()

    (found,) = watch.conditions(0)
    assert (found.kind, found.subject) == (ConditionKind.ONLY_IN_PULSAR, "shop/a")
    assert found.sentence == (
        "the namespace shop/a was attached to gold at a broker, so no sidecar limits it: "
        f"pulsar-quota import --from {URL} takes it over"
    )
    watch.catalogue_changed(catalogue({}, {"shop/a": "gold", "shop/c": "gold"}, "gold"))
    assert list(watch.conditions(0)) == []


async def test_a_namespace_that_was_detached_or_deleted_there_is_told_no_more() -> None:
    """After the next round."""
    pulsar = Pulsar({"shop": ["a", "b"]}, ["theirs"])
    pulsar.attached = {"shop/a": "theirs", "shop/b": "theirs"}
    watch = InventoryWatch(pulsar, 60.0, URL)
    watch.catalogue_changed(catalogue({}, {}, "theirs"))
    await watch.look()
    assert told(watch, ConditionKind.ONLY_IN_PULSAR) == ["shop/a", "shop/b"]
    pulsar.names, pulsar.attached = {"shop": ["b"]}, {}
    await watch.look()

    assert told(watch, ConditionKind.ONLY_IN_PULSAR) == []


async def test_namespaces_are_asked_for_in_turns_and_only_while_pulsar_has_groups_of_its_own() -> (
    None
):
    """Each look asks a bounded number of questions, and all namespaces are asked for in the end."""
    names = [f"n{number:03}" for number in range(2 * QUESTIONS_PER_LOOK)]
    pulsar = Pulsar({"shop": names}, ["made-here"])
    pulsar.attached = {f"shop/{name}": "theirs" for name in names}
    watch = InventoryWatch(pulsar, 60.0, URL, lambda name: name == "made-here")
    watch.catalogue_changed(catalogue({}, {}, "theirs"))
    await watch.look()
    assert pulsar.questions == 0
    pulsar.group_names = ["made-here", "theirs"]
    for asked in (QUESTIONS_PER_LOOK - 1, 2 * QUESTIONS_PER_LOOK - 1, 2 * QUESTIONS_PER_LOOK):
        await watch.look()
        assert pulsar.questions == asked
    assert len(told(watch, ConditionKind.ONLY_IN_PULSAR)) == TOLD_MAX

    pulsar.group_names = ["made-here"]
    await watch.look()
    assert told(watch, ConditionKind.ONLY_IN_PULSAR) == []


async def test_many_tenants_take_turns() -> None:
    """Each look asks of a bounded number, and all are asked of in the end."""
    names = [f"t{number:03}" for number in range(2 * TENANTS_PER_LOOK + 1)]
    pulsar = Pulsar({name: [] for name in names})
    watch = InventoryWatch(pulsar, 60.0, URL)
    watch.catalogue_changed(catalogue({}, {f"{name}/n": "g" for name in names}, "g"))
    for asked in (TENANTS_PER_LOOK, 2 * TENANTS_PER_LOOK):
        await watch.look()
        assert len(told(watch)) == len(pulsar.asked) == asked
    await watch.look()

    assert len(told(watch)) == len(names)
    assert len(pulsar.asked) == 3 * TENANTS_PER_LOOK
    assert set(pulsar.asked) == set(names)


@pytest.mark.parametrize("failure", [BrokerUnreachable("no answer"), Refused("401")])
async def test_what_cannot_be_asked_is_not_told(failure: Exception) -> None:
    """It may have been made again meanwhile; the next answer shows."""
    pulsar = Pulsar({}, ["theirs"])
    watch = InventoryWatch(pulsar, 60.0, URL)
    watch.catalogue_changed(catalogue({"gone": "g"}, {"gone/one": "g"}, "g"))
    await watch.look()
    assert len(list(watch.conditions(0))) == 3
    pulsar.failure = failure
    await watch.look()
    assert list(watch.conditions(0)) == []
    pulsar.failure = None
    await watch.look()
    assert len(list(watch.conditions(0))) == 3
