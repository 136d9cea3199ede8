"""Secrets that a sidecar reads from files: used as they are meant, and refused with the key's name."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.adapters.broker.counters import MetricsCounters
from coordinator.adapters.zookeeper.access import ZooKeeperAccess
from coordinator.app import factories
from coordinator.backlog.rules.views import BacklogView
from coordinator.config import ConfigError
from coordinator.core.topics import RESOURCE_USAGE_TOPIC
from coordinator.reconciliation.engine.counting import BUS
from coordinator.runtime.supervision import TaskSupervisor
from tests.admin_api.backlog_world import BlockedTopics
from tests.config.nowhere import NOWHERE
from tests.gate.server.test_tls import make_certificate
from tests.memory.backlog import MemoryBacklogSource
from tests.memory.surroundings import ManualClock
from tests.reconciliation.shell.test_reconciler import Site


@pytest.mark.parametrize("text", ["quota", "quota:", ":secret"])
def test_credentials_are_a_user_and_a_password(tmp_path: Path, text: str) -> None:
    """Anything else would be another user's, and lock this sidecar out of its own nodes."""
    path = tmp_path / "credentials"
    path.write_text("quota:a:secret\n")
    config = replace(NOWHERE, zookeeper_credentials_file=str(path))
    assert factories.credentials(config) == "quota:a:secret"
    assert factories.credentials(NOWHERE) == ""

    path.write_text(text)
    with pytest.raises(ConfigError, match=r"zookeeper_credentials_file: .* user:password"):
        factories.credentials(config)


def test_the_library_that_sasl_needs_is_named_with_its_installation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From a clone or where the package is installed."""
    config = replace(NOWHERE, zookeeper_sasl=True)
    assert factories.credentials(config) == ""

    monkeypatch.setitem(sys.modules, "puresasl", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[sasl\]' in the repository .*'pulsar-"):
        factories.credentials(config)


def test_files_for_tls_to_zookeeper_are_tried_out(tmp_path: Path) -> None:
    """A file that is no certificate, or fits no key, is refused at the start."""
    own, other = (make_certificate(tmp_path / name, name) for name in ("own", "other"))
    missing, text = tmp_path / "missing.pem", tmp_path / "text.pem"
    text.write_text("no certificate")

    def access(ca: Path, certificate: Path, key: Path) -> ZooKeeperAccess:
        return factories.zookeeper_access(
            replace(
                NOWHERE,
                zookeeper_tls=True,
                zookeeper_tls_ca_file=str(ca),
                zookeeper_tls_certificate_file=str(certificate),
                zookeeper_tls_key_file=str(key),
            )
        )

    for named in (
        (missing, own.certificate, own.key),
        (text, own.certificate, own.key),
        (other.certificate, own.certificate, other.key),
    ):
        with pytest.raises(ConfigError, match=r"^zookeeper_tls_\*_file: .* cannot be used"):
            access(*named)
    usable = access(other.certificate, own.certificate, own.key).tls
    assert usable is not None
    assert len(usable.context().get_ca_certs()) == 1
    assert usable.context().check_hostname
    assert factories.zookeeper_access(NOWHERE).tls is None


async def test_bus_topics_are_compared_in_a_row_of_their_own() -> None:
    """Those that the configuration names, and the one of Pulsar's own resource groups."""
    bus = "non-persistent://ops/bus/usage"
    config = replace(NOWHERE, bus_topics=(bus,), reconcile_seconds=2.0)
    site = Site(topics=(bus, RESOURCE_USAGE_TOPIC, "persistent://ops/bus/other"))
    async with factories.of_broker(MetricsCounters, config, passed_only=True):
        reconciler = factories.reconciler(config, site.read, site.passed_totals, site.clock, None)
    for _ in range(3):
        await reconciler.read()
        site.published += 400
    view = reconciler.view()
    assert (view.on, view.interval_seconds) == (True, 2.0)
    assert {each.namespace: each.messages for each in view.escapes} == {BUS: 800, "ops/bus": 400}


async def test_a_listener_of_backlogs_that_fails_costs_no_other_its_event() -> None:
    """As everywhere where a task calls listeners; the failure is counted, and checks go on."""
    supervisor = TaskSupervisor()
    watch = factories.backlogs(
        NOWHERE, MemoryBacklogSource(), BlockedTopics(), ManualClock(), supervisor
    ).watch
    told: list[tuple[BacklogView, ...]] = []

    def fail(_: tuple[BacklogView, ...]) -> None:
        raise ValueError("mistake")

    watch.watch(fail)
    watch.watch(told.append)
    await watch.check()

    assert told == [()]
    assert supervisor.failures["backlog listeners"].reason == "ValueError: mistake"
