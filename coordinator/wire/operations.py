"""The JSON document of an operation in the store: the change and its progress.

Its number belongs to the node; so does its time while it is open. An ended operation carries the time in
the document, since it is in another node then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coordinator.core.model import Dimension
from coordinator.insight.model.operations import Holdings, Operation, OperationStage
from coordinator.insight.model.outside import RecordedOperation
from coordinator.wire.documents import DocumentError, decode_fields, encode_fields, text_of

_TEXTS = ("group", "subject", "text", "actor", "taker")


def encode_operation(recorded: RecordedOperation) -> bytes:
    """Encode an operation."""
    operation = recorded.operation
    return encode_fields(
        {
            **{key: getattr(operation, key) for key in _TEXTS},
            "version": operation.version,
            "stage": operation.stage.value,
            "settleNanos": operation.settle_ns,
            "residualPermille": operation.residual_permille,
            "before": _encode_holdings(operation.before),
            "moved": _encode_holdings(operation.moved),
            "atMillis": recorded.at_ms,
        }
        | ({"tenant": operation.tenant} if operation.tenant else {})
    )


def decode_operation(operation_id: int, at_ms: int | None, data: bytes) -> RecordedOperation:
    """Read an operation; without a time of its node, use the document's.

    Raises:
        DocumentError: the document is broken, or newer than this code.
    """
    fields = decode_fields(data)
    stages = {stage.value: stage for stage in OperationStage}
    stage = fields.get("stage")
    if not isinstance(stage, str) or stage not in stages:
        raise DocumentError(f"stage must be one of {', '.join(stages)}, found {stage!r:.80}")
    operation = Operation(
        id=operation_id,
        **{key: text_of(fields, key) for key in _TEXTS},
        version=_number(fields, "version") or 0,
        stage=stages[stage],
        settle_ns=_number(fields, "settleNanos"),
        residual_permille=_number(fields, "residualPermille"),
        before=_decode_holdings(fields, "before"),
        moved=_decode_holdings(fields, "moved"),
        tenant=text_of(fields, "tenant") if "tenant" in fields else "",
    )
    found_ms = _number(fields, "atMillis") if at_ms is None else at_ms
    return RecordedOperation(operation, found_ms or 0)


def _encode_holdings(holdings: Holdings) -> Mapping[str, Any]:
    return {dimension.value: dict(brokers) for dimension, brokers in holdings.items()}


def _decode_holdings(fields: dict[str, Any], key: str) -> Holdings:
    found = fields.get(key)
    if not isinstance(found, dict):
        raise DocumentError(f"{key} must be an object, found {found!r:.80}")
    known = {dimension.value: dimension for dimension in Dimension}
    holdings: dict[Dimension, dict[str, int]] = {}
    for name, brokers in found.items():
        if name not in known or not isinstance(brokers, dict):
            raise DocumentError(f"{key}.{name:.80} is not a dimension with brokers")
        holdings[known[name]] = {broker: _whole(key, value) for broker, value in brokers.items()}
    return holdings


def _whole(key: str, value: Any) -> int:
    if type(value) is not int:
        raise DocumentError(f"{key} must hold whole numbers, found {value!r:.80}")
    return value


def _number(fields: dict[str, Any], key: str) -> int | None:
    value = fields.get(key)
    return None if value is None else _whole(key, value)
