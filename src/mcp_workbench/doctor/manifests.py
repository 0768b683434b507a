"""Reads the name and summary of the package that a server comes from, out of files on this machine.

Guarantees: it starts nothing and reaches no network. It looks only at installed packages, in the caches of `npx` and
`uvx`, in `node_modules` and in `site-packages`. A file that can't be read counts as missing.
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
from typing import Final, NamedTuple

import msgspec

from mcp_workbench.doctor.installed import installed_manifest
from mcp_workbench.doctor.packages import LAUNCHERS, fetched_packages
from mcp_workbench.doctor.wrapped import name_of

_MOST_BYTES: Final = 1_000_000
"""Of a manifest that is read; real ones have a few thousand."""
_MOST_LETTERS: Final = 100
"""Of a summary: agents read it in every session."""
_SCRIPT: Final = r"/.*\.[cm]?[jt]s"
_SENTENCE_END: Final = r"(?<=\w\w)[.!?](?:\s|$)|\n"
_PYTHON: Final = "lib/python3*/site-packages/*.dist-info"


class Manifest(NamedTuple):
    """What a package says about itself."""

    package: str = ""
    summary: str = ""
    """One short sentence without its full stop."""


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
    wanted = re.sub(r"[-_.]+", "_", program.name).lower()
    for root in {program.parent.parent, program.resolve().parent.parent}:
        for folder in islice(root.glob(_PYTHON), 2000):
            if re.sub(r"[-_.]+", "_", folder.name.partition("-")[0]).lower() == wanted:
                yield folder / "METADATA"


def _read(file: Path) -> Manifest:
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST_BYTES)
        if file.name == "METADATA":
            headers = HeaderParser().parsestr(data.decode("utf-8", "replace"))
            return Manifest(headers.get("Name", ""), _sentence(headers.get("Summary", "")))
        found = msgspec.json.decode(data, type=_PackageJson)
    except (OSError, msgspec.DecodeError):
        return Manifest()
    return Manifest(found.name, _sentence(found.description))


def _sentence(text: str) -> str:
    """The first sentence, without what is invisible, cut at a word."""
    first = re.split(_SENTENCE_END, text.strip(), maxsplit=1)[0]
    words = "".join(letter if letter.isprintable() else " " for letter in first).split()
    while len(" ".join(words)) > _MOST_LETTERS:
        words.pop()
    return " ".join(words).rstrip(".,;:")
