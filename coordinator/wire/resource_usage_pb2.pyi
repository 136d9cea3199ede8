from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ResourceUsageInfo(_message.Message):
    __slots__ = ("broker", "usageMap", "incarnation", "sequence", "elapsedNanos", "complete", "learning", "leaving", "asks", "escrow", "publish", "dispatch", "since", "sentMillis", "waiting", "answeredIncarnations", "answeredSequences", "definitionsDigest", "membersDigest", "usageDigest", "busSilent", "signature")
    BROKER_FIELD_NUMBER: _ClassVar[int]
    USAGEMAP_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ELAPSEDNANOS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    ASKS_FIELD_NUMBER: _ClassVar[int]
    ESCROW_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    SENTMILLIS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    ANSWEREDINCARNATIONS_FIELD_NUMBER: _ClassVar[int]
    ANSWEREDSEQUENCES_FIELD_NUMBER: _ClassVar[int]
    DEFINITIONSDIGEST_FIELD_NUMBER: _ClassVar[int]
    MEMBERSDIGEST_FIELD_NUMBER: _ClassVar[int]
    USAGEDIGEST_FIELD_NUMBER: _ClassVar[int]
    BUSSILENT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    broker: str
    usageMap: _containers.RepeatedCompositeFieldContainer[ResourceUsage]
    incarnation: int
    sequence: int
    elapsedNanos: int
    complete: bool
    learning: bool
    leaving: bool
    asks: _containers.RepeatedScalarFieldContainer[str]
    escrow: _containers.RepeatedCompositeFieldContainer[EscrowStatement]
    publish: UsageColumns
    dispatch: UsageColumns
    since: int
    sentMillis: int
    waiting: bool
    answeredIncarnations: _containers.RepeatedScalarFieldContainer[int]
    answeredSequences: _containers.RepeatedScalarFieldContainer[int]
    definitionsDigest: int
    membersDigest: int
    usageDigest: int
    busSilent: bool
    signature: bytes
    def __init__(self, broker: _Optional[str] = ..., usageMap: _Optional[_Iterable[_Union[ResourceUsage, _Mapping]]] = ..., incarnation: _Optional[int] = ..., sequence: _Optional[int] = ..., elapsedNanos: _Optional[int] = ..., complete: _Optional[bool] = ..., learning: _Optional[bool] = ..., leaving: _Optional[bool] = ..., asks: _Optional[_Iterable[str]] = ..., escrow: _Optional[_Iterable[_Union[EscrowStatement, _Mapping]]] = ..., publish: _Optional[_Union[UsageColumns, _Mapping]] = ..., dispatch: _Optional[_Union[UsageColumns, _Mapping]] = ..., since: _Optional[int] = ..., sentMillis: _Optional[int] = ..., waiting: _Optional[bool] = ..., answeredIncarnations: _Optional[_Iterable[int]] = ..., answeredSequences: _Optional[_Iterable[int]] = ..., definitionsDigest: _Optional[int] = ..., membersDigest: _Optional[int] = ..., usageDigest: _Optional[int] = ..., busSilent: _Optional[bool] = ..., signature: _Optional[bytes] = ...) -> None: ...

class ReportHead(_message.Message):
    __slots__ = ("broker", "incarnation", "sequence", "sentMillis")
    BROKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SENTMILLIS_FIELD_NUMBER: _ClassVar[int]
    broker: str
    incarnation: int
    sequence: int
    sentMillis: int
    def __init__(self, broker: _Optional[str] = ..., incarnation: _Optional[int] = ..., sequence: _Optional[int] = ..., sentMillis: _Optional[int] = ...) -> None: ...

class EscrowStatement(_message.Message):
    __slots__ = ("group", "generation", "version", "holding", "grants", "closures")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HOLDING_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    CLOSURES_FIELD_NUMBER: _ClassVar[int]
    group: str
    generation: int
    version: int
    holding: _containers.RepeatedScalarFieldContainer[int]
    grants: _containers.RepeatedCompositeFieldContainer[Grant]
    closures: _containers.RepeatedCompositeFieldContainer[Closure]
    def __init__(self, group: _Optional[str] = ..., generation: _Optional[int] = ..., version: _Optional[int] = ..., holding: _Optional[_Iterable[int]] = ..., grants: _Optional[_Iterable[_Union[Grant, _Mapping]]] = ..., closures: _Optional[_Iterable[_Union[Closure, _Mapping]]] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("broker", "incarnation", "issued")
    BROKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ISSUED_FIELD_NUMBER: _ClassVar[int]
    broker: str
    incarnation: int
    issued: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, broker: _Optional[str] = ..., incarnation: _Optional[int] = ..., issued: _Optional[_Iterable[int]] = ...) -> None: ...

class Closure(_message.Message):
    __slots__ = ("broker", "incarnation", "received", "issued")
    BROKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    ISSUED_FIELD_NUMBER: _ClassVar[int]
    broker: str
    incarnation: int
    received: _containers.RepeatedScalarFieldContainer[int]
    issued: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, broker: _Optional[str] = ..., incarnation: _Optional[int] = ..., received: _Optional[_Iterable[int]] = ..., issued: _Optional[_Iterable[int]] = ...) -> None: ...

class ResourceUsage(_message.Message):
    __slots__ = ("owner", "publish", "dispatch", "storage", "configurationVersion")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    DISPATCH_FIELD_NUMBER: _ClassVar[int]
    STORAGE_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATIONVERSION_FIELD_NUMBER: _ClassVar[int]
    owner: str
    publish: NetworkUsage
    dispatch: NetworkUsage
    storage: StorageUsage
    configurationVersion: int
    def __init__(self, owner: _Optional[str] = ..., publish: _Optional[_Union[NetworkUsage, _Mapping]] = ..., dispatch: _Optional[_Union[NetworkUsage, _Mapping]] = ..., storage: _Optional[_Union[StorageUsage, _Mapping]] = ..., configurationVersion: _Optional[int] = ...) -> None: ...

class NetworkUsage(_message.Message):
    __slots__ = ("bytesPerPeriod", "messagesPerPeriod", "bytesLimit", "messagesLimit", "bytesThrottledPermille", "messagesThrottledPermille", "participants", "topics", "bytesDemand", "messagesDemand", "messageSize", "bytesCeiling", "messagesCeiling")
    BYTESPERPERIOD_FIELD_NUMBER: _ClassVar[int]
    MESSAGESPERPERIOD_FIELD_NUMBER: _ClassVar[int]
    BYTESLIMIT_FIELD_NUMBER: _ClassVar[int]
    MESSAGESLIMIT_FIELD_NUMBER: _ClassVar[int]
    BYTESTHROTTLEDPERMILLE_FIELD_NUMBER: _ClassVar[int]
    MESSAGESTHROTTLEDPERMILLE_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    BYTESDEMAND_FIELD_NUMBER: _ClassVar[int]
    MESSAGESDEMAND_FIELD_NUMBER: _ClassVar[int]
    MESSAGESIZE_FIELD_NUMBER: _ClassVar[int]
    BYTESCEILING_FIELD_NUMBER: _ClassVar[int]
    MESSAGESCEILING_FIELD_NUMBER: _ClassVar[int]
    bytesPerPeriod: int
    messagesPerPeriod: int
    bytesLimit: int
    messagesLimit: int
    bytesThrottledPermille: int
    messagesThrottledPermille: int
    participants: int
    topics: int
    bytesDemand: int
    messagesDemand: int
    messageSize: int
    bytesCeiling: int
    messagesCeiling: int
    def __init__(self, bytesPerPeriod: _Optional[int] = ..., messagesPerPeriod: _Optional[int] = ..., bytesLimit: _Optional[int] = ..., messagesLimit: _Optional[int] = ..., bytesThrottledPermille: _Optional[int] = ..., messagesThrottledPermille: _Optional[int] = ..., participants: _Optional[int] = ..., topics: _Optional[int] = ..., bytesDemand: _Optional[int] = ..., messagesDemand: _Optional[int] = ..., messageSize: _Optional[int] = ..., bytesCeiling: _Optional[int] = ..., messagesCeiling: _Optional[int] = ...) -> None: ...

class UsageColumns(_message.Message):
    __slots__ = ("definitions", "messagesPerPeriod", "bytesPerPeriod", "messagesThrottledPermille", "bytesThrottledPermille", "messagesDemandPlusOne", "bytesDemandPlusOne", "messagesLimitPlusOne", "bytesLimitPlusOne", "participants", "topics", "messageSize", "messagesCeilingPlusOne", "bytesCeilingPlusOne")
    DEFINITIONS_FIELD_NUMBER: _ClassVar[int]
    MESSAGESPERPERIOD_FIELD_NUMBER: _ClassVar[int]
    BYTESPERPERIOD_FIELD_NUMBER: _ClassVar[int]
    MESSAGESTHROTTLEDPERMILLE_FIELD_NUMBER: _ClassVar[int]
    BYTESTHROTTLEDPERMILLE_FIELD_NUMBER: _ClassVar[int]
    MESSAGESDEMANDPLUSONE_FIELD_NUMBER: _ClassVar[int]
    BYTESDEMANDPLUSONE_FIELD_NUMBER: _ClassVar[int]
    MESSAGESLIMITPLUSONE_FIELD_NUMBER: _ClassVar[int]
    BYTESLIMITPLUSONE_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANTS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    MESSAGESIZE_FIELD_NUMBER: _ClassVar[int]
    MESSAGESCEILINGPLUSONE_FIELD_NUMBER: _ClassVar[int]
    BYTESCEILINGPLUSONE_FIELD_NUMBER: _ClassVar[int]
    definitions: _containers.RepeatedScalarFieldContainer[int]
    messagesPerPeriod: _containers.RepeatedScalarFieldContainer[int]
    bytesPerPeriod: _containers.RepeatedScalarFieldContainer[int]
    messagesThrottledPermille: _containers.RepeatedScalarFieldContainer[int]
    bytesThrottledPermille: _containers.RepeatedScalarFieldContainer[int]
    messagesDemandPlusOne: _containers.RepeatedScalarFieldContainer[int]
    bytesDemandPlusOne: _containers.RepeatedScalarFieldContainer[int]
    messagesLimitPlusOne: _containers.RepeatedScalarFieldContainer[int]
    bytesLimitPlusOne: _containers.RepeatedScalarFieldContainer[int]
    participants: _containers.RepeatedScalarFieldContainer[int]
    topics: _containers.RepeatedScalarFieldContainer[int]
    messageSize: _containers.RepeatedScalarFieldContainer[int]
    messagesCeilingPlusOne: _containers.RepeatedScalarFieldContainer[int]
    bytesCeilingPlusOne: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, definitions: _Optional[_Iterable[int]] = ..., messagesPerPeriod: _Optional[_Iterable[int]] = ..., bytesPerPeriod: _Optional[_Iterable[int]] = ..., messagesThrottledPermille: _Optional[_Iterable[int]] = ..., bytesThrottledPermille: _Optional[_Iterable[int]] = ..., messagesDemandPlusOne: _Optional[_Iterable[int]] = ..., bytesDemandPlusOne: _Optional[_Iterable[int]] = ..., messagesLimitPlusOne: _Optional[_Iterable[int]] = ..., bytesLimitPlusOne: _Optional[_Iterable[int]] = ..., participants: _Optional[_Iterable[int]] = ..., topics: _Optional[_Iterable[int]] = ..., messageSize: _Optional[_Iterable[int]] = ..., messagesCeilingPlusOne: _Optional[_Iterable[int]] = ..., bytesCeilingPlusOne: _Optional[_Iterable[int]] = ...) -> None: ...

class StorageUsage(_message.Message):
    __slots__ = ("totalBytes",)
    TOTALBYTES_FIELD_NUMBER: _ClassVar[int]
    totalBytes: int
    def __init__(self, totalBytes: _Optional[int] = ...) -> None: ...
