"""One field of a server's form, as a person is asked for it: what it takes, what that means, and what it is for."""

from __future__ import annotations

from collections.abc import Iterator

from mcp_workbench.catalog.rendering import notes
from mcp_workbench.cli.parameters import Parameters, as_json
from mcp_workbench.text.sanitize import escape


def prompt(form: Parameters, name: str) -> str:
    """The question, with everything invisible in it escaped."""
    schema = form.schema(name)
    said = schema.get("description") or schema.get("title") or ""
    about = f" {_whole(said)}" if isinstance(said, str) and said else ""
    return f"  {escape(name)} ({', '.join(filter(None, _takes(form, name)))}){about}: "


def _takes(form: Parameters, name: str) -> Iterator[str]:
    schema = form.schema(name)
    kind = schema.get("type")
    yield _choices(form, name) or (escape(kind) if isinstance(kind, str) else "")
    yield from (_whole(note) for note in notes.constraints(schema))
    yield "" if name in form.required else "optional"
    if form.is_list(name):
        yield 'several as ["...", "..."]'
    if "default" in schema:
        yield f"default {_whole(bytes(as_json(schema['default'])).decode())}"


def _choices(form: Parameters, name: str) -> str:
    titles = form.titles(name)
    told = [(choice, titles.get(choice, "")) for choice in form.choices(name)]
    return " or ".join(f"{escape(choice)}: {escape(title)}" if title else escape(choice) for choice, title in told)


def _whole(text: str) -> str:
    """All of a text, on one line: who is asked has nowhere else to read it."""
    return escape(" ".join(text.split()), len(text))
