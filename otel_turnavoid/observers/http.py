"""A JSON document at a URL as effect labels, by JSON pointers (RFC 6901)."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from email.message import Message
from typing import IO, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from otel_turnavoid.errors import InputError
from otel_turnavoid.observers.snapshot import Snapshot, Thing
from otel_turnavoid.observers.template import Template, plain

TIMEOUT_S: Final = 10.0
MOST_BYTES: Final = 8 << 20

_SCHEMES: Final = ("http", "https")
_ABSENT: Final = object()


class HttpSource:
    """Looks at values of one JSON document.

    A pointer to a list means each of its elements, in any order. What a pointer does not find
    is not there, which is no error: it may come to be.

    Args:
        url: An http or https URL.
        pointers: RFC 6901 pointers such as ``/orders/0/status``; empty text is the document.
        templates: One for each pointer, or none at all for ``{pointer}={value}``. An object's
            members can be named too: ``order:{id}={status}``.
        gone: One for each pointer: the label where nothing with that text is there any more.
        headers: Sent along, such as an Authorization header; never shown.
        timeout_s: Seconds that connecting, and each read, may take.

    Raises:
        InputError: The URL, a pointer or a template cannot be used.
    """

    def __init__(  # noqa: PLR0913 - knobs, each with a default
        self,
        url: str,
        pointers: Sequence[str],
        templates: Sequence[str] = (),
        gone: Sequence[str] = (),
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        for what, given in (("label template", templates), ("template for what is gone", gone)):
            if given and len(given) != len(pointers):
                raise InputError(
                    "", f"one {what} for each pointer: got {len(given)} for {len(pointers)}"
                )
        for pointer in pointers:
            if pointer and not pointer.startswith("/"):
                raise InputError("", f"a JSON pointer begins with /, got {pointer!r}")
        self._url = url
        self.name: Final = _shown(url)
        self._pointers = pointers
        self._templates = [
            Template(text) for text in templates or ["{pointer}={value}"] * len(pointers)
        ]
        self._gone = [Template(text) for text in gone]
        self._headers = dict(headers or {})
        self._timeout_s = timeout_s

    def look(self) -> Snapshot:
        """Fetch the document once.

        Raises:
            InputError: It cannot be fetched, is too large or no JSON, or a template names a
                member that a value does not have.
        """
        document = self._fetch()
        things: list[Thing] = []
        for index, pointer in enumerate(self._pointers):
            found = _at(document, pointer)
            values = found if isinstance(found, list) else [] if found is _ABSENT else [found]
            things += [self._thing(index, pointer, value) for value in values]
        asked = [*self._pointers, *(each.text for each in (*self._templates, *self._gone))]
        return Snapshot(source=f"http {asked}", things=tuple(things))

    def _thing(self, index: int, pointer: str, value: Any) -> Thing:
        members = value if isinstance(value, dict) else {}
        values = {**members, "pointer": pointer, "value": value}
        label, gone = self._templates[index], self._gone[index] if self._gone else None
        for template in (label, gone):
            if template is not None:
                template.check(list(values), f"the value at {pointer or 'the top'} has")
        return Thing(label.fill(values, plain), gone.fill(values, plain) if gone else "")

    def _fetch(self) -> Any:
        headers = {"Accept": "application/json", **self._headers}
        try:
            request = Request(self._url, headers=headers)  # noqa: S310 - its scheme was checked
            with build_opener(_SameOrigin).open(request, timeout=self._timeout_s) as response:
                body = response.read(MOST_BYTES + 1)
        except HTTPError as error:
            error.close()
            raise InputError(self.name, f"answered {error.code} {error.reason}") from error
        except URLError as error:
            raise InputError(self.name, f"cannot be reached: {_reason(error.reason)}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise InputError(self.name, f"cannot be read: {_reason(error)}") from error
        if len(body) > MOST_BYTES:
            raise InputError(self.name, f"is larger than {MOST_BYTES >> 20} MiB")
        try:
            # Numbers stay as they are written: 19.90 is not 19.9.
            return json.loads(body, parse_float=_Written, parse_int=_Written)
        except (ValueError, RecursionError) as error:
            raise InputError(self.name, f"is not JSON: {error}") from error


class _Written(str):
    """A number with the digits of its document."""

    __slots__ = ()


class _SameOrigin(HTTPRedirectHandler):
    """Follows no redirect to another place: credentials would go there too."""

    def redirect_request(  # noqa: PLR0913, PLR0917 - urllib's own interface
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Request | None:
        here, there = urlsplit(req.full_url), urlsplit(newurl)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise URLError(f"it redirects to another place, {_shown(newurl)}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type] # typeshed names a narrower class


def _at(document: Any, pointer: str) -> Any:
    """Return what a pointer finds, or ``_ABSENT``."""
    found = document
    for part in pointer.split("/")[1:]:
        token = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(token, _ABSENT)
        elif isinstance(found, list) and token.isascii() and token.isdigit():
            index = int(token)
            found = found[index] if index < len(found) else _ABSENT
        else:
            return _ABSENT
    return found


def _shown(url: str) -> str:
    """Return a URL without what may be secret: user, password and query.

    Raises:
        InputError: It is no http or https URL.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname
        place = f"{host}:{parts.port}" if parts.port else str(host)
    except ValueError as error:
        raise InputError("", f"this is no URL: {error}") from error
    if parts.scheme not in _SCHEMES or not host:
        raise InputError("", "give an http or https URL, such as https://shop.example/orders")
    if parts.username or parts.password:
        raise InputError("", "a URL with a user or password is not taken; send a header instead")
    return urlunsplit((parts.scheme, place, parts.path, "", ""))


def _reason(reason: object) -> str:
    said = getattr(reason, "strerror", None) or str(reason)
    return " ".join(said.split()) or type(reason).__name__
