"""An OpenTelemetry Collector's part in ``docs/quickstart.md``, where the real one is not at hand.

Takes OTLP over gRPC and does what the page's two configurations ask for: a line of OTLP/JSON a
request into a file, or the request to another receiver::

    python collector_stand_in.py --config FILE
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import yaml

from otel_turnavoid.forward.as_json import as_json
from otel_turnavoid.forward.request import Signal

METHODS = {
    Signal.TRACES: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    Signal.LOGS: "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}


def to_file(settings: dict[str, Any], kind: Signal) -> Callable[[bytes], None]:
    lock = threading.Lock()

    def export(body: bytes) -> None:
        with lock, Path(settings["path"]).open("ab") as file:
            file.write(as_json(body, kind) + b"\n")

    return export


def to_receiver(settings: dict[str, Any], kind: Signal) -> Callable[[bytes], None]:
    assert settings["tls"] == {"insecure": True}
    send = grpc.insecure_channel(settings["endpoint"]).unary_unary(METHODS[kind])
    return lambda body: send(body, timeout=10, wait_for_ready=True)


KINDS = {"file": to_file, "otlp": to_receiver}


def main(path: str) -> None:
    configuration = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    server = grpc.server(ThreadPoolExecutor(4))
    for kind, method in METHODS.items():
        pipeline = configuration["service"]["pipelines"][kind.value]
        assert pipeline["receivers"] == ["otlp"]
        exports = [
            KINDS[name.split("/")[0]](configuration["exporters"][name], kind)
            for name in pipeline["exporters"]
        ]

        def take(body: bytes, _: Any, exports: list[Any] = exports) -> bytes:
            for export in exports:
                export(body)
            return b""

        _, service, name = method.split("/")
        handler = grpc.unary_unary_rpc_method_handler(take)
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(service, {name: handler})]
        )
    server.add_insecure_port(configuration["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"])
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    server.start()
    ended.wait()
    server.stop(5).wait()


if __name__ == "__main__":
    main(sys.argv[sys.argv.index("--config") + 1])
