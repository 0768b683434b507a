"""Finds the packages that a server's command fetches and runs, and whether each has a fixed version.

It unwraps `env` and similar programs, shells with `-c` and `cmd /c` first. It splits a shell line into words and
operators, does not expand `$...`, and skips a line with unbalanced quotes. Local files and archives have no version,
so they are not reported.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

Words: TypeAlias = list[str]

_WRAPPERS: Final[Mapping[str, str]] = {
    "env": r"-u|--unset|-C|--chdir",
    "nice": r"-n|--adjustment",
    "time": r"-o|--output|-f|--format",
    "exec": r"-a",
    **dict.fromkeys(("nohup", "command", "if", "then", "else", "do", "while", "!", "{"), r"(?!)"),
}
"""Programs and keywords that precede a command, with their options that take a value."""
_SHELLS: Final = frozenset(("sh", "bash", "zsh", "dash", "ksh"))
_SHELL_VALUES: Final = r"[-+]\w*[oO]|--rcfile|--init-file"
_LINE_FOLLOWS: Final = r"-[A-Za-z]*c[A-Za-z]*"
_ASSIGNMENT: Final = r"(?s:[A-Za-z_]\w*=.*)"
_OPERATORS: Final = "();<>|&\n"


def name_of(program: str) -> str:
    """The name of a program without its folder and the suffix of Windows."""
    return re.sub(r"\.(?:exe|cmd|bat)$", "", re.split(r"[/\\]", program)[-1].lower())


def simple_commands(command: Sequence[str]) -> Iterator[Words]:
    """The commands that are finally executed, in order: program and arguments."""
    waiting = [list(command)]
    while waiting:
        words = waiting.pop()
        inner = _unwrapped(words)
        if inner is None:
            yield words
        else:
            waiting.extend(reversed(list(filter(None, inner))))


def read_options(words: Sequence[str], with_value: str) -> tuple[list[tuple[str, str]], Words]:
    """The leading options with their values, and the words that follow."""
    options: list[tuple[str, str]] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        name, equals, value = words[at].partition("=")
        at += 1
        if name == "--":
            break
        if not equals and at < len(words) and re.fullmatch(with_value, name):
            value = words[at]
            at += 1
        options.append((name, value))
    return options, list(words[at:])


def _unwrapped(words: Words) -> Iterable[Words] | None:
    """The commands that a wrapper starts; None if the program is not a wrapper."""
    program = name_of(words[0])
    if program in _WRAPPERS or re.fullmatch(_ASSIGNMENT, words[0]):
        return [_without_wrappers(words)]
    if program in _SHELLS:
        options, rest = read_options(words[1:], _SHELL_VALUES)
        has_line = any(re.fullmatch(_LINE_FOLLOWS, name) for name, _ in options)
        return _commands_of_line(rest[0]) if has_line and rest else []
    if program == "cmd":
        return _commands_of_cmd(words[1:])
    return None


def _without_wrappers(words: Words) -> Words:
    """The command without the wrappers and assignments that precede it."""
    at = 0
    while at < len(words):
        with_value = _WRAPPERS.get(name_of(words[at]))
        if with_value is not None:
            at = len(words) - len(read_options(words[at + 1 :], with_value)[1])
        elif re.fullmatch(_ASSIGNMENT, words[at]):
            at += 1
        else:
            break
    return words[at:]


def _commands_of_line(line: str) -> list[Words]:
    reader = shlex.shlex(line, posix=True, punctuation_chars=_OPERATORS)
    reader.whitespace, reader.whitespace_split, reader.commenters = " \t\r", True, ""
    commands: list[Words] = [[]]
    try:
        for word in reader:
            if not word or word.strip(_OPERATORS):
                commands[-1].append(word)
            elif "<" in word or ">" in word:
                next(reader, "")  # the file of the redirection
            else:
                commands.append([])
    except ValueError:
        return []
    return commands


def _commands_of_cmd(words: Words) -> list[Words]:
    at = next((at for at, word in enumerate(words) if word.lower() in ("/c", "/k")), len(words))
    line = " ".join(words[at + 1 :])
    return [part.replace('"', "").split() for part in re.split(r"[&|]+", line)]


# -- how a package is written

_EXACT_NPM: Final = r".+@v?\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?"
_EXACT_PYTHON: Final = r"[^@=<>~!]+(?:===?|@)\s*\d+(?:\.\d+)*[0-9A-Za-z.+!-]*"
_COMMIT: Final = r".*[#@](?:[0-9a-f]{7,40}|v?\d+\.\d+[0-9A-Za-z.+-]*)(?:#.*)?"
_LOCAL: Final = r"(?s:\.{1,2}|(?:\.{0,2}[/\\]|~|file:|[A-Za-z]:[/\\]).*)"
_ARCHIVE: Final = r"(?:https?://.*|[^:]*)\.(?:tgz|tar\.\w+|zip|whl)(?:[?#].*)?"
_REGISTRY: Final = r"(npm|jsr):/?(.+)"
_ADDRESS: Final = (
    r"(?:[a-z]+\+)?(?:https?|ssh|git)://.*|git@.*|(?:github|gitlab|bitbucket|gist):.*|[\w.-]+/[\w.-]+(?:#.*)?"
)
_ADDRESS_PYTHON: Final = r"([^#]*?://(?:[^/@#]*@)?[^@#]*).*"


Cache: TypeAlias = Literal["", "npx", "uv"]
"""The launcher whose cache holds the package, if `installed_packages.py` can read that cache."""


class Package(NamedTuple):
    """A package that a command fetches."""

    spec: str
    is_pinned: bool
    unversioned: str
    """The text before the version: `name@`."""
    name: str = ""
    """Its name in the registry; empty if it comes from elsewhere."""
    cache: Cache = ""

    def with_version(self, version: str) -> str:
        """The package as written with this version."""
        return f"{self.unversioned}{version}"

    @property
    def example(self) -> str:
        """How to write it with a version, as an example."""
        return self.with_version("COMMIT" if not self.name else "VERSION")


def of_npm(spec: str) -> Package | None:
    name, _, version = spec[1:].partition("@")
    is_named = not re.fullmatch(_ADDRESS, spec) and re.search(r"[/:]", version) is not None
    address = version if is_named else spec
    if re.fullmatch(_LOCAL, address) or re.fullmatch(_ARCHIVE, address):
        return None
    if re.fullmatch(_ADDRESS, address) and not address.startswith("@"):
        return Package(spec, re.fullmatch(_COMMIT, address) is not None, f"{address.partition('#')[0]}#")
    return Package(spec, re.fullmatch(_EXACT_NPM, spec) is not None, f"{spec[0]}{name}@", f"{spec[0]}{name}")


def of_registry(spec: str) -> Package | None:
    """A package that Deno fetches; None for a local script."""
    match = re.fullmatch(_REGISTRY, spec)
    package = of_npm(match[2]) if match else None
    if match is None or package is None:
        return None
    return package._replace(spec=spec, unversioned=f"{match[1]}:{package.unversioned}")


def of_python(spec: str) -> Package | None:
    requirement = spec.partition(";")[0].strip()
    address = requirement.partition(" @ ")[2].strip() or requirement
    if re.fullmatch(_LOCAL, address) or re.fullmatch(_ARCHIVE, address):
        return None
    if match := re.fullmatch(_ADDRESS_PYTHON, address):
        return Package(spec, re.fullmatch(_COMMIT, address) is not None, f"{match[1]}@")
    if "/" in address:
        return None
    name = re.split(r"[@=<>~! ]", requirement, maxsplit=1)[0]
    return Package(spec, re.fullmatch(_EXACT_PYTHON, requirement) is not None, f"{name}==", name.partition("[")[0])


def of_image(spec: str) -> Package | None:
    if "@sha256:" in spec:
        return Package(spec, is_pinned=True, unversioned=spec)
    folder, slash, last = spec.rpartition("/")
    name, _, tag = last.partition(":")
    return Package(spec, tag not in ("", "latest"), f"{folder}{slash}{name}:", spec)


# -- which packages a command fetches

_Options: TypeAlias = list[tuple[str, str]]

_PREVENT_FETCHING: Final = frozenset(("--no-install", "--no", "--offline", "--cached-only", "--pull never"))
"""Options that prevent fetching."""
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
"""Options that take a value."""
_DOCKER_VALUES: Final = (
    r"(?!-[ditPqD]+$|--detach$|--interactive$|--tty$|--publish-all$|--rm$|--rmi$|--init$|--privileged$|--quiet$"
    r"|--read-only$|--no-healthcheck$|--oom-kill-disable$|--sig-proxy$|--disable-content-trust$|--replace$|--help$"
    r"|--use-api-socket$|--debug$|--tls$|--tlsverify$|-[a-zA-Z][^a-zA-Z-]).*"
)
"""Most options of `docker run` take a value, so this lists those that don't. `-v/a:/b` contains its value."""
_REQUIREMENT: Final = r"(?:\[[^\]]*\]|[^,\[]|,(?!\s*[A-Za-z]))+"
"""One of several requirements. Commas separate them, and also the version limits of one."""


def fetched_packages(command: str, arguments: Sequence[str]) -> list[Package]:
    """The packages that a command fetches, without duplicates and without those that a variable names."""
    packages = [package for words in simple_commands([command, *arguments]) for package in _fetched(words)]
    return list(dict.fromkeys(packages))


def _fetched(words: Words) -> Iterator[Package]:
    program = name_of(words[0])
    for (first, *subcommands), launcher in _LAUNCHERS.items():
        parsed = _options_and_rest(words[1:], subcommands, launcher.with_value) if program == first else None
        if parsed is None:
            continue
        options, rest = parsed
        if any(f"{name} {value}".strip() in _PREVENT_FETCHING for name, value in options):
            return
        for spec in launcher.specs(options, rest):
            package = launcher.parse(spec) if spec and not re.search(_VARIABLE, spec) else None
            if package is not None:
                yield package._replace(cache=launcher.cache)


def _options_and_rest(words: Words, subcommands: Words, with_value: str) -> tuple[_Options, Words] | None:
    """The options before and after the subcommands, and the words that follow; None for another subcommand."""
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
    values = _values(options, "-w", "--with")
    return [requirement.strip() for value in values for requirement in re.findall(_REQUIREMENT, value)]


def _values(options: _Options, *names: str) -> Words:
    return [value for name, value in options if name in names]


class _Launcher(NamedTuple):
    """A program that fetches packages and runs them."""

    with_value: str
    specs: Callable[[_Options, Words], Words]
    parse: Callable[[str], Package | None]
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
"""Programs that run the packages of others."""
