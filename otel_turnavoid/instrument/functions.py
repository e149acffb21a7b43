"""Entries around functions of every kind: one opener, four ways to run what it opens.

The entry of a generator lasts from its first step to its end, and is current only while the
generator's own code runs, never while its consumer's does.
"""

from __future__ import annotations

import functools
import inspect
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from opentelemetry import context as context_api

from otel_turnavoid.instrument.misuse import Misuse, misused
from otel_turnavoid.instrument.scope import Handle, restore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

    from typing_extensions import TypeIs

    from otel_turnavoid.instrument.scope import Scope

    Begin = Callable[[dict[str, Any] | None], Handle]
    InputReader = Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any] | None]

F = TypeVar("F", bound="Callable[..., Any]")


def decorated(scope: Scope[Any], function: F) -> F:
    """Return ``function`` with an entry around each call; its signature stays."""
    if isinstance(function, (classmethod, staticmethod)):
        misused(
            Misuse.FUNCTION,
            f"cannot decorate a {type(function).__name__}: decorators of entries go on functions,"
            " below @classmethod and @staticmethod",
        )
        return function
    if inspect.isclass(function):
        misused(Misuse.FUNCTION, f"cannot decorate the class {function.__name__}")
        return function
    scope = scope.decorating(_name(function))
    wrap: Callable[..., Callable[..., Any]]
    if inspect.isasyncgenfunction(function):
        wrap = _async_generator
    elif inspect.iscoroutinefunction(function):
        wrap = _coroutine
    elif inspect.isgeneratorfunction(function):
        wrap = _generator
    else:
        wrap = _plain
    wrapper = wrap(scope.begin, _input_reader(scope, function), function)
    return cast("F", functools.wraps(function)(wrapper))


def is_function(thing: F | str | None) -> TypeIs[F]:
    """Tell whether a decorator without parentheses was put on ``thing``."""
    return callable(thing) or isinstance(thing, (classmethod, staticmethod))


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _input_reader(scope: Scope[Handle], function: Callable[..., Any]) -> InputReader | None:
    """Return what reads the input out of a call's arguments; None where it is no parameter."""
    wanted = scope.input_parameter
    if wanted is None:
        return None
    signature = inspect.signature(function)
    if wanted not in signature.parameters:
        misused(Misuse.FUNCTION, f"input_from: {_name(function)} has no parameter {wanted!r}")
        return None

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:  # the call itself will say it better
            return None
        bound.apply_defaults()
        return {"input": bound.arguments[wanted]}

    return read


def _plain(
    begin: Begin, read: InputReader | None, function: Callable[..., Any]
) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        handle = begin(None if read is None else read(args, kwargs))
        token = context_api.attach(handle.context)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            token.var.reset(token)  # one frame: what this call made current is its to take back
            handle._finish(error, None)  # noqa: SLF001 - of the same room
            raise
        token.var.reset(token)
        if isinstance(result, CoroutineType):  # a plain function that hands out a coroutine
            return _finish(handle, functools.partial(_same, result))
        handle._finish(None, None)  # noqa: SLF001
        return result

    return call


def _coroutine(
    begin: Begin, read: InputReader | None, function: Callable[..., Awaitable[Any]]
) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        handle = begin(None if read is None else read(args, kwargs))
        return await _finish(handle, lambda: function(*args, **kwargs))

    return call


def _same(result: Awaitable[Any]) -> Awaitable[Any]:
    """Return what is to be awaited: a closure over it would cost every call."""
    return result


async def _finish(handle: Handle, start: Callable[[], Awaitable[Any]]) -> Any:
    token = context_api.attach(handle.context)
    try:
        value = await start()
    except BaseException as error:
        restore(token, handle)
        handle.end(error)
        raise
    restore(token, handle)
    handle.end()
    return value


def _generator(
    begin: Begin, read: InputReader | None, function: Callable[..., Generator[Any, Any, Any]]
) -> Callable[..., Any]:
    def iterate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        body = function(*args, **kwargs)
        handle = begin(None if read is None else read(args, kwargs))
        place = _Place(handle)
        step: Callable[[], Any] = functools.partial(body.send, None)
        try:
            while True:
                with place:
                    try:
                        item = step()
                    except StopIteration as stop:
                        value = stop.value
                        break
                try:
                    step = functools.partial(body.send, (yield item))
                except GeneratorExit:
                    with place:
                        body.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - thrown in by the consumer
                    step = functools.partial(body.throw, error)
        except BaseException as error:
            handle.end(error)
            raise
        handle.end()
        return value

    return iterate


def _async_generator(
    begin: Begin, read: InputReader | None, function: Callable[..., AsyncGenerator[Any, Any]]
) -> Callable[..., Any]:
    async def iterate(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        body = function(*args, **kwargs)
        handle = begin(None if read is None else read(args, kwargs))
        place = _Place(handle)
        step: Callable[[], Awaitable[Any]] = functools.partial(body.asend, None)
        try:
            while True:
                with place:
                    try:
                        item = await step()
                    except StopAsyncIteration:
                        break
                try:
                    step = functools.partial(body.asend, (yield item))
                except GeneratorExit:
                    with place:
                        await body.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - thrown in by the consumer
                    step = functools.partial(body.athrow, error)
        except BaseException as error:
            handle.end(error)
            raise
        handle.end()

    return iterate


class _Place:
    """The context of a generator's code: current during a step, kept between steps."""

    __slots__ = ("_context", "_handle", "_token")

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._context = handle.context

    def __enter__(self) -> None:
        self._token = context_api.attach(self._context)

    def __exit__(self, *_error: object) -> None:
        self._context = context_api.get_current()
        restore(self._token, self._handle)
