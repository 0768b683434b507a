"""Models of the tools, prompts, resources and templates that every official client accepts, typed as loosely as theirs.

If a definition decodes here, the TypeScript SDK 1.x and 2.x and the Python SDK 1.x and 2.x accept it, in both eras of
the protocol. Where they differ, the strictest one counts: TypeScript refuses `null` for an optional member, Python
refuses a fraction as `size`. Members that the models do not type may have any value.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

T = TypeVar("T")

_MOST = 2**53
_DATE = (
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
)
_HOUR = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_DATE_TIME = rf"^{_DATE}T{_HOUR}:[0-5][0-9](?:\.[0-9]+)?(?:Z|[+-]{_HOUR})\Z"


class Unrepairable(Exception):
    """Official clients refuse a definition, and it can't be repaired without guessing."""


class AnyObject(Struct):
    """A JSON object with any members."""


Text: TypeAlias = str | UnsetType
Flag: TypeAlias = bool | UnsetType
Object: TypeAlias = AnyObject | UnsetType


class Icon(Struct, rename="camel"):
    src: str
    mime_type: Text = UNSET
    sizes: list[str] | UnsetType = UNSET
    theme: Literal["light", "dark"] | UnsetType = UNSET


class _Described(Struct):
    """Members that every definition may have."""

    title: Text = UNSET
    description: Text = UNSET
    icons: list[Icon] | UnsetType = UNSET
    meta: Object = field(default=UNSET, name="_meta")


class ObjectSchema(Struct):
    """A JSON Schema of an object, typed as far as clients check it when they get a list."""

    type: Literal["object"]
    properties: dict[str, AnyObject] | UnsetType = UNSET
    required: list[str] | UnsetType = UNSET
    dialect: Text = field(default=UNSET, name="$schema")


class ToolAnnotations(Struct, rename="camel"):
    title: Text = UNSET
    read_only_hint: Flag = UNSET
    destructive_hint: Flag = UNSET
    idempotent_hint: Flag = UNSET
    open_world_hint: Flag = UNSET


class ToolExecution(Struct, rename="camel"):
    task_support: Literal["required", "optional", "forbidden"] | UnsetType = UNSET


class Tool(_Described, rename="camel", kw_only=True):
    name: str
    input_schema: ObjectSchema
    output_schema: ObjectSchema | UnsetType = UNSET
    """Handshake clients also compile it: see `output_schemas`."""
    annotations: ToolAnnotations | UnsetType = UNSET
    execution: ToolExecution | UnsetType = UNSET


class PromptArgument(Struct):
    name: str
    title: Text = UNSET
    description: Text = UNSET
    required: Flag = UNSET


class Prompt(_Described, kw_only=True):
    name: str
    arguments: list[PromptArgument] | UnsetType = UNSET


class Annotations(Struct, rename="camel"):
    audience: list[Literal["user", "assistant"]] | UnsetType = UNSET
    priority: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET
    last_modified: Annotated[str, Meta(pattern=_DATE_TIME)] | UnsetType = UNSET


class _Located(_Described, rename="camel", kw_only=True):
    name: str
    mime_type: Text = UNSET
    annotations: Annotations | UnsetType = UNSET


class Resource(_Located, kw_only=True):
    uri: str
    size: Annotated[int, Meta(ge=-_MOST, le=_MOST)] | UnsetType = UNSET


class ResourceTemplate(_Located, rename="camel", kw_only=True):
    uri_template: str


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder(model: type[T]) -> msgspec.json.Decoder[T]:
    """A cached decoder, created on first use: most runs list no resources."""
    if (found := _decoders.get(model)) is None:
        found = _decoders[model] = msgspec.json.Decoder(model)
    return found


def refusal(model: Any, raw: msgspec.Raw) -> str | None:
    """The path of the first member that official clients refuse; None if they accept the value.

    The path contains no text of the server, so it is safe to show to a model.
    """
    try:
        decoder(model).decode(raw)
    except msgspec.DecodeError as error:
        return str(error).rpartition(" - at `$")[2].strip(".`")
    return None
