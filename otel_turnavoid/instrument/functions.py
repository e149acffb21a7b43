"""Entries around functions of every kind: one opener, four ways to run what it opens.

The entry of a generator lasts from its first step to its end, and is current only while the
generator's own code runs, never while its consumer's does.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar, cast

from opentelemetry import context as context_api

from otel_turnavoid.instrument.misuse import Misuse, misused
from otel_turnavoid.instrument.scope import Handle, restore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

    from typing_extensions import TypeIs

    from otel_turnavoid.instrument.scope import Scope

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
    begin = _opener(scope, function)
    wrapper: Callable[..., Any]
    if inspect.isasyncgenfunction(function):
        wrapper = _async_generator(begin, function)
    elif inspect.iscoroutinefunction(function):
        wrapper = _coroutine(begin, function)
    elif inspect.isgeneratorfunction(function):
        wrapper = _generator(begin, function)
    else:
        wrapper = _plain(begin, function)
    return cast("F", functools.wraps(function)(wrapper))


def is_function(thing: F | str | None) -> TypeIs[F]:
    """Tell whether a decorator without parentheses was put on ``thing``."""
    return callable(thing) or isinstance(thing, (classmethod, staticmethod))


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _opener(scope: Scope[Handle], function: Callable[..., Any]) -> Callable[..., Handle]:
    """Return what opens the entry of a call, given the call's arguments."""
    wanted = scope.input_parameter
    if wanted is None:
        return _constant(scope)
    signature = inspect.signature(function)
    if wanted not in signature.parameters:
        misused(Misuse.FUNCTION, f"input_from: {_name(function)} has no parameter {wanted!r}")
        return _constant(scope)

    def begin(*args: Any, **kwargs: Any) -> Handle:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:  # the call itself will say it better
            return scope.begin()
        bound.apply_defaults()
        return scope.begin({"input": bound.arguments[wanted]})

    return begin


def _constant(scope: Scope[Handle]) -> Callable[..., Handle]:
    def begin(*_args: Any, **_kwargs: Any) -> Handle:
        return scope.begin()

    return begin


def _plain(begin: Callable[..., Handle], function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        handle = begin(*args, **kwargs)
        token = context_api.attach(handle.context)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            restore(token, handle)
            handle.end(error)
            raise
        restore(token, handle)
        if inspect.iscoroutine(result):  # a plain function that hands out a coroutine
            return _finish(handle, lambda: result)
        handle.end()
        return result

    return call


def _coroutine(
    begin: Callable[..., Handle], function: Callable[..., Awaitable[Any]]
) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await _finish(begin(*args, **kwargs), lambda: function(*args, **kwargs))

    return call


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
    begin: Callable[..., Handle], function: Callable[..., Generator[Any, Any, Any]]
) -> Callable[..., Any]:
    def iterate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        body = function(*args, **kwargs)
        handle = begin(*args, **kwargs)
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
    begin: Callable[..., Handle], function: Callable[..., AsyncGenerator[Any, Any]]
) -> Callable[..., Any]:
    async def iterate(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        body = function(*args, **kwargs)
        handle = begin(*args, **kwargs)
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
