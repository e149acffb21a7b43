from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.errors import InputError
from otel_turnavoid.otlp import Batch, read_files

MakeRequest = Callable[..., bytes]

TRACES = {
    "resourceSpans": [
        {
            "scopeSpans": [
                {
                    "spans": [
                        {
                            "traceId": "01" * 16,
                            "spanId": "02" * 8,
                            "attributes": [
                                {
                                    "key": "gen_ai.operation.name",
                                    "value": {"stringValue": "chat"},
                                }
                            ],
                        }
                    ]
                }
            ]
        }
    ]
}
LOGS = {
    "resourceLogs": [
        {
            "scopeLogs": [
                {
                    "logRecords": [
                        {
                            "timeUnixNano": "5",
                            "eventName": "turnavoid.effects.observed",
                            "attributes": [
                                {"key": "turnavoid.run.id", "value": {"stringValue": "r"}},
                                {"key": "turnavoid.observer.id", "value": {"stringValue": "o"}},
                                {
                                    "key": "turnavoid.effects.labels",
                                    "value": {"arrayValue": {}},
                                },
                            ],
                        }
                    ]
                }
            ]
        }
    ]
}


def found(batches: Iterable[Batch]) -> list[tuple[int, int]]:
    return [(len(batch.facts), len(batch.observations)) for batch in batches]


@pytest.fixture
def traces_pb(span_request: MakeRequest) -> bytes:
    return span_request({"gen_ai.operation.name": "chat"})


@pytest.fixture
def logs_pb(record_request: MakeRequest) -> bytes:
    return record_request(
        {
            "turnavoid.run.id": "r",
            "turnavoid.observer.id": "o",
            "turnavoid.effects.labels": ["e"],
        },
        resource={},
        event_name="turnavoid.effects.observed",
        time_unix_nano=5,
    )


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", ["body.pb", "misleading.logs.pb"])
def test_protobuf_traces_are_told_by_their_content(
    tmp_path: Path, traces_pb: bytes, name: str, *, zipped: bool
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(traces_pb) if zipped else traces_pb)

    assert found(read_files([path], Reader())) == [(1, 0)]


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("changes", [{}, {"time_unix_nano": 0, "severity_number": 9}])
def test_protobuf_logs_are_told_by_their_content(
    tmp_path: Path, logs_pb: bytes, changes: dict[str, int], *, zipped: bool
) -> None:
    request = ExportLogsServiceRequest.FromString(logs_pb)
    record = request.resource_logs[0].scope_logs[0].log_records[0]
    record.observed_time_unix_nano = 5
    for field, value in changes.items():
        setattr(record, field, value)
    body = request.SerializeToString()
    path = tmp_path / "body"
    path.write_bytes(gzip.compress(body) if zipped else body)

    assert found(read_files([path], Reader())) == [(0, 1)]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("layout", [("", None), ("", 1), ("\n", None), ("\n", 1), (" \r\n", 1)])
@pytest.mark.parametrize(("body", "expected"), [(TRACES, (1, 0)), (LOGS, (0, 1))])
def test_one_json_object_however_it_is_laid_out(
    tmp_path: Path,
    layout: tuple[str, int | None],
    pack: Callable[[bytes], bytes],
    body: object,
    expected: tuple[int, int],
) -> None:
    lead, indent = layout
    path = tmp_path / "body.json"
    path.write_bytes(pack((lead + json.dumps(body, indent=indent)).encode()))

    assert found(read_files([path], Reader())) == [expected]


def test_lines_of_the_file_exporter_are_a_batch_each(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    lines = [json.dumps(item) for item in (TRACES, LOGS, {"resourceMetrics": []}, TRACES)]
    path.write_text("\r\n".join(lines) + "\n\n")

    assert found(read_files([path], Reader())) == [(1, 0), (0, 1), (0, 0), (1, 0)]


def test_lines_are_read_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    path.write_text(json.dumps(TRACES) + "\nbroken\n")

    batches = read_files([path], Reader())

    assert len(next(batches).facts) == 1
    with pytest.raises(InputError, match="line 2: not readable as JSON"):
        next(batches)


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(json.dumps(TRACES).encode())))
    monkeypatch.setattr(sys, "stdin", stdin)

    assert found(read_files(["-"], Reader())) == [(1, 0)]


def test_an_empty_file_is_a_request_without_telemetry(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()

    assert list(read_files([path], Reader())) == [Batch()]


WANTED = (
    "want OTLP traces or logs: a protobuf body, a JSON object, or one per line; or recorded"
    " conversations"
)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[{}]", f"{{path}}, line 1: holds a JSON array; {WANTED}"),
        (b'[\n{"a": 1}\n]', f"{{path}}: holds a JSON array; {WANTED}"),
        (
            b'{"rows": []}',
            f"{{path}}, line 1: has neither resourceSpans nor resourceLogs; {WANTED}",
        ),
        (b"{}\n5\n", f"{{path}}, line 2: holds a bare JSON value; {WANTED}"),
        (b"name,turns\na,4\n", f"{{path}}: {WANTED}"),
        (b"\x89PNG\r\n\x1a\n", f"{{path}}: {WANTED}"),
        (
            b'{"resourceSpans": [{"scopeSpans": 5}]}',
            "{path}, line 1: resourceSpans[0].scopeSpans: want an array, got 5",
        ),
    ],
)
def test_a_file_of_another_kind_gets_one_clear_line(
    tmp_path: Path, body: bytes, message: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(body)

    with pytest.raises(InputError) as caught:
        list(read_files([path], Reader()))

    assert str(caught.value) == message.format(path=path)


@pytest.mark.parametrize(
    "body", [b'{"resourceSpans": [', b'{\n"resourceSpans": [\n', b'{"resourceSpans": [NaN]}']
)
def test_broken_json_names_the_file(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(body)

    with pytest.raises(InputError, match="not readable as JSON") as caught:
        list(read_files([path], Reader()))

    assert caught.value.place.startswith(str(path))


def test_a_broken_first_line_names_itself(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b'{"resourceSpans": [}\n{}\n')

    with pytest.raises(InputError, match=f"^{path}, line 1: not readable as JSON"):
        list(read_files([path], Reader()))


def test_a_truncated_protobuf_body_names_the_file(tmp_path: Path, traces_pb: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(traces_pb[:-1])

    with pytest.raises(InputError, match=f"^{path}: want OTLP traces or logs"):
        list(read_files([path], Reader()))


@pytest.mark.parametrize("cut", [10, -9, -1])
def test_a_cut_gzip_file_names_the_file(tmp_path: Path, traces_pb: bytes, cut: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(traces_pb)[:cut])

    with pytest.raises(InputError, match=f"^{path}: cannot be read: "):
        list(read_files([path], Reader()))


def test_a_missing_file_and_a_folder_name_themselves(tmp_path: Path) -> None:
    with pytest.raises(InputError) as missing:
        list(read_files([tmp_path / "nowhere"], Reader()))
    with pytest.raises(InputError) as folder:
        list(read_files([tmp_path], Reader()))

    assert (
        str(missing.value) == f"{tmp_path / 'nowhere'}: cannot be read: No such file or directory"
    )
    assert str(folder.value) == f"{tmp_path}: cannot be read: Is a directory"


def lenient(path: Path) -> tuple[list[tuple[int, int]], list[str]]:
    """Return what was read of a file, and what was said of the rest."""
    said: list[str] = []
    read = found(read_files([path], Reader(), broken=lambda error: said.append(str(error))))
    return read, [line.replace(str(path), "FILE") for line in said]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize(
    "broken",
    ['{"resourceSpans": [', '{"resourceSpans": [}', "5", "[]]", '{"rows": []}', "disk full"],
)
def test_a_broken_line_is_named_and_the_others_are_read(
    tmp_path: Path, broken: str, number: int, pack: Callable[[bytes], bytes]
) -> None:
    lines = [json.dumps(item) for item in (TRACES, LOGS)]
    lines.insert(number - 1, broken)
    path = tmp_path / "export.jsonl"
    path.write_bytes(pack("\n".join(lines).encode()))

    read, [said] = lenient(path)

    assert [each for each in read if each != (0, 0)] == [(1, 0), (0, 1)]
    assert said.startswith(f"FILE, line {number}: ")


def test_a_broken_field_is_named_by_line_and_path(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    path.write_text(f'{json.dumps(TRACES)}\n{{"resourceSpans": 5}}\n{json.dumps(TRACES)}\n')

    assert lenient(path) == (
        [(1, 0), (1, 0)],
        ["FILE, line 2: resourceSpans: want an array, got 5"],
    )


@pytest.mark.parametrize("body", ['{\n"resourceSpans": [\n', "[\n{\n}\n"])
def test_a_broken_object_over_many_lines_is_one_record(tmp_path: Path, body: str) -> None:
    path = tmp_path / "body.json"
    path.write_text(body)

    read, said = lenient(path)

    assert (read, len(said)) == ([], 1)
    assert said[0].startswith("FILE: not readable as JSON")


def test_a_protobuf_body_is_one_record(tmp_path: Path, traces_pb: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(traces_pb[:-1])

    assert lenient(path) == ([], [f"FILE: {WANTED}"])


def test_lines_well_before_the_cut_of_a_gzip_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl.gz"
    path.write_bytes(gzip.compress(f"{json.dumps(TRACES)}\n".encode() * 1_000)[:-1])

    read, said = lenient(path)

    assert 900 < len(read) < 1_000
    assert said == [
        "FILE: cannot be read: Compressed file ended before the end-of-stream marker was reached"
    ]


def test_files_after_a_broken_one_are_read(tmp_path: Path, traces_pb: bytes) -> None:
    whole = tmp_path / "whole"
    whole.write_bytes(traces_pb)
    said: list[InputError] = []

    read = found(read_files([tmp_path / "nowhere", whole], Reader(), broken=said.append))

    assert read == [(1, 0)]
    assert [error.place for error in said] == [str(tmp_path / "nowhere")]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_bytes_read_are_told_as_they_lie_in_the_file(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "export.jsonl"
    body = pack(b"".join(f'{{"resourceMetrics": [{n}]}}\n'.encode() for n in range(20_000)))
    path.write_bytes(body)
    told: list[int] = []

    read = list(read_files([path], Reader(), watch=told.append))

    assert len(read) == 20_000
    assert sum(told) == len(body)
