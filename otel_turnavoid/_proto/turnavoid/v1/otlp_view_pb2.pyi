from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TracesView(_message.Message):
    __slots__ = ("resource_spans",)
    RESOURCE_SPANS_FIELD_NUMBER: _ClassVar[int]
    resource_spans: _containers.RepeatedCompositeFieldContainer[ResourceSpansView]
    def __init__(self, resource_spans: _Optional[_Iterable[_Union[ResourceSpansView, _Mapping]]] = ...) -> None: ...

class ResourceSpansView(_message.Message):
    __slots__ = ("resource", "scope_spans")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_SPANS_FIELD_NUMBER: _ClassVar[int]
    resource: _containers.RepeatedScalarFieldContainer[bytes]
    scope_spans: _containers.RepeatedCompositeFieldContainer[ScopeSpansView]
    def __init__(self, resource: _Optional[_Iterable[bytes]] = ..., scope_spans: _Optional[_Iterable[_Union[ScopeSpansView, _Mapping]]] = ...) -> None: ...

class ScopeSpansView(_message.Message):
    __slots__ = ("scope", "spans")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    SPANS_FIELD_NUMBER: _ClassVar[int]
    scope: _containers.RepeatedScalarFieldContainer[bytes]
    spans: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, scope: _Optional[_Iterable[bytes]] = ..., spans: _Optional[_Iterable[bytes]] = ...) -> None: ...

class LogsView(_message.Message):
    __slots__ = ("resource_logs",)
    RESOURCE_LOGS_FIELD_NUMBER: _ClassVar[int]
    resource_logs: _containers.RepeatedCompositeFieldContainer[ResourceLogsView]
    def __init__(self, resource_logs: _Optional[_Iterable[_Union[ResourceLogsView, _Mapping]]] = ...) -> None: ...

class ResourceLogsView(_message.Message):
    __slots__ = ("resource", "scope_logs")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_LOGS_FIELD_NUMBER: _ClassVar[int]
    resource: _containers.RepeatedScalarFieldContainer[bytes]
    scope_logs: _containers.RepeatedCompositeFieldContainer[ScopeLogsView]
    def __init__(self, resource: _Optional[_Iterable[bytes]] = ..., scope_logs: _Optional[_Iterable[_Union[ScopeLogsView, _Mapping]]] = ...) -> None: ...

class ScopeLogsView(_message.Message):
    __slots__ = ("scope", "log_records")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    LOG_RECORDS_FIELD_NUMBER: _ClassVar[int]
    scope: _containers.RepeatedScalarFieldContainer[bytes]
    log_records: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, scope: _Optional[_Iterable[bytes]] = ..., log_records: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ResourceView(_message.Message):
    __slots__ = ("attributes", "dropped_attributes_count")
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_ATTRIBUTES_COUNT_FIELD_NUMBER: _ClassVar[int]
    attributes: _containers.RepeatedScalarFieldContainer[bytes]
    dropped_attributes_count: int
    def __init__(self, attributes: _Optional[_Iterable[bytes]] = ..., dropped_attributes_count: _Optional[int] = ...) -> None: ...

class ScopeView(_message.Message):
    __slots__ = ("name", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class SpanView(_message.Message):
    __slots__ = ("trace_id", "span_id", "trace_state", "parent_span_id", "name", "kind", "start_time_unix_nano", "end_time_unix_nano", "attributes", "dropped_attributes_count", "status")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    TRACE_STATE_FIELD_NUMBER: _ClassVar[int]
    PARENT_SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    START_TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    END_TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_ATTRIBUTES_COUNT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    trace_id: bytes
    span_id: bytes
    trace_state: str
    parent_span_id: bytes
    name: str
    kind: int
    start_time_unix_nano: int
    end_time_unix_nano: int
    attributes: _containers.RepeatedScalarFieldContainer[bytes]
    dropped_attributes_count: int
    status: StatusView
    def __init__(self, trace_id: _Optional[bytes] = ..., span_id: _Optional[bytes] = ..., trace_state: _Optional[str] = ..., parent_span_id: _Optional[bytes] = ..., name: _Optional[str] = ..., kind: _Optional[int] = ..., start_time_unix_nano: _Optional[int] = ..., end_time_unix_nano: _Optional[int] = ..., attributes: _Optional[_Iterable[bytes]] = ..., dropped_attributes_count: _Optional[int] = ..., status: _Optional[_Union[StatusView, _Mapping]] = ...) -> None: ...

class SpanEventsView(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, events: _Optional[_Iterable[bytes]] = ...) -> None: ...

class EventView(_message.Message):
    __slots__ = ("name", "attributes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    attributes: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, name: _Optional[str] = ..., attributes: _Optional[_Iterable[bytes]] = ...) -> None: ...

class StatusView(_message.Message):
    __slots__ = ("code",)
    CODE_FIELD_NUMBER: _ClassVar[int]
    code: int
    def __init__(self, code: _Optional[int] = ...) -> None: ...

class LogRecordView(_message.Message):
    __slots__ = ("time_unix_nano", "body", "attributes", "dropped_attributes_count", "trace_id", "span_id", "observed_time_unix_nano", "event_name")
    TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_ATTRIBUTES_COUNT_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    OBSERVED_TIME_UNIX_NANO_FIELD_NUMBER: _ClassVar[int]
    EVENT_NAME_FIELD_NUMBER: _ClassVar[int]
    time_unix_nano: int
    body: _containers.RepeatedScalarFieldContainer[bytes]
    attributes: _containers.RepeatedScalarFieldContainer[bytes]
    dropped_attributes_count: int
    trace_id: bytes
    span_id: bytes
    observed_time_unix_nano: int
    event_name: str
    def __init__(self, time_unix_nano: _Optional[int] = ..., body: _Optional[_Iterable[bytes]] = ..., attributes: _Optional[_Iterable[bytes]] = ..., dropped_attributes_count: _Optional[int] = ..., trace_id: _Optional[bytes] = ..., span_id: _Optional[bytes] = ..., observed_time_unix_nano: _Optional[int] = ..., event_name: _Optional[str] = ...) -> None: ...

class SpanIdsView(_message.Message):
    __slots__ = ("trace_id", "span_id")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    trace_id: bytes
    span_id: bytes
    def __init__(self, trace_id: _Optional[bytes] = ..., span_id: _Optional[bytes] = ...) -> None: ...
