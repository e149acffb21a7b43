# ruff: noqa: INP001 - a script beside its pages, not a package
"""Write the tables of docs/attributes.md, docs/configuration.md and docs/metrics.md anew.

Run by ``make docs``::

    python docs/generate.py

What the tables say is read from the code: the text under a name in ``vocabulary.py`` or under a
field of a configuration section is its meaning. A test compares the pages with the code.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin

import msgspec

from otel_turnavoid import vocabulary
from otel_turnavoid.collector import components, judging, memory, securing
from otel_turnavoid.collector.duration import Duration
from otel_turnavoid.collector.endpoint import Endpoint
from otel_turnavoid.collector.section import Secret, Section
from otel_turnavoid.publish.reference import LABEL_VALUES, labels_table, metrics_table
from otel_turnavoid.vocabulary import (
    EVENT_EFFECTS_OBSERVED,
    EVENT_VERDICT_DECIDED,
    VERDICT,
    Attr,
    Env,
    GenAI,
    Reason,
    VerdictAttr,
    Word,
)

PAGES: Final = Path(__file__).parent


class Place(NamedTuple):
    """Where attributes stand."""

    heading: str
    about: str
    keys: tuple[str, ...]


ATTRIBUTES: Final = (
    Place(
        "On every entry",
        "Arm, variant and experiment may stand on the resource instead.",
        (Attr.ENTRY, Attr.RUN_ID, Attr.SEQ, Attr.ARM, Attr.VARIANT),
    ),
    Place(
        "On the Invoke",
        "The run's identity from its start; state and counts at its end.",
        (
            *(Attr.INVOKE_KIND, Attr.INPUT_DIGEST, Attr.EXPERIMENT_ID, Attr.UNIT_ID),
            *(Attr.TURN_INDEX, Attr.DECISION_BASIS, Attr.MECHANISM, Attr.LIFECYCLE, Attr.REASON),
            *(Attr.INVOKE_STATE, Attr.INVOKE_AGENT_TURNS, Attr.INVOKE_LLM_CALLS),
            *(Attr.INVOKE_TOOL_TURNS, Attr.INVOKE_ENTRIES, Attr.INVOKE_IMPAIRED),
        ),
    ),
    Place("On an AgentTurn", "", (Attr.TURN_DISPOSITION,)),
    Place(
        "On an LlmCall",
        "Beside the `gen_ai.*` attributes.",
        (
            *(Attr.CALL_ATTEMPT, Attr.CALL_INPUT_DIGEST, Attr.CALL_PURPOSE),
            *(Attr.CALL_DISPOSITION, Attr.CALL_SAMPLINGS),
        ),
    ),
    Place("On a ToolTurn", "", (Attr.TOOL_DISPOSITION, Attr.TOOL_CALLER)),
    Place(
        "On any span of a run",
        "",
        (
            *(Attr.OVERHEAD_KIND, Attr.COST_USD),
            *(Attr.RETAINED_TOKENS_REDUCED, Attr.RETAINED_LATENCY_REDUCED_MS),
        ),
    ),
    Place(
        "On an observation",
        f"A log record or a span named `{EVENT_EFFECTS_OBSERVED}`, with `{Attr.RUN_ID}` too.",
        (Attr.OBSERVER_ID, Attr.EFFECTS_LABELS, Attr.EFFECTS_ORDERED),
    ),
    Place(
        "On what is published",
        "Labels of metrics ([metrics.md](metrics.md)), beside arm, variant and so on from above.",
        (
            *(Attr.EVIDENCE, Attr.WITHHELD_CAUSE, Attr.COMPARISON, Attr.OUTCOME, Attr.SIDE),
            *(Attr.COMPONENT, Attr.BASIS, Attr.TOKEN_TYPE),
        ),
    ),
    Place(
        "On a verdict",
        f"The span `{VERDICT}` and the log record `{EVENT_VERDICT_DECIDED}`, beside the run's"
        " identity from above.",
        tuple(value for name, value in vars(VerdictAttr).items() if name.isupper()),
    ),
)
"""Every attribute of ours, by where it stands."""

_INTEGERS: Final = frozenset(
    {
        *(Attr.SEQ, Attr.TURN_INDEX, Attr.DECISION_BASIS, Attr.CALL_ATTEMPT, Attr.CALL_SAMPLINGS),
        *(Attr.INVOKE_AGENT_TURNS, Attr.INVOKE_LLM_CALLS, Attr.INVOKE_TOOL_TURNS),
        *(Attr.INVOKE_ENTRIES, Attr.INVOKE_IMPAIRED, Attr.RETAINED_TOKENS_REDUCED),
        *(VerdictAttr.DECISION, VerdictAttr.POTENTIAL, VerdictAttr.AVOIDED, VerdictAttr.WITHHELD),
        *(VerdictAttr.ADDED, VerdictAttr.EFFECTS_PRESERVED, VerdictAttr.EFFECTS_SUPPRESSED),
        *(VerdictAttr.CONTROL_TURNS, VerdictAttr.CANDIDATE_TURNS),
    }
)
_DOUBLES: Final = frozenset({Attr.COST_USD, Attr.RETAINED_LATENCY_REDUCED_MS})
_BOOLEANS: Final = frozenset({Attr.EFFECTS_ORDERED})
_LISTS: Final = frozenset(
    {
        *(Attr.EFFECTS_LABELS, VerdictAttr.CAUSES),
        *(VerdictAttr.CONTROL_EFFECTS, VerdictAttr.CANDIDATE_EFFECTS),
    }
)

NAMES: Final = (
    "SCOPE",
    "EVENT_EFFECTS_OBSERVED",
    "VERDICT_SCOPE",
    "VERDICT",
    "EVENT_VERDICT_DECIDED",
)
"""Scopes, spans and events of ours: their names in ``vocabulary``."""

RESOURCE: Final = ("SERVICE_NAME", "SERVICE_INSTANCE_ID")
"""Resource attributes that are read on every span and record: their names in ``vocabulary``."""

WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    **LABEL_VALUES,
    Attr.ENTRY: tuple(vocabulary.Entry),
    Attr.INVOKE_KIND: tuple(vocabulary.InvokeKind),
    Attr.INVOKE_STATE: tuple(vocabulary.InvokeState),
    Attr.REASON: tuple(Reason),
    Attr.TURN_DISPOSITION: tuple(vocabulary.Disposition),
    Attr.CALL_PURPOSE: tuple(vocabulary.Purpose),
    Attr.CALL_DISPOSITION: tuple(vocabulary.Disposition),
    Attr.TOOL_DISPOSITION: tuple(vocabulary.ToolDisposition),
    Attr.TOOL_CALLER: tuple(vocabulary.ToolCaller),
}
"""Attribute key -> the only values it may have; none for free names."""

SECTIONS: Final[tuple[tuple[str, type[Section]], ...]] = (
    ("processors.turnavoid", judging.JudgingSection),
    ("processors.turnavoid.arms.ATTRIBUTE.VALUE", judging.ArmSection),
    ("processors.turnavoid.purposes[]", judging.PurposeSection),
    ("processors.memory_limiter", memory.MemoryLimiter),
    ("receivers.otlp", components.OtlpReceiver),
    ("receivers.otlp.protocols", components.Protocols),
    ("receivers.otlp.protocols.grpc", components.GrpcProtocol),
    ("receivers.otlp.protocols.grpc.keepalive", components.Keepalive),
    ("receivers.otlp.protocols.grpc.keepalive.server_parameters", components.ServerParameters),
    ("receivers.otlp.protocols.http", components.HttpProtocol),
    ("tls of a receiver, of prometheus and of health_check", securing.ServerTls),
    ("auth of a receiver and of prometheus", securing.Auth),
    ("exporters.prometheus", components.PrometheusExporter),
    ("exporters.otlp", components.OtlpExporter),
    ("exporters.otlphttp", components.OtlpHttpExporter),
    ("tls of otlp and otlphttp", components.ClientTls),
    ("sending_queue", components.SendingQueue),
    ("retry_on_failure", components.RetryOnFailure),
    ("extensions.ledger", components.LedgerExtension),
    ("extensions.bearertokenauth", securing.BearerTokenAuth),
    ("extensions.bearertokenauth.tokens[]", securing.TokenFile),
    ("extensions.pages", components.PagesExtension),
    ("extensions.health_check", components.HealthCheck),
    ("service", components.Service),
    ("service.pipelines.SIGNAL", components.Pipeline),
    ("service.telemetry", components.Telemetry),
    ("service.telemetry.logs", components.Logs),
    ("service.telemetry.logs.sampling", components.LogSampling),
)
"""Where a section stands in a configuration, and what it is."""


def meanings(owner: type) -> dict[str, str]:
    """Return name -> the text under it, for the names that a class assigns."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    body = node.body if isinstance(node, ast.ClassDef) else []
    return dict(_texts(body))


def _texts(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for statement, after in pairwise(body):
        match statement, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as text)),
            ):
                yield name, " ".join(inspect.cleandoc(text).replace("``", "`").split())


def type_of(key: str) -> str:
    """Return the OTLP type of an attribute of ours."""
    if key in _INTEGERS:
        return "int"
    if key in _DOUBLES:
        return "double"
    if key in _BOOLEANS:
        return "bool"
    return "string[]" if key in _LISTS else "string"


def attributes_tables() -> str:
    """Return Markdown: a section for each place, a row for each attribute."""
    said: dict[str, str] = {}
    for owner in (Attr, VerdictAttr):
        said |= {getattr(owner, name): text for name, text in meanings(owner).items()}
    lines = []
    for heading, about, keys in ATTRIBUTES:
        lines += [f"## {heading}", "", *((about, "") if about else ())]
        lines += ["| Attribute | Type | Meaning | Values |", "|---|---|---|---|"]
        lines += [f"| `{key}` | {type_of(key)} | {said[key]} | {_values(key)} |" for key in keys]
        lines.append("")
    return "\n".join(lines)


def _values(key: str) -> str:
    return ", ".join(f"`{word}`" for word in WORDS.get(key, ()))


def usage_table() -> str:
    """Return Markdown: the GenAI keys of usage, in the order in which they are believed."""
    lines = ["| Tokens | Read from, the first that is there |", "|---|---|"]
    for kind, spellings in vocabulary.USAGE_SPELLINGS.items():
        lines.append(f"| `{kind}` | {', '.join(f'`{each}`' for each in spellings)} |")
    return "\n".join(lines)


def genai_list() -> str:
    """Return the other keys of the GenAI conventions that are read or written, one a line."""
    usage = {each for spellings in vocabulary.USAGE_SPELLINGS.values() for each in spellings}
    keys = [value for name, value in vars(GenAI).items() if name.isupper() and value not in usage]
    return "\n".join(f"- `{key}`" for key in keys)


def names_table() -> str:
    """Return Markdown: a row for each scope, span and event that has a name of ours."""
    lines = ["| Name | Meaning |", "|---|---|"]
    said = _module_meanings()
    lines += [f"| `{getattr(vocabulary, name)}` | {said[name]} |" for name in NAMES]
    return "\n".join(lines)


def resource_table() -> str:
    """Return Markdown: a row for each resource attribute that says who sent something."""
    lines = ["| Attribute | Meaning |", "|---|---|"]
    said = _module_meanings()
    lines += [f"| `{getattr(vocabulary, name)}` | {said[name]} |" for name in RESOURCE]
    return "\n".join(lines)


def _module_meanings() -> dict[str, str]:
    return dict(_texts(ast.parse(inspect.getsource(vocabulary)).body))


def environment_table() -> str:
    """Return Markdown: a row for each environment variable of ours."""
    lines = ["| Variable | Meaning |", "|---|---|"]
    lines += [f"| `{getattr(Env, name)}` | {text} |" for name, text in meanings(Env).items()]
    return "\n".join(lines)


def configuration_tables() -> str:
    """Return Markdown: a section for each part of a configuration, a row for each key."""
    lines = []
    for place, section in SECTIONS:
        said = meanings(section)
        heading = f"`{place}`" if " of " not in place else _first_word_as_code(place)
        lines += [f"### {heading}", "", "| Key | Type | Default | Meaning |", "|---|---|---|---|"]
        for field in msgspec.structs.fields(section):
            row = (f"`{field.encode_name}`", _kind(field.type), _default(field), said[field.name])
            lines.append(f"| {' | '.join(row)} |")
        lines.append("")
    return "\n".join(lines)


def _first_word_as_code(place: str) -> str:
    first, rest = place.split(" ", maxsplit=1)
    return f"`{first}` {rest}"


def _kind(wanted: Any) -> str:
    """Return what a value of this type is, for people."""
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin in (Union, UnionType):
        return _kind(next(each for each in arguments if each is not NoneType))
    if origin is dict:
        return f"mapping to {_kind(arguments[1])}"
    if origin in (tuple, frozenset):
        return f"list of {_kind(arguments[0])}"
    if issubclass(wanted, Word):
        *others, last = (f"`{word}`" for word in wanted)
        return f"{', '.join(others)} or {last}"
    if issubclass(wanted, Section):
        return "section"
    return _PLAIN[wanted]


_PLAIN: Final[Mapping[type, str]] = {
    Duration: "duration",
    Endpoint: "`host:port`",
    Secret: "text",
    str: "text",
    bool: "`true` or `false`",
    int: "whole number",
    float: "number",
}


def _default(field: msgspec.structs.FieldInfo) -> str:
    """Return the default as one would write it."""
    if field.required:
        return "required"
    value = field.default
    if value is msgspec.NODEFAULT:
        value = field.default_factory()
    if value is None or isinstance(value, Section):
        return ""
    return f"`{_written(value)}`"


def _written(value: Any) -> str:
    if isinstance(value, Duration):
        return duration(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, frozenset):
        return f"[{', '.join(sorted(value))}]"
    if isinstance(value, tuple) and not isinstance(value, Endpoint):
        return f"[{', '.join(value)}]"
    return str(value)


def duration(ns: int) -> str:
    """Return a duration in the largest unit that leaves no rest."""
    units = (("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000))
    for unit, size in units:
        if ns and not ns % size:
            return f"{ns // size}{unit}"
    return f"{ns // 1_000_000}ms" if ns else "0s"


def _block(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)


def _metrics(page: str) -> str:
    """Return the page with new tables, which are its end."""
    head = page.split(f"{labels_table().splitlines()[0]}\n", maxsplit=1)[0]
    return f"{head}{labels_table()}\n\n{metrics_table()}"


BLOCKS: Final = {
    "attributes.md": {
        "attributes": attributes_tables,
        "names": names_table,
        "resource": resource_table,
        "usage": usage_table,
        "genai": genai_list,
        "environment": environment_table,
    },
    "configuration.md": {"configuration": configuration_tables},
}
"""Page -> marked block -> what stands in it."""


def pages() -> dict[str, str]:
    """Return the pages with all tables made anew, by name."""
    made = {}
    for name, blocks in BLOCKS.items():
        text = (PAGES / name).read_text(encoding="utf-8")
        for block, table in blocks.items():
            body = f"\n{table().strip()}\n\n".replace("\\", r"\\")
            text, found = _block(block).subn(body, text)
            if found != 1:
                message = f"{name}: wants the block {block} once, has it {found} times"
                raise ValueError(message)
        made[name] = text
    made["metrics.md"] = _metrics((PAGES / "metrics.md").read_text(encoding="utf-8"))
    return made


if __name__ == "__main__":
    for name, text in pages().items():
        (PAGES / name).write_text(text, encoding="utf-8")
