"""Whatever is done to a queue, it holds what a plain list would, over restarts too."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from otel_turnavoid.forward import Encoding, Queue, QueueFile, Signal
from otel_turnavoid.forward.request import Stored

STEPS = ("put", "put", "hold", "release", "withdraw", "take", "done", "give_back")


async def session(path: Path, steps: list[str], model: list[bytes], first: int) -> list[bytes]:
    """Do the steps to the queue of a file; return what it should hold at the next start."""
    queue = Queue(QueueFile(path), max_requests=1000, max_bytes=1 << 20)
    working = asyncio.create_task(queue.run())
    waiting, held, taken = list(model), [], []
    numbers = iter(range(first, first + len(steps)))
    kept = set(model)
    for step in steps:
        if step in ("put", "hold"):
            ticket = queue.enter(Signal.TRACES, Encoding.PROTOBUF, 1, b"%d" % next(numbers))
            await ticket.stored
            kept.add(ticket.request.body)
            if step == "hold":
                held.append(ticket)
            else:
                queue.release(ticket)
                waiting.append(ticket.request.body)
        elif step == "release" and held:
            ticket = held.pop(0)
            queue.release(ticket)
            waiting.append(ticket.request.body)
        elif step == "withdraw" and held:
            ticket = held.pop()
            queue.withdraw(ticket)
            kept.remove(ticket.request.body)
        elif step == "take" and waiting:
            request = await queue.take()
            assert isinstance(request, Stored)
            assert request.body == waiting.pop(0)
            taken.append(request)
        elif step == "done" and taken:
            request = taken.pop()
            queue.done(request)
            kept.remove(request.body)
        elif step == "give_back" and taken:
            queue.give_back(taken.pop(0))
    queue.close()
    await working
    assert len(queue) == len(kept)
    await queue.release_file()
    return sorted(kept, key=int)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.sampled_from(STEPS), max_size=25), min_size=1, max_size=3))
def test_it_holds_what_a_list_would(sessions):
    with tempfile.TemporaryDirectory() as folder:
        model: list[bytes] = []
        for number, steps in enumerate(sessions):
            model = asyncio.run(session(Path(folder) / "q", steps, model, 1000 * number))
        asyncio.run(session(Path(folder) / "q", ["take", "done"] * len(model), model, 0))
