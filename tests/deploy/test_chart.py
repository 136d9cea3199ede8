"""The chart, rendered by helm: what sidecars are told, checked as a sidecar checks it."""

from __future__ import annotations

import shutil

import pytest

from deploy import check

pytestmark = pytest.mark.skipif(
    shutil.which("helm") is None, reason="PyPI has helm for Linux on x86-64 alone"
)


def test_where_pods_have_no_ipv4_sidecars_and_brokers_meet_on_ipv6() -> None:
    """Listeners are open to IPv6, and a gate connects to the address that its broker binds."""
    check.without_ipv4()


def test_any_key_of_the_configuration_can_be_set_and_wins() -> None:
    """Maps, too, with gates and without."""
    check.every_key()


def test_all_that_the_chart_renders_is_accepted_by_kubernetes_and_by_sidecars() -> None:
    """Bare and with everything on, with gates and without."""
    check.chart()
