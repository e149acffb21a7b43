"""``turnavoid.v1.LedgerService``: the ledger's report, runs, pairs and verdicts over gRPC."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import grpc
import msgspec
from google.protobuf import json_format

from otel_turnavoid._proto.turnavoid.v1 import ledger_pb2, ledger_pb2_grpc
from otel_turnavoid.collector.answer import Refused, Trouble, shortened
from otel_turnavoid.collector.grpc_receiver import abort
from otel_turnavoid.errors import InputError, LedgerError
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.vocabulary import Outcome, TokenType

if TYPE_CHECKING:
    from otel_turnavoid.collector.journal import Bell
    from otel_turnavoid.store import Ledger, RunLine

DEFAULT_PAGE: Final = 100
LARGEST_PAGE: Final = 1000

STREAMS: Final = 64
"""StreamVerdicts calls at once."""

_CHUNK: Final = 100
"""Verdicts read for a stream before any is sent."""

_POLL_S: Final = 1.0
"""How often a stream looks at the journal unasked: other processes decide too."""

_MOST_IDS: Final = 2
"""Ids that one question names: those of a pair."""

_LAST_ID: Final = 2**63 - 1

_Context = grpc.aio.ServicerContext[Any, Any]
_T = TypeVar("_T")

_logger = logging.getLogger(__name__)


class _Place(msgspec.Struct, array_like=True, frozen=True):
    """Where a page of runs ended."""

    start_ns: int
    run_id: str


class LedgerService(ledger_pb2_grpc.LedgerServiceServicer):
    """Answers from the ledger; holds nothing of it in memory between calls."""

    def __init__(
        self, ledger: Ledger, bell: Bell, executor: Executor, settings: Settings | None = None
    ) -> None:
        self._ledger = ledger
        self._settings = settings or Settings()
        self._bell = bell
        self._executor = executor
        self._streams = 0
        self._ending = False

    def end_streams(self) -> None:
        """End every stream, and refuse new ones."""
        self._ending = True
        self._bell.ring()

    async def GetReport(  # noqa: N802 - gRPC's name
        self,
        request: ledger_pb2.GetReportRequest,  # noqa: ARG002 - empty
        context: _Context,
    ) -> ledger_pb2.Report:
        """Return the report/v1 over every pair decided so far."""
        return await self._read(self._report, context)

    async def ListRuns(  # noqa: N802 - gRPC's name
        self, request: ledger_pb2.ListRunsRequest, context: _Context
    ) -> ledger_pb2.ListRunsResponse:
        """Return a page of runs, by start."""
        size = await _page_size(request.page_size, context)
        try:
            after = _run_place(request.page_token)
        except ValueError:
            await _refuse(context, "page_token: not a token of ListRuns")
        lines = await self._read(lambda: list(islice(self._runs(after), size + 1)), context)
        response = ledger_pb2.ListRunsResponse(runs=[run_message(line) for line in lines[:size]])
        if len(lines) > size:
            last = lines[size - 1].run
            place = msgspec.json.encode(_Place(last.start_ns, last.run_id))
            response.next_page_token = base64.urlsafe_b64encode(place).decode()
        return response

    async def ListPairs(  # noqa: N802 - gRPC's name
        self, request: ledger_pb2.ListPairsRequest, context: _Context
    ) -> ledger_pb2.ListPairsResponse:
        """Return a page of pairs, in the order of decision."""
        size = await _page_size(request.page_size, context)
        token = request.page_token or "0"
        if not (token.isascii() and token.isdigit() and int(token) <= _LAST_ID):
            await _refuse(context, "page_token: not a token of ListPairs")
        pairs = await self._read(lambda: list(islice(self._pairs(int(token)), size + 1)), context)
        response = ledger_pb2.ListPairsResponse(
            pairs=[pair_message(pair) for _, pair in pairs[:size]]
        )
        if len(pairs) > size:
            response.next_page_token = str(pairs[size - 1][0])
        return response

    async def StreamVerdicts(  # noqa: N802 - gRPC's name
        self, request: ledger_pb2.StreamVerdictsRequest, context: _Context
    ) -> AsyncIterator[ledger_pb2.Verdict]:
        """Yield the verdicts after an id, then each further one as it is decided."""
        if request.after_id < 0:
            await _refuse(context, f"after_id: must not be negative (got {request.after_id})")
        if self._streams >= STREAMS:
            busy = f"{STREAMS} streams are open already"
            await abort(context, Refused(Trouble.UNAVAILABLE, busy))
        self._streams += 1
        try:
            await context.send_initial_metadata(())  # tells the client that it is open
            async for verdict in self._follow(request.after_id, context):
                yield verdict
        finally:
            self._streams -= 1

    async def Explain(  # noqa: N802 - gRPC's name
        self, request: ledger_pb2.ExplainRequest, context: _Context
    ) -> ledger_pb2.Explanation:
        """Return what was seen of a run, trace, pair or verdict, what was decided, and why."""
        if not 1 <= len(request.ids) <= _MOST_IDS:
            await _refuse(
                context, f"ids: one, or the two run ids of a pair (got {len(request.ids)})"
            )
        found = await self._read(partial(self._explained, list(request.ids)), context)
        if isinstance(found, str):
            await context.abort(grpc.StatusCode.NOT_FOUND, shortened(found))
        return found

    def _explained(self, ids: list[str]) -> ledger_pb2.Explanation | str:
        """Return the explanation, or why there is none."""
        from otel_turnavoid.publish.explanation import explanation_json  # noqa: PLC0415 - rarely asked for
        from otel_turnavoid.publish.explanation_text import explanation_text  # noqa: PLC0415
        from otel_turnavoid.publish.inquiry import explain  # noqa: PLC0415

        try:
            explanation = explain(self._ledger, ids, self._settings)
        except InputError as error:
            return str(error)
        return ledger_pb2.Explanation(
            text=explanation_text(explanation), json=explanation_json(explanation).decode()
        )

    async def _follow(self, after: int, context: _Context) -> AsyncIterator[ledger_pb2.Verdict]:
        while not self._ending:
            rung = self._bell.next()
            pairs = await self._read(partial(self._chunk, after), context)
            for number, pair in pairs:
                yield ledger_pb2.Verdict(id=number, pair=pair_message(pair))
                after = number
            if len(pairs) < _CHUNK and not self._ending:
                try:
                    await asyncio.wait_for(rung.wait(), _POLL_S)
                except asyncio.TimeoutError:
                    continue
        await abort(context, Refused(Trouble.UNAVAILABLE, "the processor is stopping"))

    async def _read(self, work: Callable[[], _T], context: _Context) -> _T:
        """Run ``work`` in a thread; end the call where the ledger cannot be read."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        except LedgerError as error:
            _logger.warning("the ledger cannot be read: %s", error)
            refused = Refused(Trouble.UNAVAILABLE, "the ledger cannot be read now")
        except Exception as error:
            _logger.exception("a call failed because of a bug")
            refused = Refused(Trouble.INTERNAL, f"bug: {type(error).__name__}")
        return await abort(context, refused)

    def _report(self) -> ledger_pb2.Report:
        from otel_turnavoid.ledger import empty_report, fold, report_json  # noqa: PLC0415 - rarely asked for
        from otel_turnavoid.publish.trace import trace_rows  # noqa: PLC0415

        rows = trace_rows(pair for _, pair in self._pairs(0))
        report = fold(rows) if rows else empty_report()
        found = ledger_pb2.Report()
        json_format.ParseDict(msgspec.json.decode(report_json(report)), found)
        return found

    def _chunk(self, after: int) -> list[tuple[int, PairDecided]]:
        return list(islice(self._pairs(after), _CHUNK))

    def _pairs(self, after: int) -> Iterator[tuple[int, PairDecided]]:
        for number, decision in self._ledger.decisions(after=after):
            if isinstance(decision, PairDecided):
                yield number, decision

    def _runs(self, after: _Place | None) -> Iterator[RunLine]:
        place = None if after is None else (after.start_ns, after.run_id)
        return self._ledger.runs(after=place)


def run_message(line: RunLine) -> ledger_pb2.Run:
    """Return a run with the fields of ``turnavoid runs --json``."""
    run = line.run
    return ledger_pb2.Run(
        run_id=run.run_id,
        arm=run.arm,
        variant=run.variant,
        evidence=run.evidence,
        outcome=line.outcome,
        model_turns=run.model_turns,
        llm_calls=run.llm_calls,
        tool_calls=run.tool_calls,
        tokens=ledger_pb2.Tokens(
            **{kind.value: getattr(run.usage, kind.value) for kind in TokenType}
        ),
        causes=run.rejections if line.outcome is Outcome.REJECTED else run.causes,
    )


def pair_message(pair: PairDecided) -> ledger_pb2.Pair:
    """Return a verdict with the fields of ``turnavoid pairs --json``."""
    candidate = pair.candidate
    return ledger_pb2.Pair(
        control=pair.control.run_id,
        candidate=candidate.run_id,
        arm=candidate.arm or "",
        variant=candidate.variant,
        mechanism=candidate.mechanism,
        lifecycle=candidate.lifecycle,
        reason=candidate.reason,
        evidence=pair.evidence,
        control_turns=pair.control.model_turns,
        candidate_turns=candidate.model_turns,
        potential=pair.potential,
        avoided=pair.avoided,
        withheld=pair.withheld,
        added=pair.added,
        causes=pair.causes,
    )


async def _page_size(asked: int, context: Any) -> int:
    if not 0 <= asked <= LARGEST_PAGE:
        await _refuse(context, f"page_size: must be 0 to {LARGEST_PAGE} (got {asked})")
    return asked or DEFAULT_PAGE


def _run_place(token: str) -> _Place | None:
    """Return where a token points to; ValueError where it is none of ours."""
    if not token:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token), type=_Place)
    except (binascii.Error, msgspec.MsgspecError, UnicodeError) as error:
        raise ValueError(token) from error


async def _refuse(context: _Context, message: str) -> NoReturn:
    await abort(context, Refused(Trouble.BAD_DATA, message))
