"""``pulsar-quota groups`` with parents: options, the tree, and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coordinator.core.model import Dimension
from coordinator.insight.model.trees import TreeGroupView, TreeView
from tests.admin_api.world import World
from tests.cli.conftest import Run

SHOP = ("groups", "create", "shop", "-mp", "1000")
WEB = ("groups", "create", "web", "--parent", "shop", "--weight", "2")
GUARANTEE = ("--msg-publish-guarantee", "600")


def test_a_child_is_created_shown_and_moved_out_again(run: Run) -> None:
    """The place in the tree is a few options; get shows it where there is one."""
    run(*SHOP)
    created = run(*WEB, *GUARANTEE, "--json")
    assert created.exit_code == 0, created.output
    assert (
        json.loads(created.stdout).items()
        >= {
            "parent": "shop",
            "weight": 2,
            "publishGuaranteeInMsgs": 600,
            "dispatchGuaranteeInBytes": 0,
        }.items()
    )
    shown = [line.split() for line in run("groups", "get", "web").stdout.splitlines()]
    assert ["parent", "shop"] in shown
    assert ["guaranteed", "publish", "messages/s", "600"] in shown
    assert "parent" not in run("groups", "get", "shop").stdout

    alone = ("--parent", "", "--weight", "1", "--msg-publish-guarantee", "0", "--json")
    assert json.loads(run("groups", "update", "web", *alone).stdout)["parent"] == ""


def test_what_makes_no_tree_is_refused_with_the_reason(run: Run) -> None:
    """As the API says it."""
    run(*SHOP)

    refused = run(*WEB, "--msg-publish-guarantee", "1001")
    assert refused.exit_code == 2
    assert (
        "publishGuaranteeInMsgs: 1,001 is more than web may have, which is 1,000" in refused.output
    )
    assert run("groups", "get", "web").exit_code == 1


def planted() -> TreeView:
    """A tree of two groups, of which one borrows and wants more than can be known."""
    shop = TreeGroupView("shop", "", 0, 1, 1_000, 0, 1_000, 1_000, None, 980, 0)
    web = TreeGroupView("web", "shop", 1, 2, 1_000, 600, 900, 700, None, 880, 180)
    return TreeView("shop", Dimension.PUBLISH_MESSAGES, (shop, web))


def test_a_tree_is_a_table_of_used_guaranteed_and_borrowed_rates(run: Run, world: World) -> None:
    """Children are indented; --json has the API's answer."""
    assert run("groups", "tree").stdout == "No group has a parent: there are no trees.\n"
    run(*SHOP)
    world.views.planted["shop", Dimension.PUBLISH_MESSAGES] = planted()

    for words in (("groups", "tree"), ("groups", "tree", "shop")):
        rows = run(*words).stdout.splitlines()
        indents = {row.strip().partition(" ")[0]: len(row) - len(row.lstrip()) for row in rows}
        assert indents["web"] == indents["shop"] + 2
        cells = {row.split()[0]: row.split()[1:] for row in rows if row.strip()}
        assert cells["shop"] == ["1,000", "-", "-", "more", "1,000", "980", "-"]
        assert cells["web"] == ["1,000", "600", "2", "more", "900", "880", "180"]
        (found,) = _listed(run(*words, "--json").stdout)
        assert [row["group"] for row in found["groups"]] == ["shop", "web"]
    assert run("groups", "tree", "--dimension", "none").exit_code == 2
    assert "is in no tree" in run("groups", "tree", "orders").output


def _listed(text: str) -> list[dict[str, list[dict[str, object]]]]:
    found = json.loads(text)
    return found if isinstance(found, list) else [found]


TREE = """\
groups:
  web:
    parent: shop
    weight: 2
    publishGuaranteeInMsgs: 600
  shop:
    publishRateInMsgs: 1000
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file to write groups to."""
    return tmp_path / "groups.yaml"


def test_a_file_is_applied_parents_first_and_exported_again(run: Run, file: Path) -> None:
    """The order in the file does not matter."""
    file.write_text(TREE)

    applied = run("groups", "apply", "-f", str(file))
    assert applied.exit_code == 0, applied.output
    assert applied.stdout.splitlines() == [
        "+ create shop: publishRateInMsgs 1000",
        "+ create web: parent shop, weight 2, publishGuaranteeInMsgs 600",
        "2 changed.",
    ]
    exported = run("groups", "export").stdout
    file.write_text(exported)
    assert "publishGuaranteeInMsgs: 600" in exported
    assert run("groups", "apply", "-f", str(file)).stdout == "Nothing to change.\n"


def test_guarantees_are_moved_without_promising_too_much_on_the_way(run: Run, file: Path) -> None:
    """The group that gives up a part of its guarantee comes first."""
    file.write_text(TREE + "  bills: {parent: shop, publishGuaranteeInMsgs: 400}\n")
    run("groups", "apply", "-f", str(file))
    moved = TREE.replace("600", "300")
    file.write_text(
        moved.replace(
            "groups:\n", "groups:\n  bills: {parent: shop, publishGuaranteeInMsgs: 700}\n"
        )
    )

    applied = run("groups", "apply", "-f", str(file))
    assert applied.exit_code == 0, applied.output
    assert [line.split(":")[0] for line in applied.stdout.splitlines()[:2]] == [
        "~ change web",
        "~ change bills",
    ]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (("600", "1001"), "groups.web.publishGuaranteeInMsgs: 1,001 is more than web may have"),
        (("600", "'600'"), "groups.web.publishGuaranteeInMsgs: write a whole number from 0 to"),
        (("weight: 2", "weight: 0"), "groups.web.weight: write a whole number from 1 to 1000"),
        (("parent: shop", "parent: gone"), "groups.web.parent: there is no resource group gone"),
        (("parent: shop", "parent: [a]"), "groups.web.parent: "),
        (
            ("  shop:", "  shop:\n    overshootPolicy: eager"),
            "groups.web.parent: shop cannot share its",
        ),
    ],
)
def test_a_file_with_a_broken_tree_is_refused_before_anything_is_changed(
    run: Run, file: Path, changed: tuple[str, str], told: str
) -> None:
    """The place in the file and the reason."""
    file.write_text(TREE.replace(*changed, 1))

    refused = run("groups", "apply", "-f", str(file))
    assert refused.exit_code == 2
    assert told in " ".join(refused.output.split())
    assert run("groups", "get", "shop").exit_code == 1
