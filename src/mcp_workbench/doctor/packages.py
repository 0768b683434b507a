"""Which packages a server's command fetches and runs, and whether it says which version of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from mcp_workbench.doctor.versions import Cache, Package, of_image, of_npm, of_python, of_registry
from mcp_workbench.doctor.wrapped import Words, name_of, read_options, simple_commands

_Options: TypeAlias = list[tuple[str, str]]

_STAYS: Final = frozenset(("--no-install", "--no", "--offline", "--cached-only", "--pull never"))
"""Options with which nothing is fetched."""
_VARIABLE: Final = r"[$`]|%\w+%"

_NPX_VALUES: Final = (
    r"-p|--package|-c|--call|--prefix|--registry|--cache|--userconfig|-w|--workspace|-C|--dir|--cwd|--filter"
)
_UV_VALUES: Final = (
    r"-p|--python|--from|--spec|-w|--with|--with-editable|--with-requirements|-c|--constraints|-b|--build-constraints"
    r"|--overrides|--index|--default-index|-i|--index-url|--extra-index-url|-f|--find-links|-P|--upgrade-package"
    r"|--torch-backend|--reinstall-package|--index-strategy|--keyring-provider|-C|--config-setting|--exclude-newer"
    r"|--link-mode|--refresh-package|--cache-dir|--python-preference|--env-file|--directory|--project|--config-file"
    r"|--color|--allow-insecure-host|--pip-args|--suffix|--extra|--no-extra|--group|--no-group|--only-group|--package"
)
_DENO_VALUES: Final = r"-c|--config|--import-map|--lock|--cert|--location|--seed|-L|--log-level"
"""Options that are followed by a value."""
_DOCKER_VALUES: Final = (
    r"(?!-[ditPqD]+$|--detach$|--interactive$|--tty$|--publish-all$|--rm$|--rmi$|--init$|--privileged$|--quiet$"
    r"|--read-only$|--no-healthcheck$|--oom-kill-disable$|--sig-proxy$|--disable-content-trust$|--replace$|--help$"
    r"|--use-api-socket$|--debug$|--tls$|--tlsverify$|-[a-zA-Z][^a-zA-Z-]).*"
)
"""Most options of `docker run` have a value, so those that have none are known; `-v/a:/b` has it in itself."""
_REQUIREMENT: Final = r"(?:\[[^\]]*\]|[^,\[]|,(?!\s*[A-Za-z]))+"
"""One of several that commas separate, as they do the versions of one."""


def fetched_packages(command: str, arguments: Sequence[str]) -> list[Package]:
    """The packages that a command fetches, each once; without those that a variable names."""
    found = [package for words in simple_commands([command, *arguments]) for package in _fetched(words)]
    return list(dict.fromkeys(found))


def _fetched(words: Words) -> Iterator[Package]:
    program = name_of(words[0])
    for (first, *subcommands), launcher in _LAUNCHERS.items():
        given = _given(words[1:], subcommands, launcher.with_value) if program == first else None
        if given is None:
            continue
        options, rest = given
        if any(f"{name} {value}".strip() in _STAYS for name, value in options):
            return
        for spec in launcher.specs(options, rest):
            package = launcher.judged(spec) if spec and not re.search(_VARIABLE, spec) else None
            if package is not None:
                yield package._replace(cache=launcher.cache)


def _given(words: Words, subcommands: Words, with_value: str) -> tuple[_Options, Words] | None:
    """The options, also those before a subcommand, and what follows; None where another subcommand stands there."""
    options, rest = read_options(words, with_value)
    for name in subcommands:
        if rest[:1] != [name]:
            return None
        more, rest = read_options(rest[1:], with_value)
        options += more
    return options, rest


# -- which arguments they are


def _first(_options: _Options, rest: Words) -> Words:
    return rest[:1]


def _of_npx(options: _Options, rest: Words) -> Words:
    return _values(options, "-p", "--package") or rest[:1]


def _of_uvx(options: _Options, rest: Words) -> Words:
    return [*(_values(options, "--from", "--spec") or rest[:1]), *_added(options, rest)]


def _added(options: _Options, _rest: Words) -> Words:
    return [one.strip() for value in _values(options, "-w", "--with") for one in re.findall(_REQUIREMENT, value)]


def _values(options: _Options, *names: str) -> Words:
    return [value for name, value in options if name in names]


class _Launcher(NamedTuple):
    """A program that fetches what it runs."""

    with_value: str
    specs: Callable[[_Options, Words], Words]
    judged: Callable[[str], Package | None]
    cache: Cache = ""


_NPX: Final = _Launcher(_NPX_VALUES, _of_npx, of_npm, "npx")
_LIKE_NPX: Final = _NPX._replace(cache="")
_UVX: Final = _Launcher(_UV_VALUES, _of_uvx, of_python, "uv")
_DOCKER: Final = _Launcher(_DOCKER_VALUES, _first, of_image)
_LAUNCHERS: Final[Mapping[tuple[str, ...], _Launcher]] = {
    ("npx",): _NPX,
    ("bunx",): _LIKE_NPX,
    ("bun", "x"): _LIKE_NPX,
    ("npm", "exec"): _NPX,
    ("npm", "x"): _NPX,
    ("pnpx",): _LIKE_NPX,
    ("pnpm", "dlx"): _LIKE_NPX,
    ("yarn", "dlx"): _LIKE_NPX,
    ("uvx",): _UVX,
    ("uv", "tool", "run"): _UVX,
    ("uv", "run"): _Launcher(_UV_VALUES, _added, of_python),
    ("pipx", "run"): _UVX._replace(cache=""),
    ("deno", "run"): _Launcher(_DENO_VALUES, _first, of_registry),
    ("docker", "run"): _DOCKER,
    ("docker", "container", "run"): _DOCKER,
    ("podman", "run"): _DOCKER,
}
LAUNCHERS: Final = frozenset(program for program, *_ in _LAUNCHERS)
"""Programs that run packages which are not their own."""
