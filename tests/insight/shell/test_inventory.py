"""Attachments and groups here are held against those that Pulsar has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from coordinator.core.model import Attachments, Rates, ResourceGroup
from coordinator.insight.model.conditions import ConditionKind
from coordinator.insight.shell.inventory import TENANTS_PER_LOOK, InventoryWatch
from coordinator.ports import BrokerUnreachable, Catalogue, Refused, Versioned

URL = "http://broker-1:8080"


class Pulsar:
    """Has what a test has put into it, and remembers of which tenants it was asked."""

    def __init__(self, namespaces: Mapping[str, Sequence[str]], groups: Sequence[str] = ()) -> None:
        self.names = dict(namespaces)
        self.group_names = groups
        self.asked: list[str] = []
        self.failure: Exception | None = None

    async def tenants(self) -> Sequence[str]:
        if self.failure is not None:
            raise self.failure
        return list(self.names)

    async def namespaces(self, tenant: str) -> Sequence[str]:
        self.asked.append(tenant)
        return [f"{tenant}/{name}" for name in self.names.get(tenant, ())]

    async def groups(self) -> Sequence[str]:
        return self.group_names


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
