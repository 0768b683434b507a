"""Which package a server's command fetches and runs, and whether it says which version of it."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

_EXACT_NPM: Final = r".+@v?\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?"
_EXACT_PYTHON: Final = r"[^@=<>~!]+(?:==|@)\d+(?:\.\d+)*[0-9A-Za-z.+!-]*"
_COMMIT: Final = r".*[#@](?:[0-9a-f]{7,40}|v?\d+\.\d+[0-9A-Za-z.+-]*)(?:#.*)?"
_LOCAL: Final = r"\.{1,2}|(?:\.{0,2}/|~|file:).*"
_STAYS: Final = frozenset(("--no-install", "--no", "--offline", "--pull=never"))
"""Options with which nothing is fetched."""
_REGISTRY: Final = r"(npm|jsr):/?(.+)"
_ADDRESS: Final = (
    r"(?:[a-z]+\+)?(?:https?|ssh|git)://.*|git@.*|(?:github|gitlab|bitbucket|gist):.*|[\w.-]+/[\w.-]+(?:#.*)?"
)

_NPX_VALUES: Final = r"-c|--call|--prefix|--registry|--cache|--userconfig|-w|--workspace"
_UVX_VALUES: Final = (
    r"-p|--python|-w|--with|--with-editable|--with-requirements|-c|--constraints|-b|--build-constraints|--overrides"
    r"|--index|--default-index|-i|--index-url|--extra-index-url|-f|--find-links|-P|--upgrade-package|--torch-backend"
    r"|--reinstall-package|--index-strategy|--keyring-provider|-C|--config-setting|--exclude-newer|--link-mode"
    r"|--refresh-package|--cache-dir|--python-preference|--env-file|--directory|--project|--config-file|--color"
    r"|--allow-insecure-host|--pip-args|--suffix"
)
"""Options that are followed by a value."""
_DOCKER_FLAGS: Final = (
    r"-[ditPq]+|--detach|--interactive|--tty|--publish-all|--rm|--rmi|--init|--privileged|--quiet|--read-only"
    r"|--no-healthcheck|--oom-kill-disable|--sig-proxy|--disable-content-trust|--replace|--help|--use-api-socket"
)
"""Those that are not."""


class Package(NamedTuple):
    """What is fetched, as it is written."""

    spec: str
    is_pinned: bool
    example: str
    """How it is written with a version."""


def fetched_package(command: str, arguments: Sequence[str]) -> Package | None:
    """The package that a command fetches and runs; None where it fetches none, or a variable says which."""
    program = os.path.basename(command).removesuffix(".exe").removesuffix(".cmd")  # noqa: PTH119 -- no path is meant
    words = list(arguments)
    for prefix, read in _READERS.items():
        first, *rest = prefix
        if program == first and words[: len(rest)] == rest:
            spec = read(words[len(rest) :])
            return None if not spec or "$" in spec else _KINDS[read](spec)
    return None


# -- which argument it is


def _of_npx(words: Sequence[str]) -> str:
    return _named(words, ("-p", "--package")) or _first(words, _NPX_VALUES)


def _of_uvx(words: Sequence[str]) -> str:
    return _named(words, ("--from", "--spec")) or _first(words, _UVX_VALUES)


def _of_deno(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


def _of_docker(words: Sequence[str]) -> str:
    """Most options of `docker run` have a value, so those that have none are known."""
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        option = rest.pop(0)
        if option == "--":
            break
        if option in _STAYS or (option == "--pull" and rest[:1] == ["never"]):
            return ""
        if "=" not in option and not re.fullmatch(_DOCKER_FLAGS, option) and not _has_value_in(option):
            del rest[:1]
    return rest[0] if rest else ""


def _has_value_in(option: str) -> bool:
    """Whether a short option has its value in itself: `-v/a:/b`."""
    return re.fullmatch(r"-[a-zA-Z][^a-zA-Z-].*", option) is not None


def _named(words: Sequence[str], names: Sequence[str]) -> str:
    for index, word in enumerate(words):
        name, _, value = word.partition("=")
        if name in names:
            return value or next(iter(words[index + 1 :]), "")
        if not word.startswith("-"):
            return ""
    return ""


def _first(words: Sequence[str], with_value: str) -> str:
    """The first that is no option, and no value of one."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in _STAYS:
            return ""
        if re.fullmatch(with_value, option):
            del rest[:1]
    return rest[0] if rest else ""


# -- whether it says which version


def _npm(spec: str) -> Package | None:
    if re.fullmatch(_LOCAL, spec):
        return None
    if re.fullmatch(_ADDRESS, spec) and not spec.startswith("@"):
        return Package(spec, re.fullmatch(_COMMIT, spec) is not None, f"{spec.partition('#')[0]}#COMMIT")
    name = "@" + spec[1:].partition("@")[0] if spec.startswith("@") else spec.partition("@")[0]
    return Package(spec, re.fullmatch(_EXACT_NPM, spec) is not None, f"{name}@1.2.3")


def _from_registry(spec: str) -> Package | None:
    """What Deno fetches: a script of its own has no such name."""
    match = re.fullmatch(_REGISTRY, spec)
    package = _npm(match[2]) if match else None
    if match is None or package is None:
        return None
    return package._replace(spec=spec, example=f"{match[1]}:{package.example}")


def _python(spec: str) -> Package | None:
    if re.fullmatch(_LOCAL, spec):
        return None
    if "://" in spec:
        return Package(spec, re.fullmatch(_COMMIT, spec) is not None, "git+https://...@COMMIT")
    name = re.split(r"[@=<>~! ]", spec, maxsplit=1)[0]
    return Package(spec, re.fullmatch(_EXACT_PYTHON, spec) is not None, f"{name}==1.2.3")


def _image(spec: str) -> Package:
    if "@sha256:" in spec:
        return Package(spec, is_pinned=True, example=spec)
    folder, slash, last = spec.rpartition("/")
    name, _, tag = last.partition(":")
    return Package(spec, tag not in ("", "latest"), f"{folder}{slash}{name}:1.2.3")


_READERS: Mapping[tuple[str, ...], Callable[[Sequence[str]], str]] = {
    ("npx",): _of_npx,
    ("bunx",): _of_npx,
    ("bun", "x"): _of_npx,
    ("npm", "exec"): _of_npx,
    ("npm", "x"): _of_npx,
    ("pnpx",): _of_npx,
    ("pnpm", "dlx"): _of_npx,
    ("yarn", "dlx"): _of_npx,
    ("uvx",): _of_uvx,
    ("uv", "tool", "run"): _of_uvx,
    ("pipx", "run"): _of_uvx,
    ("deno", "run"): _of_deno,
    ("docker", "run"): _of_docker,
    ("docker", "container", "run"): _of_docker,
    ("podman", "run"): _of_docker,
}
_KINDS: Mapping[Callable[[Sequence[str]], str], Callable[[str], Package | None]] = {
    _of_npx: _npm,
    _of_uvx: _python,
    _of_deno: _from_registry,
    _of_docker: _image,
}
