"""The command line: ``python -m tests.clients``: every client, every scene, a table.

Starts a cluster with transactions and a sidecar beside each broker, unless told to use a running cluster.
Exit code 0 if everything that a client can do was done, 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from deploy.local.cluster import Cluster
from deploy.local.layout import ClusterOptions
from deploy.local.sidecars import Sidecars
from tests.clients.harness import NamespaceMaker, Outcome, try_client
from tests.clients.releases import Unavailable, all_releases

_SETTINGS = {
    "transactionCoordinatorEnabled": "true",
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "metadataStoreSessionTimeoutMillis": "30000",
}


def main() -> int:
    """Read the command line and try the clients."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description=__doc__)
    parser.add_argument("--only", default="", help="clients whose names begin so, such as `java 4`")
    parser.add_argument("--scenes", nargs="*", default=[], help="these scenes, and no others")
    parser.add_argument("--idle", action="store_true", help="a minute without traffic as well")
    parser.add_argument("--pulsar", default="4.2.4", help="release of the brokers")
    parser.add_argument("--cluster", type=Path, help="state directory of a running cluster")
    parser.add_argument(
        "--direct", action="store_true", help="straight to the brokers: no sidecars"
    )
    options = parser.parse_args()
    wanted = [each for each in all_releases() if each.name.startswith(options.only)]
    scenes = [*options.scenes, *(["idle"] if options.idle and options.scenes else [])]
    failures = 0
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clients-")))
        if options.cluster:
            cluster = Cluster(options.cluster)
        else:
            settings = ClusterOptions(
                state_dir=directory / "cluster", pulsar=options.pulsar, broker_settings=_SETTINGS
            )
            cluster = stack.enter_context(Cluster.start(settings))
        url = f"pulsar://127.0.0.1:{cluster.brokers[0].broker_port}"
        if not options.direct:
            sidecars = stack.enter_context(Sidecars(cluster, directory))
            sidecars.start()
            url = sidecars.service_url
        namespaces = NamespaceMaker(cluster)
        for release in wanted:
            if not cluster.state.pulsar_version.startswith(release.brokers):
                _say(f"| {release.name} | not tried: it needs brokers of {release.brokers} |")
                continue
            try:
                launch = release.launch()
            except Unavailable as reason:
                _say(f"| {release.name} | not tried: {reason} |")
                continue
            outcomes = try_client(
                launch, url, namespaces, directory / f"{release.name}.log", scenes
            )
            if options.idle and not options.scenes:
                log = directory / f"{release.name}-idle.log"
                outcomes += try_client(launch, url, namespaces, log, ["idle"])
            failures += _report(release.name, outcomes)
    return 1 if failures else 0


def _report(name: str, outcomes: Sequence[Outcome]) -> int:
    failed = [each for each in outcomes if each.failed]
    done = sum(each.outcome == "done" for each in outcomes)
    absent = [each.scene for each in outcomes if each.outcome == "not in this release"]
    more = f"; not in this release: {', '.join(absent)}" if absent else ""
    _say(f"| {name} | {done} done, {len(failed)} failed{more} |")
    for each in failed:
        _say(f"    {each.scene}: {each.why}")
    return len(failed)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
