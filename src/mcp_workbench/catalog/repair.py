"""Repairs definitions that official clients would refuse, if their meaning is clear.

A client that refuses one definition rejects the whole list, so a definition is offered only if every official client
accepts it. If it can be repaired without guessing, it is repaired first:

- an optional member that clients refuse (`null`, or of the wrong type) is dropped, as if the server had not sent it.
  Only the smallest such part is dropped, for example `annotations.title` or a single icon. All of them are descriptive;
- an `inputSchema` that is missing, `null` or empty, or that does not name its type, describes an object, since
  arguments are objects;
- an `outputSchema` that handshake clients can't compile is dropped: they then do not validate the tool's results;
- a resource or template without a name gets its URI as its name.

Members that say how to call a tool or a prompt are never guessed: if they are invalid, the definition is refused.
Members that need no repair keep their bytes.
"""

from __future__ import annotations

from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec import Raw, Struct

from mcp_workbench.catalog import official_models as official
from mcp_workbench.catalog.official_models import Unrepairable
from mcp_workbench.catalog.output_schemas import is_compilable
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.downgrade import wrapped_schema

REPAIRED_ITEMS = 100
"""The longest list in a definition, such as its icons, whose items are repaired one by one. Real lists are shorter. A
longer list that clients refuse is not repaired."""

_EMPTY: Final = frozenset({b"null", b"{}", b"[]"})
"""Values that servers send for "nothing". Some languages write an empty object as an empty list."""
_OBJECT: Final = Raw(b'{"type":"object"}')
_BOOLEAN_SCHEMAS: Final = {b"true": Raw(b"{}"), b"false": Raw(b'{"not":{}}'), b"null": Raw(b"{}")}
_ESSENTIAL: Final = frozenset({"properties", "required", "arguments"})
"""Optional members that say how to call something, or that the rest of a schema depends on."""


def repair_tool(raw: Raw, *, handshake: bool) -> tuple[Raw, bool]:
    """Repair a tool for clients of an era. Raises `Unrepairable`.

    Returns the tool, and whether its output schema is wrapped: then its results must be wrapped too.
    """
    given = jsonrpc.fields(raw)
    members = dict(given)
    members["inputSchema"] = _input_schema(given.get("inputSchema"))
    output, wraps_output = _output_schema(members.pop("outputSchema", None))
    members |= {"outputSchema": output} if output is not None else {}
    _leave_out_refused(members, official.Tool)
    _check(members, official.Tool)
    if not handshake:
        members |= _modern_schemas(given)
    in_order = {name: members[name] for name in (*given, *members) if name in members}
    return _encoded(in_order), handshake and wraps_output


def repair_item(raw: Raw, model: type[Struct], named_by: str) -> Raw:
    """Repair a prompt, resource or template. Raises `Unrepairable`."""
    members = jsonrpc.fields(raw)
    if not jsonrpc.is_text(members.get("name", jsonrpc.NOTHING)):
        members["name"] = members[named_by]
    if "arguments" in members:
        _repair_arguments(members)
    _leave_out_refused(members, model)
    _check(members, model)
    return _encoded(members)


def _check(members: dict[str, Raw], model: type[Struct]) -> None:
    if (place := official.refusal(model, Raw(jsonrpc.encode(members)))) is not None:
        raise Unrepairable(f"official clients refuse its {place or 'definition'}")


def _encoded(members: dict[str, Raw]) -> Raw:
    return Raw(msgspec.json.format(jsonrpc.encode(members), indent=-1))


# -- schemas


def _input_schema(given: Raw | None) -> Raw:
    if given is None or _compact(given) in _EMPTY or bytes(given) == b"true":
        return _OBJECT
    if not jsonrpc.is_object(given):
        return given
    return Raw(jsonrpc.encode(_object_schema({"type": Raw(b'"object"'), **jsonrpc.fields(given)})))


def _output_schema(given: Raw | None) -> tuple[Raw | None, bool]:
    """The schema as handshake clients accept it, and whether it was wrapped; None if they can't compile it at all."""
    if given is None or not jsonrpc.is_object(given):
        return None, False
    members = jsonrpc.fields(given)
    if not _is_dialect(members.get("$schema")):
        del members["$schema"]
        given = Raw(jsonrpc.encode(members))
    wrapped = wrapped_schema(given)
    schema = wrapped or Raw(jsonrpc.encode(_object_schema(members)))
    return (schema, wrapped is not None) if is_compilable(schema) else (None, False)


def _object_schema(members: dict[str, Raw]) -> dict[str, Any]:
    """The members of an object schema, repaired without changing what it accepts."""
    schema: dict[str, Any] = dict(members)
    if _names_object(members["type"]):
        schema["type"] = "object"
    if not _is_dialect(members.get("$schema")):
        del schema["$schema"]
    if bytes(members.get("required", b"")) == b"null":
        del schema["required"]
    properties = members.get("properties")
    if properties is not None and _compact(properties) in _EMPTY:
        schema["properties"] = {}
    elif properties is not None and jsonrpc.is_object(properties):
        named = jsonrpc.fields(properties)
        schema["properties"] = {name: _BOOLEAN_SCHEMAS.get(bytes(one), one) for name, one in named.items()}
    return schema


def _names_object(raw: Raw) -> bool:
    """Whether a `type` is null or a list that contains "object"."""
    if jsonrpc.is_null(raw):
        return True
    try:
        return "object" in msgspec.json.decode(raw, type=list[str])
    except msgspec.ValidationError:
        return False


def _is_dialect(raw: Raw | None) -> bool:
    return raw is None or jsonrpc.is_text(raw)


def _modern_schemas(given: dict[str, Raw]) -> dict[str, Raw]:
    """The schemas that modern clients accept, and so get unchanged."""
    kept: dict[str, Raw] = {}
    for name in ("inputSchema", "outputSchema"):
        members = jsonrpc.members(given.get(name))
        typed = name == "outputSchema" or jsonrpc.text_or_none(members.get("type")) == "object"
        if name in given and jsonrpc.is_object(given[name]) and typed and _is_dialect(members.get("$schema")):
            kept[name] = given[name]
    return kept


# -- members


def _repair_arguments(members: dict[str, Raw]) -> None:
    """Drop the descriptive members of a prompt's arguments that clients refuse."""
    arguments = members["arguments"]
    if _compact(arguments) in _EMPTY:
        del members["arguments"]
        return
    try:
        listed = msgspec.json.decode(arguments, type=list[dict[str, Raw]])
    except msgspec.ValidationError:
        return
    if len(listed) > REPAIRED_ITEMS:
        return
    for argument in listed:
        if bytes(argument.get("required", b"")) == b"null":
            del argument["required"]
        _leave_out_refused(argument, official.PromptArgument)
    members["arguments"] = Raw(jsonrpc.encode(listed))


def _leave_out_refused(members: dict[str, Raw], model: type[Struct]) -> None:
    """Drop each optional member that clients refuse, or only the part of it that they refuse."""
    for field in msgspec.structs.fields(model):
        name = field.encode_name
        is_kept = name not in members or field.required or name in _ESSENTIAL
        if is_kept or official.refusal(field.type, members[name]) is None:
            continue
        model_of_member = get_args(field.type)[0]  # the rest of the union means that it may be absent
        if (part := _accepted_part(members[name], model_of_member)) is None:
            del members[name]
        else:
            members[name] = part


def _accepted_part(raw: Raw, model: Any) -> Raw | None:
    """An object without the members that clients refuse, or a list without such items; None if nothing is left."""
    if official.refusal(model, raw) is None:
        return raw
    if get_origin(model) is list and jsonrpc.is_list(raw):
        items = msgspec.json.decode(raw, type=list[Raw])
        if len(items) > REPAIRED_ITEMS:
            return None
        parts = (_accepted_part(item, get_args(model)[0]) for item in items)
        kept = [part for part in parts if part is not None]
        return Raw(jsonrpc.encode(kept)) if kept else None
    if isinstance(model, type) and issubclass(model, Struct) and jsonrpc.is_object(raw):
        members = jsonrpc.fields(raw)
        _leave_out_refused(members, model)
        part = Raw(jsonrpc.encode(members))
        return part if official.refusal(model, part) is None else None
    return None


def _compact(raw: Raw) -> bytes:
    return msgspec.json.format(raw, indent=-1)
