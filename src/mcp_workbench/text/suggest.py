"""Suggestions after "not found": the nearest known names, and the list of known names.

A tool with a different verb is never suggested. The work is bounded: of very many or long names, only those that share
the most fragments with the given name are compared letter by letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from mcp_workbench.text.sanitize import NAME_SHOWN_LENGTH, NAMES_SHOWN, escape

_WORD = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+"
_MISSPELT_SIMILARITY = 0.75
"""The similarity from which a word counts as a misspelling of another."""
_SWAPPED = 2
_VERBS = frozenset(
    """
    abort accept acquire activate add adjust allow analyze append apply approve archive ask assign attach authorize
    back backup ban begin bind block book bookmark boot branch browse build bulk buy bypass cache calculate call cancel
    capture change charge check checkout clean clear click clone close collapse collect comment commit compare compile
    complete compute configure confirm connect consume convert copy count create cut deactivate debug decode decrease
    decrypt define delete deny deploy dequeue describe destroy detach diff disable disallow discard disconnect dislike
    dismiss dispatch down downgrade download drag drain draft drop dump duplicate edit eject email empty enable encode
    encrypt end enqueue enter erase escalate estimate evaluate evict execute exit expand expire explain explore export
    extend extract fail fetch fill filter find finish fire flag flush follow force forget fork format forward freeze
    generate get give grant grep group halt hide hold hover ignore import in inc increase index ingest init insert
    inspect install invite invoke issue join keep kill label launch leave like limit link list listen load lock log
    login logout look lookup make mark max measure merge migrate min minimize mkdir modify monitor mount move mute
    navigate next notify observe off offline on online open order out overwrite park parse paste patch pause pay peek
    permit pin ping play poll pop post predict press preview previous print process promote prompt propose provision
    prune publish pull purchase purge push put query queue quit quote read reboot rebase rebuild receive recall record
    recover recreate redirect redo reduce refresh refund register reindex reject release reload remove rename render
    reopen repair replace replay reply report request rerun reschedule reset resize resolve restart restore restrict
    resume retrieve retry return revert review revoke rewrite rm roll rollback rollout rotate run save scale scan
    schedule score scrape screenshot scroll search seed select sell send set share shift show shut shutdown sign skip
    sleep snapshot sort split squash stage start stash stat status stop store stream submit subscribe sum summarize
    suspend swap switch sync tag tail take terminate test toggle trace track train transfer transform translate trash
    trigger trim truncate trust type unarchive unassign unban unbind unblock undelete undo undeploy unfollow unfreeze
    unhide uninstall unlink unload unlock unmark unmount unmute unpause unpin unpublish unregister unset unshare unstage
    unstar unsubscribe unwatch up update upgrade upload upsert use validate vacuum verify view vote wait wake walk watch
    wipe withdraw write zoom
    """.split()  # noqa: SIM905 -- one line for each would be 400 lines
)
"""Verbs of tool names, and words that reverse an action: in, out, on, off."""


def has_same_verbs(name: str, other: str) -> bool:
    """Whether `other` has the same verbs as `name`, or those that `name` misspells, so that it may be suggested."""
    ours, theirs = _words(name), _words(other)
    lost = [word for word in ours if word not in theirs]
    gained = [word for word in theirs if word not in ours]
    if any(word in _VERBS for word in lost):
        return False
    meant = [word for word in gained if word in _VERBS]
    if ours and theirs and lost[:1] == [ours[0]] and gained[:1] == [theirs[0]]:
        meant.append(gained[0])  # the first word is the verb, known or not
    return all(any(_is_misspelt(word, verb) for word in lost) for verb in meant)


@lru_cache(maxsize=1024)
def _words(name: str) -> tuple[str, ...]:
    """The lower-case words of a name: the same for `readFile` and `read_file`."""
    return tuple(_stem(word.casefold()) for word in re.findall(_WORD, name[:NAME_SHOWN_LENGTH]))


def _stem(word: str) -> str:
    """`list` for `lists`."""
    return word[:-1] if word.endswith("s") and word[:-1] in _VERBS else word


def _is_misspelt(word: str, verb: str) -> bool:
    """Whether one letter is missing, added, wrong or swapped, or most letters and the first one are equal."""
    differing = _differing_letters(word, verb)
    is_swapped = differing == _SWAPPED and sorted(word) == sorted(verb)
    return differing <= 1 or is_swapped or (word[0] == verb[0] and similarity(word, verb) >= _MISSPELT_SIMILARITY)


def _differing_letters(word: str, other: str) -> int:
    """The number of letters between the common prefix and the common suffix of two words."""
    start = next((n for n, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other)))
    left, right = word[start:], other[start:]
    end = next((n for n, (a, b) in enumerate(zip(left[::-1], right[::-1], strict=False)) if a != b), None)
    return max(len(left), len(right)) - (min(len(left), len(right)) if end is None else end)


def similarity(name: str, other: str, masks: dict[str, int] | None = None) -> float:
    """The similarity of two texts, from 0 to 1: twice the longest common subsequence, relative to their lengths.

    It costs a few integer operations for each letter of `other`. A caller who compares `name` with many texts can pass
    its `masks`, which `letter_positions` returns.
    """
    masks = letter_positions(name) if masks is None else masks
    row = (1 << len(name)) - 1
    for letter in other:
        if match := row & masks.get(letter, 0):
            row = (row + match) | (row - match)
    common = len(name) - (row & ((1 << len(name)) - 1)).bit_count()
    return 2 * common / (len(name) + len(other)) if name or other else 1.0


def letter_positions(name: str) -> dict[str, int]:
    """A bit mask of the positions of each letter."""
    masks: dict[str, int] = {}
    for position, letter in enumerate(name):
        masks[letter] = masks.get(letter, 0) | 1 << position
    return masks


NEAREST_CANDIDATES = 300
"""Names that are compared in search of the nearest one. More would block the event loop."""
JOINED_MATCHES_SHOWN = 5
"""Calls that an error shows if a mistaken call can mean several."""
NEAREST_SHOWN = 3
"""Names that `Did you mean` offers."""

_NEAR = 0.6
_VERY_NEAR = 0.8
_FRAGMENT = 3
_FRAGMENTS = 6
_COMPARED_LETTERS = 8_000
"""Letters of known names that are compared with one name, which takes two milliseconds."""


def nearest(name: str, known: Iterable[str], *, certain: bool = False) -> str | None:
    """The known name that was probably meant, or with `certain` almost certainly."""
    found = nearest_names(name, known, _VERY_NEAR if certain else _NEAR)
    return found[0] if found else None


def nearest_tools(name: str, known: Iterable[str]) -> list[str]:
    """The known tools that were probably meant, best first; never one with a different verb."""
    found = nearest_names(name, known, most=NEAREST_CANDIDATES)
    return [other for other in found if has_same_verbs(name, other)][:NEAREST_SHOWN]


def nearest_names(name: str, known: Iterable[str], cutoff: float = _NEAR, *, most: int = NEAREST_SHOWN) -> list[str]:
    """The known names that were probably meant, best first. Case does not matter."""
    length = NAME_SHOWN_LENGTH
    folded = name[:length].casefold()
    by_case = {other[:length].casefold(): other for other in reversed(list(known))}
    if folded in by_case:
        return [by_case[folded]]
    masks = letter_positions(folded)
    scores = {other: similarity(folded, other, masks) for other in _comparable(folded, by_case, cutoff)}
    ranked = sorted((other for other in scores if scores[other] >= cutoff), key=lambda other: -scores[other])
    return [by_case[other] for other in ranked[:most]]


def _comparable(name: str, known: Iterable[str], cutoff: float) -> list[str]:
    """The names of similar length; if there are too many, those that share the most fragments with `name`."""
    least, most = len(name) * cutoff / (2 - cutoff), len(name) * (2 - cutoff) / cutoff
    fitting = [other for other in reversed(list(known)) if least <= len(other) <= most]
    room = min(NEAREST_CANDIDATES, _COMPARED_LETTERS // (max(map(len, fitting), default=0) + 1))
    if len(fitting) <= room:
        return fitting
    last = max(len(name) - _FRAGMENT, 0)
    starts = {last * part // (_FRAGMENTS - 1) for part in range(_FRAGMENTS)}
    fragments = [name[start : start + _FRAGMENT] for start in starts]
    shared = [sum([fragment in other for fragment in fragments]) for other in fitting]
    best = sorted(range(len(fitting)), key=shared.__getitem__, reverse=True)[:room]
    return [fitting[number] for number in best]


def nearest_or_known(name: str, known: Iterable[str], kind: str) -> str:
    """`Did you mean 'read_file'?`, or the known names of this `kind` if none is near."""
    names = list(known)
    return _did_you_mean(name, names, kind) or known_names(names, kind)


def nearest_and_known(name: str, known: Iterable[str], kind: str) -> str:
    """`Did you mean 'read_file'?` if a name is near, and the known names of this `kind`."""
    names = list(known)
    return f"{_did_you_mean(name, names, kind)} {known_names(names, kind)}".lstrip()


def _did_you_mean(name: str, known: list[str], kind: str) -> str:
    found = nearest_tools(name, known) if kind == "tools" else nearest_names(name, known)
    return f"Did you mean '{escape(found[0])}'?" if found else ""


def known_names(known: Iterable[str], kind: str) -> str:
    """The first known names of this `kind`."""
    names = list(known)
    if not names:
        return f"There are no {kind}."
    listed = ", ".join(f"'{escape(other)}'" for other in names[:NAMES_SHOWN])
    more = len(names) - NAMES_SHOWN
    return f"Available {kind}: {listed}" + (f" and {more} more" if more > 0 else "")
