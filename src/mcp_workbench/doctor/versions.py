"""Whether a package is written with its version: one of npm or JSR, one of Python, or an image.

What lies on this machine, and an archive, has no version to name: of those nothing is said.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias

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
"""Where a launcher keeps what it fetched, if `installed.py` can look there."""


class Package(NamedTuple):
    """What is fetched, as it is written."""

    spec: str
    is_pinned: bool
    unversioned: str
    """All that stands before the version: `name@`."""
    name: str = ""
    """As its registry knows it; empty for what comes from elsewhere."""
    cache: Cache = ""

    def with_version(self, version: str) -> str:
        """How it is written with this version."""
        return f"{self.unversioned}{version}"

    @property
    def example(self) -> str:
        """The same without a version that is known."""
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
    """What Deno fetches: a script of its own has no such name."""
    match = re.fullmatch(_REGISTRY, spec)
    package = of_npm(match[2]) if match else None
    if match is None or package is None:
        return None
    return package._replace(spec=spec, unversioned=f"{match[1]}:{package.unversioned}")


def of_python(spec: str) -> Package | None:
    wanted = spec.partition(";")[0].strip()
    address = wanted.partition(" @ ")[2].strip() or wanted
    if re.fullmatch(_LOCAL, address) or re.fullmatch(_ARCHIVE, address):
        return None
    if match := re.fullmatch(_ADDRESS_PYTHON, address):
        return Package(spec, re.fullmatch(_COMMIT, address) is not None, f"{match[1]}@")
    if "/" in address:
        return None
    name = re.split(r"[@=<>~! ]", wanted, maxsplit=1)[0]
    return Package(spec, re.fullmatch(_EXACT_PYTHON, wanted) is not None, f"{name}==", name.partition("[")[0])


def of_image(spec: str) -> Package | None:
    if "@sha256:" in spec:
        return Package(spec, is_pinned=True, unversioned=spec)
    folder, slash, last = spec.rpartition("/")
    name, _, tag = last.partition(":")
    return Package(spec, tag not in ("", "latest"), f"{folder}{slash}{name}:", spec)
