"""Answers about definitions are read as what they were written of."""

from __future__ import annotations

from fractions import Fraction

import pytest

from coordinator.core.answer import read, written
from coordinator.core.model import Attachments, Dimension, Rates, ResourceGroup
from coordinator.core.owners import DEFAULT_ROLE
from coordinator.insight.model.definitions import (
    AttachmentsView,
    AuditView,
    Definition,
    DefinitionState,
)
from coordinator.ports import AuditEntry, Origin

GROUP = ResourceGroup(
    "orders",
    Rates(publish_messages=0, publish_bytes=7, dispatch_messages=None),
    law="static",
    overshoot_policy="strict",
    parent="shop",
    guarantees=Rates(publish_bytes=3),
    weight=2,
    on_limit="refuse",
    hold_millis=5,
    allowed_tenants=("bank", "shop"),
    fractions=((Dimension.PUBLISH_MESSAGES, Fraction(1, 2)),),
)


def test_a_definition_reads_as_the_group_that_it_was_written_of() -> None:
    """Fractions, guarantees and settings included; a rate that is not limited is -1."""
    told = written(DefinitionState.of(GROUP))

    assert (told["publishRateInMsgs"], told["dispatchRateInMsgs"]) == (0.5, -1)
    assert (told["publishGuaranteeInBytes"], told["dispatchGuaranteeInBytes"]) == (3, 0)
    assert read(DefinitionState, told).group("orders") == GROUP


def test_each_group_gets_its_own_attachments_by_name() -> None:
    """The default is no role by name, and a group without attachments has none."""
    attachments = Attachments(
        {"shop": "orders"},
        {"t/b": "orders", "t/a": "orders", "t/c": "elsewhere"},
        roles={DEFAULT_ROLE: "orders", "team-*": "orders"},
        clusters={"west": "orders"},
    )
    found = AttachmentsView.by_group(attachments, ["orders", "other"])

    assert found["orders"] == AttachmentsView(
        tenants=("shop",),
        namespaces=("t/a", "t/b"),
        roles=("team-*",),
        default_role=True,
        subscriptions=(),
        remote_clusters=("west",),
    )
    assert found["other"] == AttachmentsView((), (), (), False, (), ())
    definition = Definition.of(GROUP, attachments=found["orders"], children=("web",))
    assert read(Definition, written(definition)) == definition


@pytest.mark.parametrize(
    ("before", "after"), [(None, GROUP), (Rates(1, 2, 3, 4), None), ("gold", "silver")]
)
def test_a_change_reads_as_it_was_written(
    before: ResourceGroup | Rates | str | None, after: ResourceGroup | Rates | str | None
) -> None:
    """Of a definition, of a topic's limits, and of an attachment."""
    view = AuditView.of(
        AuditEntry(3, 7, Origin("alice", "10.1.2.3"), "groups/orders", before, after)
    )

    assert written(view)["actor"] == "alice"
    assert read(AuditView, written(view)) == view
