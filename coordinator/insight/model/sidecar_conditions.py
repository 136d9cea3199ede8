"""The conditions of a sidecar and of its peers, from the facts of this moment (conditions.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from coordinator.core.lifecycle import Degradation
from coordinator.core.state import CoordinatorState
from coordinator.insight.model.conditions import Condition, ConditionKind

_ZOOKEEPER = (Degradation.ZOOKEEPER_SUSPENDED, Degradation.ZOOKEEPER_LOST)


def sidecar_conditions(
    state: CoordinatorState, lost: Iterable[str], now_ns: int
) -> Iterator[Condition]:
    """Yield the conditions of this sidecar and of its peers, of which these are lost."""
    broker = state.settings.broker
    for degradation in state.degradations.all():
        sentence = f"{broker}: {degradation.value}"
        if degradation in _ZOOKEEPER:
            yield Condition(ConditionKind.ZOOKEEPER_LOST, broker, sentence)
        elif degradation is Degradation.BUS_SILENT:
            yield Condition(ConditionKind.BUS_SILENT, broker, sentence)
    rounds_ns = {peer: state.usage.round_ns(peer) for peer in state.members}
    differing: dict[str, list[str]] = {}
    for found in state.agreement.disagreements(rounds_ns, now_ns):
        differing.setdefault(found.peer, []).append(found.matter.value)
    for peer, matters in differing.items():
        sentence = f"{broker} and {peer} go by other {' and '.join(matters)}"
        yield Condition(ConditionKind.VIEWS_DISAGREE, f"{broker} {peer}", sentence)
    for peer in lost:
        yield Condition(ConditionKind.PEER_LOST, peer, f"{peer} is gone without saying so")
