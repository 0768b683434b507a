"""Candidates for shell completion: commands, options, and names from the configuration and the catalog.

It starts nothing and reports no errors: a configuration that can't be read offers no names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from mcp_workbench import logger
from mcp_workbench.catalog.definition import Definition
from mcp_workbench.cli.commands import COMMANDS, Command, find
from mcp_workbench.cli.config_selection import config_source
from mcp_workbench.cli.options import DEBUG, GENERAL, HELP, Given, Option
from mcp_workbench.cli.parser import END_OF_OPTIONS, split_words
from mcp_workbench.config.environment import is_default, is_own
from mcp_workbench.config.load import config_of
from mcp_workbench.config.model import Config
from mcp_workbench.errors import WorkbenchError

SHELLS: Final = ("bash", "zsh", "fish")

Offer: TypeAlias = tuple[str, str]
"""A candidate and its description."""
FILES: Final[Offer] = ("", "")
"""Tells the shell to complete file names itself."""
_FILES_META: Final = frozenset(("FILE", "FOLDER", "PROGRAM"))


def complete(words: list[str], incomplete: str) -> list[Offer]:
    """Complete the last, incomplete word of a command line."""
    while words and words[0] == DEBUG.name:
        words = words[1:]
    command = find(words[0]) if words else None
    offers = _of_command(command, words[1:], incomplete) if command is not None else _commands(words, incomplete)
    chosen = [
        offer for offer in offers if offer == FILES or (offer[0].startswith(incomplete) and offer[0].isprintable())
    ]
    return [FILES] if FILES in chosen else chosen


def _commands(words: list[str], incomplete: str) -> list[Offer]:
    if words:
        return []
    if incomplete.startswith("-"):
        return [(option.name, option.help) for option in (HELP, *GENERAL)]
    return [(command.name, command.summary) for command in COMMANDS]


def _of_command(command: Command, words: list[str], incomplete: str) -> Iterable[Offer]:
    split = split_words(words, command.options)
    given = split.given(command)
    last = split.options[-1] if split.options else None
    if last is not None and last.is_incomplete and last.option is not None:
        return _values(last.option, given, incomplete)
    if incomplete.startswith("-") and END_OF_OPTIONS not in words:
        name, equals, value = incomplete.partition("=")
        option = next((one for one in command.options if one.name == name and one.metavar), None)
        if equals and option is not None:
            found = _values(option, given, value)
            return [offer if offer == FILES else (f"{name}={offer[0]}", offer[1]) for offer in found]
        return [(one.name, one.help) for one in (*command.options, HELP) if one.repeated or one.key not in given]
    if len(split.arguments) < len(command.arguments):
        argument = command.arguments[len(split.arguments)]
        found = _named(argument.completer, given, incomplete) or _files(argument.metavar)
    else:
        found = _named(command.completer, given, incomplete)
    return found if END_OF_OPTIONS in words else _with_end_of_options(found)


def _with_end_of_options(found: list[Offer]) -> list[Offer]:
    """Offer `--` instead of names that begin with a dash: without it they would be parsed as options."""
    plain = [offer for offer in found if not offer[0].startswith("-")]
    return plain if len(plain) == len(found) else [*plain, (END_OF_OPTIONS, "End of options.")]


def _values(option: Option, given: Given, incomplete: str) -> Iterable[Offer]:
    if option.choices:
        return [(choice, "") for choice in option.choices]
    return _named(option.completer, given, incomplete) or _files(option.metavar)


def _files(metavar: str) -> list[Offer]:
    return [FILES] if metavar.strip("[]") in _FILES_META else []


def _named(known: str, given: Given, incomplete: str) -> list[Offer]:
    """Names from one completer: fixed ones, or names from the configuration and the catalog."""
    if (fixed := _fixed(known, given, incomplete)) is not None:
        return list(fixed)
    logger.log.set_level("off")
    try:
        config = config_of(config_source(given, may_ask=False), strict=False)
    except WorkbenchError:
        return []
    return list(_KINDS[known](config, given, incomplete))


def _fixed(known: str, given: Given, incomplete: str) -> Iterable[Offer] | None:
    """Names that do not depend on a configuration; None for other completers."""
    match known:
        case "":
            return []
        case "shell":
            return [(name, "") for name in SHELLS]
        case "variable":
            return [(name, "") for name in os.environ if not is_default(name) and not is_own(name)]
        case "host":
            from mcp_workbench.hosts.registry import HOSTS  # noqa: PLC0415 -- few completions need it

            return [(host.key, host.title) for host in HOSTS]
        case "page":
            return _pages(given, incomplete)
        case _:
            return None


def _pages(given: Given, incomplete: str) -> Iterator[Offer]:
    """Pages by name, with or without their folder; after `PAGE#` or `PAGE`, the sections of that page."""
    from mcp_workbench.cli import manual  # noqa: PLC0415 -- as above
    from mcp_workbench.command_errors import PageNotFound  # noqa: PLC0415

    name, is_section, _ = incomplete.partition("#")
    named = given.words[0] if given.words else name
    try:
        known = manual.pages()
        if "search" in given:
            return
        if given.words or is_section:
            before = "" if given.words else f"{name}#"
            yield from ((f"{before}{anchor}", title) for anchor, title in manual.find(named, known).anchors().items())
            return
    except PageNotFound:
        return
    short = incomplete and not any(one.startswith(incomplete) for one in known)
    yield from ((one.rpartition("/")[2] if short else one, page.title) for one, page in known.items())


def _toolboxes(config: Config, _given: Given, _incomplete: str) -> Iterator[Offer]:
    for toolbox in config.toolboxes.values():
        yield toolbox.name, " ".join(toolbox.description.split())


def _servers(config: Config, given: Given, _incomplete: str) -> Iterator[Offer]:
    toolbox = config.toolboxes.get(given.get("toolbox", ""))
    yield from ((name, "") for name in (toolbox.servers if toolbox is not None else ()))


def _any_server(config: Config, _given: Given, _incomplete: str) -> Iterator[Offer]:
    holders: dict[str, list[str]] = {}
    for toolbox in config.toolboxes.values():
        for name in (*toolbox.servers, *toolbox.disabled):
            holders.setdefault(name, []).append(toolbox.name)
    yield from ((name, f"in {', '.join(toolboxes)}") for name, toolboxes in holders.items())


def _tools(config: Config, given: Given, _incomplete: str) -> Iterator[Offer]:
    from mcp_workbench.catalog.rendering.render import first_sentence  # noqa: PLC0415 -- only tools need it

    for name, definition in _definitions(config, given).items():
        yield name, first_sentence(definition)


def _arguments(config: Config, given: Given, incomplete: str) -> Iterator[Offer]:
    """`key=` for each parameter that is not on the line yet; after `key=`, its possible values."""
    definition = _definitions(config, given).get(given.get("tool", ""))
    if definition is None:
        return
    from mcp_workbench.cli.parameters import Parameters  # noqa: PLC0415 -- names are completed without it

    parameters = Parameters.of(definition)
    name, equals, _ = incomplete.partition("=")
    if equals:
        choices = parameters.choices(name)
        yield from ((f"{name}={value}", "") for value in choices)
        if not choices and parameters.is_text(name):
            yield FILES
        return
    there = {word.partition("=")[0].removesuffix(":") for word in given.words}
    for one in parameters.names:
        if one not in there or parameters.is_list(one):
            yield f"{one}=", parameters.about(one)


def _definitions(config: Config, given: Given) -> Mapping[str, Definition]:
    """The cached tools of the named server."""
    toolbox = config.toolboxes.get(given.get("toolbox", ""))
    server = toolbox.servers.get(given.get("server", "")) if toolbox is not None else None
    if server is None:
        return {}
    from mcp_workbench.cli.server_states import known_tools  # noqa: PLC0415 -- as above

    known = known_tools(config, [server]).get(server.identifier)
    return known.listing.tools if known is not None else {}


_KINDS: Final[Mapping[str, Callable[[Config, Given, str], Iterator[Offer]]]] = {
    "toolbox": _toolboxes,
    "server": _servers,
    "any_server": _any_server,
    "tool": _tools,
    "argument": _arguments,
}
