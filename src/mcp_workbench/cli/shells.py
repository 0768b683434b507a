"""`mcp-workbench completion`: prints the completion scripts, and answers their requests.

zsh and fish pass words and quote what they insert. bash passes the line and inserts candidates verbatim: they replace
the text after the last word break, such as `:` or `=`, or after an open quote. So a candidate for bash repeats the
typed text and continues it in the same quoting.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from mcp_workbench.cli.completion import SHELLS, complete
from mcp_workbench.cli.display import text_width
from mcp_workbench.cli.options import Given
from mcp_workbench.errors import InvalidParameters
from mcp_workbench.text.sanitize import escape
from mcp_workbench.text.suggest import nearest_or_known

HELP = """Print the completion script for your shell. It completes commands, options, toolboxes, servers, tools and
their arguments.

\b
bash   echo 'eval "$(mcp-workbench completion bash)"' >> ~/.bashrc
zsh    echo 'eval "$(mcp-workbench completion zsh)"' >> ~/.zshrc
fish   mcp-workbench completion fish > ~/.config/fish/completions/mcp-workbench.fish

Tool names come from the last lists of the servers; nothing is started."""

_BASH: Final = r"""_mcp_workbench() {
    local found
    COMPREPLY=()
    while IFS= read -r found; do
        if [[ $found == $'\t' ]]; then
            compopt -o default 2>/dev/null
        else
            COMPREPLY+=("$found")
        fi
    done < <("${1/#\~\//$HOME/}" completion bash -- "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o nosort -F _mcp_workbench mcp-workbench workbench-mcp 2>/dev/null ||
    complete -F _mcp_workbench mcp-workbench workbench-mcp
"""
_ZSH: Final = r"""#compdef mcp-workbench workbench-mcp
_mcp_workbench() {
    local line program=${${(Q)words[1]}/#\~\//$HOME/}
    local -a names shown keys keys_shown
    local -a before=("${(@Q)words[2,CURRENT-1]}")
    for line in "${(@f)$("$program" completion zsh -- "${(@)before}" "$QIPREFIX$PREFIX" 2>/dev/null)}"; do
        [[ -n $line ]] || continue
        if [[ $line == $'\t' ]]; then
            compset -P '*='
            _files
            return
        fi
        if [[ ${line%%$'\t'*} == *= ]]; then
            keys+=("${line%%$'\t'*}") keys_shown+=("${line#*$'\t'}")
        else
            names+=("${line%%$'\t'*}") shown+=("${line#*$'\t'}")
        fi
    done
    (( $#keys )) && compadd -S '' -l -d keys_shown -a keys
    (( $#names )) && compadd -l -d shown -a names
    (( $#keys + $#names ))
}
if [[ ${zsh_eval_context[-1]} == loadautofunc ]]; then
    _mcp_workbench "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i; }
    compdef _mcp_workbench mcp-workbench workbench-mcp
fi
"""
_FISH: Final = r"""function __mcp_workbench
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l program (string replace -r '^~/' "$HOME/" -- $words[1])
    set -l found ($program completion fish -- $words[2..-1] $typed 2>/dev/null)
    if test "$found" = \t
        set -l key (string match -r '^[^/=]*=' -- $typed)
        for path in (__fish_complete_path (string replace -r '^[^/=]*=' '' -- $typed))
            echo "$key$path"
        end
    else if set -q found[1]
        printf '%s\n' $found
    end
end
complete -c mcp-workbench -c workbench-mcp -f -a "(__mcp_workbench)"
"""
_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
_FILES: Final = "\t"
"""Tells the shell to complete file names: an empty candidate."""
_SPECIAL: Final = re.compile(r"[^\w@%+=:,./-]")
_IN_DOUBLE: Final = '"$`\\'


class TypedWord(NamedTuple):
    """The last word of a line: its value, its written form, and the part that bash replaces."""

    value: str
    written: str
    quote: str
    """The open quote, if any."""
    kept: int
    """The length of the start of `written` that bash keeps."""


def run(options: Given) -> int:
    shell = options["shell"]
    if shell not in SHELLS:
        raise InvalidParameters(f"'{shell}' is not a supported shell", hint=nearest_or_known(shell, SHELLS, "shells"))
    if not options.words:
        sys.stdout.write(_SCRIPTS[shell])
        return 0
    for line in _ANSWERS[shell](options.words):
        sys.stdout.write(f"{line}\n")
    return 0


def _for_fish(words: tuple[str, ...]) -> Iterator[str]:
    """Candidates with descriptions. The last word arrives as typed, with its quotes."""
    *before, last = words
    for name, about in complete(before, split_line(last)[1].value):
        yield f"{name}\t{_line(about)}"


def _for_zsh(words: tuple[str, ...]) -> Iterator[str]:
    """Candidates, each with the line to show in a list."""
    *before, last = words
    offers = complete(before, split_line(last)[1].value)
    width = max((text_width(name) for name, _ in offers), default=0)
    for name, about in offers:
        blank = " " * (width - text_width(name))
        yield f"{name}\t{f'{name}{blank}  {_line(about)}'.rstrip()}"


def _for_bash(words: tuple[str, ...]) -> Iterator[str]:
    line, breaks = words[0], words[1] if len(words) > 1 else ""
    before, typed = split_line(line, breaks)
    for name, _ in complete(before[1:], typed.value):
        yield typed.written[typed.kept :] + quoted(name[len(typed.value) :], typed.quote) if name else _FILES


def _line(text: str) -> str:
    return escape(" ".join(text.split()))


_ANSWERS: Final[Mapping[str, Callable[[tuple[str, ...]], Iterator[str]]]] = {
    "bash": _for_bash,
    "zsh": _for_zsh,
    "fish": _for_fish,
}


def split_line(line: str, breaks: str = "") -> tuple[list[str], TypedWord]:
    """Split a line as a shell does; the last word may be unfinished."""
    reader = _Reader(breaks)
    for character in line:
        reader.read(character)
    return reader.words, reader.typed


class _Reader:
    """Splits a line character by character."""

    def __init__(self, breaks: str) -> None:
        self.words: list[str] = []
        self._breaks = breaks
        self._begin()

    def _begin(self) -> None:
        self._value = self._written = self._quote = ""
        self._is_escaped = False
        self._opened = self._broken = 0

    @property
    def typed(self) -> TypedWord:
        return TypedWord(self._value, self._written, self._quote, self._opened if self._quote else self._broken)

    def read(self, character: str) -> None:
        if character.isspace() and not self._quote and not self._is_escaped:
            self.words += [self._value] if self._written else []
            self._begin()
            return
        self._written += character
        if self._is_escaped:
            is_plain = self._quote == '"' and character not in _IN_DOUBLE
            self._value += f"\\{character}" if is_plain else character
            self._is_escaped = False
        elif character == "\\" and self._quote != "'":
            self._is_escaped = True
        elif self._quote:
            self._quoted(character)
        else:
            self._bare(character)

    def _quoted(self, character: str) -> None:
        if character == self._quote:
            self._quote = ""
        else:
            self._value += character

    def _bare(self, character: str) -> None:
        if character in "'\"":
            self._quote, self._opened = character, len(self._written)
            return
        self._value += character
        if character in self._breaks:
            self._broken = len(self._written)


def quoted(text: str, quote: str) -> str:
    """Quote a text to follow an open quote, or none."""
    if quote == "'":
        return text.replace("'", "'\\''")
    if quote == '"':
        return "".join(f"\\{one}" if one in _IN_DOUBLE else one for one in text)
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", text)
