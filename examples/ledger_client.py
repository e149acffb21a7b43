"""A client of LedgerService: the verdicts of a running ``turnavoid collect``, as they are made.

It knows nothing but the address: the server describes its own messages (gRPC reflection). What
each field means stands in ``proto/turnavoid/v1/ledger.proto``::

    python examples/ledger_client.py localhost:4317      # until control-C
    python examples/ledger_client.py localhost:4317 20   # the verdicts after number 20

Where the processor asks for credentials (``docs/security.md``)::

    python examples/ledger_client.py host:4317 --ca-file ca.pem --token-file reader.token
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVICE = "turnavoid.v1.LedgerService"


def verdicts(channel: grpc.Channel, after_id: int) -> Iterator[Any]:
    """Yield the final verdicts after a number, then every new one."""
    messages = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
    method = messages.FindServiceByName(SERVICE).FindMethodByName("StreamVerdicts")
    request = GetMessageClass(method.input_type)
    stream = channel.unary_stream(
        f"/{SERVICE}/{method.name}",
        request_serializer=request.SerializeToString,
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )
    yield from stream(request(after_id=after_id))


def line(verdict: Any) -> str:
    """Return a verdict as one line."""
    pair = verdict.pair
    return (
        f"{verdict.id} {pair.control} -> {pair.candidate}: {pair.avoided} avoided,"
        f" {pair.withheld} withheld, {pair.added} added {' '.join(pair.causes)}"
    ).rstrip()


def connect(endpoint: str, ca_file: Path | None, token_file: Path | None) -> grpc.Channel:
    """Return a channel, over TLS where there is an authority to trust."""
    if ca_file is None:
        return grpc.insecure_channel(endpoint)
    credentials = grpc.ssl_channel_credentials(ca_file.read_bytes())
    if token_file is not None:
        token = grpc.access_token_call_credentials(token_file.read_text().split()[0])
        credentials = grpc.composite_channel_credentials(credentials, token)
    return grpc.secure_channel(endpoint, credentials)


def main() -> None:
    """Print verdicts until interrupted."""
    parser = argparse.ArgumentParser(description="Print verdicts as they are made.")
    parser.add_argument("endpoint", help="host:port of OTLP/gRPC")
    parser.add_argument("after", nargs="?", type=int, default=0, help="number of a verdict")
    parser.add_argument("--ca-file", type=Path, help="authority to trust; without it, no TLS")
    parser.add_argument("--token-file", type=Path, help="a reader's bearer token; needs --ca-file")
    given = parser.parse_args()
    if given.token_file is not None and given.ca_file is None:
        parser.error("a token goes over TLS only: --ca-file is missing")
    with connect(given.endpoint, given.ca_file, given.token_file) as channel:
        try:
            for verdict in verdicts(channel, given.after):
                print(line(verdict), flush=True)
        except grpc.RpcError as problem:
            sys.exit(f"{given.endpoint}: {problem.code().name}: {problem.details()}")
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
