"""The packages that `npx` and `uvx` have installed on this machine: their versions and manifests, from their caches.

Guarantees: a version that it names is installed. It starts nothing, and an entry that can't be read is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec

from mcp_workbench.doctor.versions import Package

_MOST_ENTRIES: Final = 2000
"""Of a cache that are looked at: more than anybody has, and quick to read."""
_VERSION: Final = r"[0-9][0-9A-Za-z.+!-]{0,60}"


class _Installed(NamedTuple):
    changed: float
    version: str
    manifest: Path


def installed_version(package: Package, environ: Mapping[str, str], reported: str = "") -> str:
    """The version that a launcher has for this package; empty if it has none.

    If there are several: the one that the server itself reported, else the newest installation.
    """
    found = [one for one in _installed(package, environ) if re.fullmatch(_VERSION, one.version)]
    if any(one.version == reported for one in found):
        return reported
    return max(found).version if found else ""


def installed_manifest(package: Package, environ: Mapping[str, str]) -> Path | None:
    """The `package.json` or `METADATA` of the newest installation."""
    found = list(_installed(package, environ))
    return max(found).manifest if found else None


def _installed(package: Package, environ: Mapping[str, str]) -> Iterator[_Installed]:
    find = {"npx": _in_npx, "uv": _in_uv}.get(package.cache)
    home = environ.get("HOME", "")
    if find is not None and package.name and home:
        yield from find(package, environ, Path(home))


def _in_npx(package: Package, environ: Mapping[str, str], home: Path) -> Iterator[_Installed]:
    """`npx` has a folder for every command line, and writes the requested packages into its `package.json`."""
    cache = environ.get("npm_config_cache") or environ.get("NPM_CONFIG_CACHE") or home / ".npm"
    for manifest in _found(Path(cache), "_npx/*/package.json"):
        asked = _object(_object(_json(manifest)).get("_npx")).get("packages")
        if isinstance(asked, list) and package.spec in asked:
            own = manifest.parent / "node_modules" / package.name / "package.json"
            yield _Installed(_changed(own), str(_object(_json(own)).get("version", "")), own)


def _in_uv(package: Package, environ: Mapping[str, str], home: Path) -> Iterator[_Installed]:
    """`uvx` prefers an installed tool; otherwise it keeps an environment for every command line."""
    data = Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    tools = Path(environ.get("UV_TOOL_DIR") or data / "uv" / "tools")
    caches = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    cache = Path(environ.get("UV_CACHE_DIR") or caches / "uv")
    wanted = _normalized(package.name)
    within = "lib/python*/site-packages/*.dist-info"
    for folder, pattern in ((tools, f"{wanted.replace('_', '-')}/{within}"), (cache, f"environments-v*/*/*/{within}")):
        found = list(_distributions(folder, pattern, wanted))
        yield from found
        if found:
            return


def _distributions(folder: Path, pattern: str, wanted: str) -> Iterator[_Installed]:
    for path in _found(folder, pattern):
        name, _, version = path.name.removesuffix(".dist-info").partition("-")
        if _normalized(name) == wanted:
            yield _Installed(_changed(path), version, path / "METADATA")


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _found(folder: Path, pattern: str) -> Iterator[Path]:
    with suppress(OSError):
        yield from islice(folder.glob(pattern), _MOST_ENTRIES)


def _changed(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


def _json(file: Path) -> Any:
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(file.read_bytes())
    return None


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
