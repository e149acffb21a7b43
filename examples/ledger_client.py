"""A client of LedgerService: the verdicts of a running ``turnavoid collect``, as they are made.

It knows nothing but the address: the server describes its own messages (gRPC reflection). What
each field means stands in ``proto/turnavoid/v1/ledger.proto``::

    python examples/ledger_client.py localhost:4317      # until control-C
    python examples/ledger_client.py localhost:4317 20   # the verdicts after number 20
"""

from __future__ import annotations

import sys
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


def main() -> None:
    """Print verdicts until interrupted."""
    endpoint, *after = sys.argv[1:]
    with grpc.insecure_channel(endpoint) as channel:
        try:
            for verdict in verdicts(channel, int(after[0]) if after else 0):
                print(line(verdict), flush=True)
        except grpc.RpcError as problem:
            sys.exit(f"{endpoint}: {problem.code().name}: {problem.details()}")
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
