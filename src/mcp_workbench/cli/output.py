"""`call --output`: writes the result of a tool to a file, into a folder or to stdout.

Guarantees: the destination is checked before the tool is called. No file is overwritten without `--force`. Every name
comes from the user, or is a number with an extension from a fixed table: never from the server.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Raw

from mcp_workbench.cli import results
from mcp_workbench.cli.display import is_terminal
from mcp_workbench.cli.results import JSON_TYPE, Piece
from mcp_workbench.cli.terminal import note
from mcp_workbench.command_errors import OutputFailed
from mcp_workbench.errors import RequestError
from mcp_workbench.text.sanitize import escape


def write_files(files: Sequence[tuple[Path, bytes]], *, overwrites: bool) -> None:
    """Write all files or none. Raises `OSError`."""
    with contextlib.ExitStack() as staging, contextlib.ExitStack() as undo:
        # Only with `overwrites` may a symbolic link that appears meanwhile redirect the write.
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
    """Write a temporary file, which `staging` removes."""
    path = folder / f".mcp-workbench-{secrets.token_hex(8)}.part"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    staging.callback(path.unlink, missing_ok=True)
    with open(descriptor, "wb") as file:  # noqa: PTH123 -- a descriptor
        file.write(content)
    return path


def _publish(new: Path, path: Path) -> None:
    """Give a file its final name, unless that is taken."""
    try:
        path.hardlink_to(new)
    except FileExistsError:
        raise
    except OSError:  # the file system has no hard links
        if os.path.lexists(path):
            raise
        new.replace(path)


def _replace(new: Path, path: Path) -> None:
    if path.exists():
        new.chmod(path.stat().st_mode & 0o777)
    new.replace(path)


STDOUT: Final = "-"

EXTENSIONS: Final[Mapping[str, str]] = {
    "application/gzip": ".gz",
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/xml": ".xml",
    "application/zip": ".zip",
    "audio/aac": ".aac",
    "audio/flac": ".flac",
    "audio/mp4": ".m4a",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "audio/wav": ".wav",
    "audio/wave": ".wav",
    "audio/webm": ".webm",
    "audio/x-wav": ".wav",
    "image/avif": ".avif",
    "image/bmp": ".bmp",
    "image/gif": ".gif",
    "image/heic": ".heic",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/svg+xml": ".svg",
    "image/tiff": ".tiff",
    "image/webp": ".webp",
    "text/css": ".css",
    "text/csv": ".csv",
    "text/html": ".html",
    "text/markdown": ".md",
    "text/plain": ".txt",
    "text/xml": ".xml",
    "video/mp4": ".mp4",
    "video/webm": ".webm",
}
_UNKNOWN_BYTES: Final = ".bin"
_UNKNOWN_TEXT: Final = ".txt"


class OutputPart(NamedTuple):
    """The content of one file."""

    content: bytes
    media_type: str
    is_text: bool

    def extension(self, default: str = "") -> str:
        """The extension of the media type, else `default`, else a generic one."""
        named = self.media_type.partition(";")[0].strip().lower()
        return EXTENSIONS.get(named) or default or (_UNKNOWN_TEXT if self.is_text else _UNKNOWN_BYTES)


class Output:
    """The destination of a result."""

    def __init__(self, given: str, *, overwrites: bool) -> None:
        """Check that the destination is writable. Raises `RequestError`."""
        self._path = Path(given).expanduser()
        self._overwrites = overwrites
        self.is_stdout = given == STDOUT
        self._is_folder = not self.is_stdout and (given.endswith("/") or self._path.is_dir())
        if self.is_stdout:
            _check_stdout()
        else:
            self._check_path()

    def divide(self, result: Raw, *, is_raw: bool) -> tuple[list[Piece], list[str]]:
        """Split a result into pieces to write and texts to print.

        A file gets the media, or else the text. A folder gets both, and `structuredContent`. With `is_raw` the whole
        result is written as the server sent it.
        """
        if is_raw:
            return [Piece(bytes(result).decode(), JSON_TYPE, is_text=True)], []
        pieces = results.pieces(result, with_structured=self._is_folder)
        has_media = any(piece.is_media for piece in pieces)
        is_written = [piece.is_media or (piece.is_text and (self._is_folder or not has_media)) for piece in pieces]
        told = [piece.told for piece, written in zip(pieces, is_written, strict=True) if not written]
        return [piece for piece, written in zip(pieces, is_written, strict=True) if written], told

    def put(self, pieces: Sequence[Piece]) -> None:
        """Write all pieces or none, and report it. Raises `OutputFailed`."""
        if not pieces:
            hint = "Links are not followed. Use a tool of the server to read their targets."
            raise OutputFailed("the result has nothing to write", hint=hint)
        is_split = self._is_folder or pieces[0].is_media
        parts = [_part(piece) for piece in pieces] if is_split else [_joined(pieces)]
        if self.is_stdout:
            _put_on_stdout(parts)
        else:
            self._put_in_files(parts)

    # -- before the call

    def _check_path(self) -> None:
        path = self._path
        if os.path.lexists(path) and not path.is_dir():
            self._check_file()
        folder = path if path.is_dir() else path.resolve().parent
        if not folder.is_dir():
            raise RequestError(f"there is no folder {_named(folder)}", hint="Create it, or name another one.")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise RequestError(f"the folder {_named(folder)} is not writable", hint="Name another folder.")

    def _check_file(self) -> None:
        if self._is_folder:
            raise RequestError(f"{_named(self._path)} is not a folder", hint="Leave out the / at the end.")
        if self._path.exists() and not self._path.is_file():
            raise RequestError(f"{_named(self._path)} is not a regular file", hint="Use --output - and a pipe.")
        if not self._overwrites:
            hint = "Pass --force to overwrite it, or name another file."
            raise RequestError(f"{_named(self._path)} exists already", hint=hint)

    # -- after it

    def _put_in_files(self, parts: Sequence[OutputPart]) -> None:
        is_one = len(parts) == 1 and not self._is_folder
        try:
            with _made(self._path) if self._is_folder else contextlib.nullcontext():
                paths = [self._path] if is_one else self._numbered(parts)
                files = [(path, part.content) for path, part in zip(paths, parts, strict=True)]
                write_files(files, overwrites=self._overwrites and is_one)
        except OSError as error:
            hint = "The tool was called, but nothing was written. Name another file before you call it again."
            raise OutputFailed(f"{_named(self._path)} can't be written: {error.strerror}", hint=hint) from None
        for path, part in zip(paths, parts, strict=True):
            note(f"wrote {path}: {results.described(part.media_type, len(part.content))}")

    def _numbered(self, parts: Sequence[OutputPart]) -> list[Path]:
        """Numbered names that are free: they continue after the highest existing number."""
        folder, stem, suffix = self._path, "", ""
        if not self._is_folder:
            folder, stem, suffix = self._path.parent, f"{self._path.stem}-", self._path.suffix
        used = (path.stem.removeprefix(stem) for path in folder.iterdir() if path.stem.startswith(stem))
        first = 1 + max((int(number) for number in used if number.isascii() and number.isdigit()), default=0)
        return [folder / f"{stem}{first + at}{part.extension(suffix)}" for at, part in enumerate(parts)]


@contextlib.contextmanager
def _made(folder: Path) -> Generator[None]:
    """Create a folder if needed; remove it again if writing fails."""
    is_new = not folder.exists()
    folder.mkdir(exist_ok=True)
    try:
        yield
    except OSError:
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _check_stdout() -> None:
    if is_terminal(sys.stdout):
        hint = "Pipe it into a program, or name a file."
        raise RequestError("--output - writes bytes, and stdout is a terminal", hint=hint)


def _put_on_stdout(parts: Sequence[OutputPart]) -> None:
    if len(parts) > 1:
        problem = f"the result has {len(parts)} files, and stdout can take only one"
        raise OutputFailed(problem, hint="Name a folder: --output FOLDER/")
    sys.stdout.flush()
    sys.stdout.buffer.write(parts[0].content)
    sys.stdout.buffer.flush()


def _part(piece: Piece) -> OutputPart:
    """Decode one piece. Raises `OutputFailed`."""
    if not piece.is_media:
        return _joined([piece])
    try:
        content = base64.b64decode("".join((piece.data if piece.data is not None else "=").split()), validate=True)
    except ValueError:
        hint = "Nothing was written. Report it to the server's authors; --json shows what it sent."
        raise OutputFailed(f"the server sent data that is not valid base64: {piece.told}", hint=hint) from None
    return OutputPart(content, piece.media_type, is_text=False)


def _joined(pieces: Sequence[Piece]) -> OutputPart:
    """Join text: a single piece unchanged, several as they would be printed."""
    texts = [piece.told for piece in pieces]
    text = texts[0] if len(texts) == 1 else "".join(_ended(texts))
    media_type = pieces[0].media_type if len(pieces) == 1 else ""
    return OutputPart(text.encode("utf-8", "replace"), media_type or "text/plain", is_text=True)


def _ended(texts: Iterable[str]) -> Iterable[str]:
    return (text if text.endswith("\n") else f"{text}\n" for text in texts)


def _named(path: Path) -> str:
    return escape(str(path), len(str(path)))
