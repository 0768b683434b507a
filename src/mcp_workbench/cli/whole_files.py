"""Writes files for a user: several at once, all or none, each complete before it has its name.

New files get the mode of the user's umask. An overwritten file keeps its mode, and links are followed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path


def write_files(files: Sequence[tuple[Path, bytes]], *, overwrites: bool) -> None:
    """Write each content to its path. Raises `OSError`, and leaves nothing behind then."""
    with contextlib.ExitStack() as staging, contextlib.ExitStack() as undo:
        # A link that appears meanwhile is followed only where a file may be overwritten.
        paths = [path.resolve() if overwrites else path.parent.resolve() / path.name for path, _ in files]
        staged = [_staged(path.parent, content, staging) for path, (_, content) in zip(paths, files, strict=True)]
        for new, path in zip(staged, paths, strict=True):
            if overwrites:
                _replace(new, path)
            else:
                _publish(new, path)
                undo.callback(path.unlink, missing_ok=True)
        undo.pop_all()


def _staged(folder: Path, content: bytes, staging: contextlib.ExitStack) -> Path:
    """A file without a final name; `staging` removes it."""
    path = folder / f".mcp-workbench-{secrets.token_hex(8)}.part"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    staging.callback(path.unlink, missing_ok=True)
    with open(descriptor, "wb") as file:  # noqa: PTH123 -- a descriptor
        file.write(content)
    return path


def _publish(new: Path, path: Path) -> None:
    """Give a file its name, unless another file has it."""
    try:
        path.hardlink_to(new)
    except FileExistsError:
        raise
    except OSError:  # the file system has no links
        if os.path.lexists(path):
            raise
        new.replace(path)


def _replace(new: Path, path: Path) -> None:
    if path.exists():
        new.chmod(path.stat().st_mode & 0o777)
    new.replace(path)
