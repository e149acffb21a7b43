"""A queue is bounded, durable and first in, first out."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from otel_turnavoid.forward import Encoding, Queue, QueueError, QueueFile, QueueFullError, Signal
from otel_turnavoid.forward.queue import IN_FLIGHT_BYTES
from otel_turnavoid.forward.request import Stored

PROTO = Encoding.PROTOBUF


async def put(queue: Queue, *bodies: bytes) -> None:
    """Store and release, all in one breath."""
    tickets = [queue.enter(Signal.TRACES, PROTO, 1, body) for body in bodies]
    await asyncio.gather(*(ticket.stored for ticket in tickets))
    for ticket in tickets:
        queue.release(ticket)


async def taken(queue: Queue) -> list[bytes]:
    """Take and remove everything that is there."""
    queue.drain()
    bodies = []
    while (request := await queue.take()) is not None:
        bodies.append(request.body)
        queue.done(request)
    return bodies


def kept(path: Path) -> list[bytes]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT body FROM requests ORDER BY id").fetchall()
    return [body for (body,) in rows]


class TestOrder:
    def test_the_first_in_is_the_first_out(self, queued):
        async def scenario(queue: Queue) -> list[bytes]:
            await put(queue, b"a", b"b", b"c")
            return await taken(queue)

        assert queued(scenario) == [b"a", b"b", b"c"]

    def test_all_that_is_known_of_a_request_comes_back(self, queued):
        async def scenario(queue: Queue) -> Stored | None:
            ticket = queue.enter(Signal.LOGS, Encoding.JSON, 7, b"{}")
            await ticket.stored
            queue.release(ticket)
            return await queue.take()

        assert queued(scenario) == Stored(1, Signal.LOGS, Encoding.JSON, 7, b"{}")

    def test_who_waits_gets_what_comes(self, queued):
        async def scenario(queue: Queue) -> list[bytes]:
            takers = [asyncio.create_task(queue.take()) for _ in range(3)]
            await asyncio.sleep(0)
            await put(queue, b"a", b"b", b"c")
            return [request.body for request in await asyncio.gather(*takers)]

        assert queued(scenario) == [b"a", b"b", b"c"]

    def test_what_is_not_released_is_not_taken(self, queued):
        async def scenario(queue: Queue) -> list[bytes]:
            ticket = queue.enter(Signal.TRACES, PROTO, 1, b"held")
            await ticket.stored
            await put(queue, b"free")
            return await taken(queue)

        assert queued(scenario) == [b"free"]


class TestDurability:
    def test_what_is_stored_is_in_the_file_before_it_is_said(self, queued, path):
        class Watched(QueueFile):
            def write(self, added, removed):
                super().write(added, removed)
                said.append([each.body for each in added])

        said: list[list[bytes]] = []

        async def scenario(queue: Queue) -> None:
            ticket = queue.enter(Signal.TRACES, PROTO, 1, b"a")
            before = list(said)
            await ticket.stored
            assert (before, said) == ([], [[b"a"]])

        queued(scenario, file=Watched(path))

    def test_what_arrives_while_the_disk_works_shares_a_transaction(self, queued, path, eventually):
        writes: list[list[bytes]] = []

        class Watched(QueueFile):
            def write(self, added, removed):
                super().write(added, removed)
                writes.append([each.body for each in added])

        async def scenario(queue: Queue) -> None:
            first = queue.enter(Signal.TRACES, PROTO, 1, b"a")
            await eventually(lambda: not queue._entering)
            others = [queue.enter(Signal.TRACES, PROTO, 1, body) for body in (b"b", b"c")]
            await asyncio.gather(first.stored, *(each.stored for each in others))

        queued(scenario, file=Watched(path))

        assert writes == [[b"a"], [b"b", b"c"]]

    def test_after_a_restart_it_goes_on(self, queued):
        async def fill(queue: Queue) -> None:
            await put(queue, b"a", b"b", b"c")
            request = await queue.take()
            queue.done(request)

        async def go_on(queue: Queue) -> list[bytes]:
            await put(queue, b"d")
            return await taken(queue)

        queued(fill)

        assert queued(go_on) == [b"b", b"c", b"d"]

    def test_what_is_being_sent_at_a_crash_is_sent_again(self, queued):
        async def die(queue: Queue) -> None:
            await put(queue, b"a", b"b")
            await queue.take()

        queued(die)

        assert queued(taken) == [b"a", b"b"]

    def test_what_is_done_is_gone_from_the_disk(self, queued, path):
        async def scenario(queue: Queue) -> None:
            await put(queue, b"a", b"b")
            queue.done(await queue.take())

        queued(scenario)

        assert kept(path) == [b"b"]

    @pytest.mark.parametrize("round_", range(3))
    def test_killed_in_the_middle_it_keeps_all_it_acknowledged(self, path, queued, round_):
        code = (
            "import asyncio, sys\n"
            "from pathlib import Path\n"
            "from otel_turnavoid.forward import Encoding, Queue, QueueFile, Signal\n"
            "async def main():\n"
            "    file = QueueFile(Path(sys.argv[1]))\n"
            "    queue = Queue(file, max_requests=10**6, max_bytes=1 << 30)\n"
            "    asyncio.create_task(queue.run())\n"
            "    async def sender(name):\n"
            "        number = 0\n"
            "        while True:\n"
            "            number += 1\n"
            "            body = f'{name}-{number}'.encode()\n"
            "            ticket = queue.enter(Signal.TRACES, Encoding.PROTOBUF, 1, body)\n"
            "            await ticket.stored\n"
            "            print(body.decode(), flush=True)\n"
            "            queue.release(ticket)\n"
            "    await asyncio.gather(*(sender(name) for name in range(4)))\n"
            "asyncio.run(main())\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(20 + 17 * round_)]
            os.kill(process.pid, signal.SIGKILL)
            said += process.stdout.readlines()
        acknowledged = {line.strip().encode() for line in said if line.endswith("\n")}

        found = queued(taken, max_requests=10**6)

        assert acknowledged <= set(found)
        assert len(found) == len(set(found))


class TestBounds:
    def test_a_queue_with_as_many_requests_as_it_may_hold_takes_no_more(self, queued):
        async def scenario(queue: Queue) -> None:
            await put(queue, b"a", b"b")
            with pytest.raises(QueueFullError, match=r"^the queue is full$"):
                queue.enter(Signal.TRACES, PROTO, 1, b"c")

        queued(scenario, max_requests=2)

    def test_a_queue_with_as_many_bytes_as_it_may_hold_takes_no_more(self, queued):
        async def scenario(queue: Queue) -> tuple[bool, bool]:
            await put(queue, b"12345")
            return queue.has_room(5), queue.has_room(6)

        assert queued(scenario, max_bytes=10) == (True, False)

    def test_a_request_alone_is_never_too_large(self, queued):
        async def scenario(queue: Queue) -> list[bytes]:
            await put(queue, b"12345")
            return await taken(queue)

        assert queued(scenario, max_bytes=1) == [b"12345"]

    def test_room_comes_back_when_requests_are_done(self, queued, eventually):
        async def scenario(queue: Queue) -> list[bytes]:
            await put(queue, b"a")
            queue.done(await queue.take())
            await eventually(lambda: queue.has_room(1))
            await put(queue, b"b")
            return await taken(queue)

        assert queued(scenario, max_requests=1) == [b"b"]

    def test_what_a_file_holds_counts_after_a_restart(self, queued):
        async def fill(queue: Queue) -> None:
            await put(queue, b"a", b"b")

        async def look(queue: Queue) -> tuple[int, bool]:
            return len(queue), queue.has_room(1)

        queued(fill)

        assert queued(look, max_requests=2) == (2, False)

    def test_bodies_in_memory_are_bounded(self, queued):
        size = IN_FLIGHT_BYTES // 2 + 1

        async def scenario(queue: Queue) -> tuple[bool, bytes | None]:
            await put(queue, b"a" * size, b"b" * size)
            first = await queue.take()
            second = asyncio.create_task(queue.take())
            await asyncio.sleep(0)
            waited = not second.done()
            queue.done(first)
            return waited, (await second).body[:1]

        assert queued(scenario, max_bytes=4 * size) == (True, b"b")

    def test_the_space_of_a_flood_is_given_back(self, queued, path):
        async def flood(queue: Queue) -> int:
            await put(queue, *(bytes(1 << 20) for _ in range(40)))
            await asyncio.to_thread(queue._file._connection.execute, "PRAGMA wal_checkpoint")
            size = path.stat().st_size
            await taken(queue)
            return size

        flooded = queued(flood, max_bytes=1 << 30)

        assert flooded > 40 << 20
        assert path.stat().st_size < 1 << 20


class TestWithdrawal:
    def test_what_is_withdrawn_is_gone(self, queued, path):
        async def scenario(queue: Queue) -> int:
            ticket = queue.enter(Signal.TRACES, PROTO, 1, b"a")
            await ticket.stored
            queue.withdraw(ticket)
            await put(queue, b"b")
            return len(queue)

        assert queued(scenario) == 1
        assert kept(path) == [b"b"]

    def test_what_is_withdrawn_at_once_is_never_written(self, queued, path):
        async def scenario(queue: Queue) -> int:
            queue.withdraw(queue.enter(Signal.TRACES, PROTO, 1, b"a"))
            return len(queue)

        assert queued(scenario) == 0
        assert kept(path) == []


class TestTrouble:
    def test_a_full_disk_is_told_and_passes(self, queued, path):
        file = QueueFile(path)

        def pages(count: int) -> None:
            file._connection.execute(f"PRAGMA max_page_count={count}")

        async def scenario(queue: Queue) -> list[bytes]:
            await put(queue, b"before")
            await asyncio.to_thread(pages, 1)
            ticket = queue.enter(Signal.TRACES, PROTO, 1, bytes(1 << 16))
            with pytest.raises(QueueError, match=r"database or disk is full$"):
                await ticket.stored
            assert len(queue) == 1
            await asyncio.to_thread(pages, 1 << 20)
            await put(queue, b"after")
            return await taken(queue)

        assert queued(scenario, file=file) == [b"before", b"after"]

    def test_trouble_is_logged_when_it_begins_and_when_it_ends(self, queued, path, caplog):
        caplog.set_level("INFO", logger="otel_turnavoid")
        troubles = [QueueError("no disk"), QueueError("no disk")]

        class Troubled(QueueFile):
            def write(self, added, removed):
                if troubles:
                    raise troubles.pop()
                super().write(added, removed)

        async def scenario(queue: Queue) -> None:
            for _ in range(2):
                with pytest.raises(QueueError):
                    await put(queue, b"a")
            await put(queue, b"a")

        queued(scenario, file=Troubled(path))

        assert [record.getMessage() for record in caplog.records] == [
            "senders are told to retry, their requests cannot be kept: no disk",
            f"{path}: the queue can be written again",
        ]

    def test_a_file_that_is_no_database_is_refused(self, path):
        path.write_bytes(b"something else " * 100)

        with pytest.raises(QueueError) as refused:
            QueueFile(path)

        assert str(refused.value) == (
            f"{path}: is damaged or no queue (file is not a database); "
            "move it away to start with an empty one"
        )

    def test_a_damaged_queue_is_refused(self, queued, path):
        async def fill(queue: Queue) -> None:
            await put(queue, *(bytes(3000) for _ in range(50)))

        queued(fill)
        content = bytearray(path.read_bytes())
        for page in range(1, len(content) // 4096):
            content[page * 4096 : page * 4096 + 100] = b"\xa5" * 100
        path.write_bytes(content)

        with pytest.raises(QueueError, match=r"is damaged or no queue \(.*malformed\)"):
            queued(taken)

    def test_another_database_is_refused(self, path):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE things (id)")

        with pytest.raises(QueueError, match=r"is a database, but no queue of this version$"):
            QueueFile(path)

    def test_a_queue_has_one_user(self, path):
        first = QueueFile(path)
        try:
            with pytest.raises(QueueError) as refused:
                QueueFile(path)
        finally:
            first.close()

        assert str(refused.value) == f"{path}: another processor or exporter uses this queue"

    def test_a_folder_that_does_not_exist_is_named(self, tmp_path):
        path = tmp_path / "nowhere" / "backend.queue"

        with pytest.raises(QueueError, match=f"^{re.escape(str(path))}: no such file or directory"):
            QueueFile(path)

    def test_only_its_owner_can_read_a_queue(self, queued, path):
        async def scenario(queue: Queue) -> set[int]:
            await put(queue, b"content")
            files = path.parent.glob("backend.queue*")
            return {stat.S_IMODE(file.stat().st_mode) for file in files}

        assert queued(scenario) == {0o600}
