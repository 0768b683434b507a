"""Finds the version, the name and the summary of a server's package in the files of this machine.

Guarantees: a version that it returns is installed. It starts nothing and does not use the network. It reads the caches
of `npx` and `uvx`, `node_modules` and `site-packages`; a file that can't be read counts as missing.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from email.parser import HeaderParser
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec

from mcp_workbench.doctor.packages import LAUNCHERS, Package, fetched_packages, name_of

_MAX_ENTRIES: Final = 2000
"""Entries of a cache that are examined: more than real caches have, and quick to read."""
_VERSION: Final = r"[0-9][0-9A-Za-z.+!-]{0,60}"


class _Installed(NamedTuple):
    modified: float
    version: str
    manifest: Path


def installed_version(package: Package, environ: Mapping[str, str], reported: str = "") -> str:
    """The installed version of a package; empty if there is none.

    If there are several, the one that the server reported, else the newest installation.
    """
    versions = [item for item in _installed(package, environ) if re.fullmatch(_VERSION, item.version)]
    if any(item.version == reported for item in versions):
        return reported
    return max(versions).version if versions else ""


def installed_manifest(package: Package, environ: Mapping[str, str]) -> Path | None:
    """The `package.json` or `METADATA` of the newest installation."""
    installations = list(_installed(package, environ))
    return max(installations).manifest if installations else None


def _installed(package: Package, environ: Mapping[str, str]) -> Iterator[_Installed]:
    find = {"npx": _in_npx, "uv": _in_uv}.get(package.cache)
    home = environ.get("HOME", "")
    if find is not None and package.name and home:
        yield from find(package, environ, Path(home))


def _in_npx(package: Package, environ: Mapping[str, str], home: Path) -> Iterator[_Installed]:
    """`npx` has a folder for every command line, and writes the requested packages into its `package.json`."""
    cache = environ.get("npm_config_cache") or environ.get("NPM_CONFIG_CACHE") or home / ".npm"
    for manifest in _glob(Path(cache), "_npx/*/package.json"):
        requested = _object(_object(_json(manifest)).get("_npx")).get("packages")
        if isinstance(requested, list) and package.spec in requested:
            own = manifest.parent / "node_modules" / package.name / "package.json"
            yield _Installed(_modified(own), str(_object(_json(own)).get("version", "")), own)


def _in_uv(package: Package, environ: Mapping[str, str], home: Path) -> Iterator[_Installed]:
    """`uvx` prefers an installed tool; otherwise it keeps an environment for every command line."""
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    tools = Path(environ.get("UV_TOOL_DIR") or data / "uv" / "tools")
    caches = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    cache = Path(environ.get("UV_CACHE_DIR") or caches / "uv")
    normalized = _normalized(package.name)
    within = "lib/python*/site-packages/*.dist-info"
    tool = f"{normalized.replace('_', '-')}/{within}"
    in_tools = list(_distributions(tools, tool, normalized))
    yield from in_tools or _distributions(cache, f"environments-v*/*/*/{within}", normalized)


def _distributions(folder: Path, pattern: str, normalized: str) -> Iterator[_Installed]:
    for path in _glob(folder, pattern):
        name, _, version = path.name.removesuffix(".dist-info").partition("-")
        if _normalized(name) == normalized:
            yield _Installed(_modified(path), version, path / "METADATA")


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _glob(folder: Path, pattern: str) -> Iterator[Path]:
    with suppress(OSError):
        yield from islice(folder.glob(pattern), _MAX_ENTRIES)


def _modified(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _json(file: Path) -> Any:
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(file.read_bytes())
    return None


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


_MAX_BYTES: Final = 1_000_000
"""The largest part of a manifest that is read. Real ones have a few thousand bytes."""
_MAX_LETTERS: Final = 100
"""The length of a summary: agents read it in every session."""
_SCRIPT: Final = r"/.*\.[cm]?[jt]s"
_SENTENCE_END: Final = r"(?<=\w\w)[.!?](?:\s|$)|\n"
_PYTHON: Final = "lib/python3*/site-packages/*.dist-info"


class Manifest(NamedTuple):
    """The name of a package and its summary."""

    package: str = ""
    summary: str = ""
    """One short sentence without its period."""


class _PackageJson(msgspec.Struct):
    name: str = ""
    description: str = ""


def manifest_of(command: str, args: Sequence[str], environ: Mapping[str, str]) -> Manifest:
    """The manifest of the package that a command runs; an empty one if it is not found."""
    for file in _files(command, args, environ):
        if (manifest := _read(file)) != Manifest():
            return manifest
    return Manifest()


def _files(command: str, args: Sequence[str], environ: Mapping[str, str]) -> Iterator[Path]:
    for package in fetched_packages(command, args) if command else ():
        if (file := installed_manifest(package, environ)) is not None:
            yield file
    for word in args:
        if re.fullmatch(_SCRIPT, word):
            yield from _of_script(Path(word))
    if name_of(command) in LAUNCHERS:
        return
    with suppress(OSError, ValueError):  # a command with a null byte, or in a loop of links
        if program := shutil.which(command, path=environ.get("PATH", os.defpath)):
            yield from _of_script(Path(program).resolve())
            yield from _of_program(Path(program))


def _of_script(script: Path) -> Iterator[Path]:
    """The manifest of the installed npm package that holds this script: `node_modules/name` or `…/@scope/name`."""
    for folder in script.parents:
        holder = folder.parent.parent if folder.parent.name.startswith("@") else folder.parent
        if holder.name == "node_modules":
            yield folder / "package.json"
            return


def _of_program(program: Path) -> Iterator[Path]:
    """The metadata of an installed Python package with the name of its program."""
    normalized = _normalized(program.name)
    for root in {program.parent.parent, program.resolve().parent.parent}:
        for folder in islice(root.glob(_PYTHON), _MAX_ENTRIES):
            if _normalized(folder.name.partition("-")[0]) == normalized:
                yield folder / "METADATA"


def _read(file: Path) -> Manifest:
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_BYTES)
        if file.name == "METADATA":
            headers = HeaderParser().parsestr(data.decode("utf-8", "replace"))
            return Manifest(headers.get("Name", ""), _sentence(headers.get("Summary", "")))
        manifest = msgspec.json.decode(data, type=_PackageJson)
    except (OSError, msgspec.DecodeError):
        return Manifest()
    return Manifest(manifest.name, _sentence(manifest.description))


def _sentence(text: str) -> str:
    """The first sentence without invisible characters, cut at a word."""
    first = re.split(_SENTENCE_END, text.strip(), maxsplit=1)[0]
    words = "".join(letter if letter.isprintable() else " " for letter in first).split()
    while len(" ".join(words)) > _MAX_LETTERS:
        words.pop()
    return " ".join(words).rstrip(".,;:")
