"""Alarms to a URL, in the form in which Prometheus' Alertmanager calls webhooks (version 4).

Every receiver of those accepts these: chat and paging services, and most bridges to others. An alert's
``fingerprint`` is made of its labels alone, so it is the same from every sidecar and after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Self

import httpx

from coordinator.insight.model.outside import Notice
from coordinator.ports import ReceiverUnreachable
from coordinator.runtime.client_tls import machine_trust

_TIMEOUT_S = 10.0
_NEVER = "0001-01-01T00:00:00Z"
"""Alertmanager's value for an alert that has not ended."""


class WebhookReceiver:
    """`coordinator.ports.AlarmReceiver` over HTTP.

    Args:
        url: the URL that notices are posted to.
        cluster: the label ``cluster`` of every alert.
        token: sent as Bearer; empty sends none.
        transport: for tests; None is the network.
    """

    def __init__(
        self,
        url: str,
        *,
        cluster: str,
        token: str = "",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = url
        self._cluster = cluster
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=_TIMEOUT_S,
            verify=machine_trust(url),
            transport=transport,
            trust_env=False,
            follow_redirects=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def tell(self, notices: Sequence[Notice]) -> None:
        """Send notices in one request; raises ReceiverUnreachable."""
        try:
            answer = await self._client.post(self._url, json=self._message(notices))
        except httpx.HTTPError as error:
            raise ReceiverUnreachable(f"{type(error).__name__} {error}".rstrip()) from error
        if not answer.is_success:
            raise ReceiverUnreachable(f"it answers {answer.status_code}")

    def _message(self, notices: Sequence[Notice]) -> dict[str, Any]:
        alerts = [self._alert(notice) for notice in notices]
        common = {"cluster": self._cluster}
        fires = any(notice.ended_ms is None for notice in notices)
        return {
            "version": "4",
            "groupKey": f'{{}}:{{cluster="{self._cluster}"}}',
            "truncatedAlerts": 0,
            "status": "firing" if fires else "resolved",
            "receiver": "pulsar-quota",
            "groupLabels": common,
            "commonLabels": common,
            "commonAnnotations": {},
            "externalURL": "",
            "alerts": alerts,
        }

    def _alert(self, notice: Notice) -> dict[str, Any]:
        sighting = notice.sighting
        labels = {
            "alertname": f"PulsarQuota{sighting.kind.value}",
            "cluster": self._cluster,
            "severity": sighting.kind.severity.value,
            "subject": sighting.subject,
        }
        return {
            "status": "firing" if notice.ended_ms is None else "resolved",
            "labels": labels,
            "annotations": {"summary": sighting.text, "action": sighting.kind.action},
            "startsAt": _stamp(notice.began_ms),
            "endsAt": _NEVER if notice.ended_ms is None else _stamp(notice.ended_ms),
            "generatorURL": "",
            "fingerprint": _fingerprint(labels),
        }


def _stamp(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _fingerprint(labels: Mapping[str, str]) -> str:
    text = "\x1f".join(f"{name}={labels[name]}" for name in sorted(labels))
    return sha256(text.encode()).hexdigest()[:16]
