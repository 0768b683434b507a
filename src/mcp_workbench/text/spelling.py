"""Compares names: how similar their spelling is, and whether two tools name the same action.

Help after a mistake must not propose the opposite of what was asked for. A correctly spelt verb must be in both
names: `edit_file` never corrects `delete_file`. A misspelt word may stand for a verb: `delte_file` means
`delete_file`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from mcp_workbench.text.sanitize import NAME_SHOWN_LENGTH

_WORD = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+"
_LIKE = 0.75
"""The part of two words that must be the same, in the same order, for one to be the other misspelt."""
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
"""Verbs of tool names, and words that reverse an action: in and out, on and off."""


def says_the_same(name: str, other: str) -> bool:
    """Whether `other` can be proposed for `name`: it has the same verbs, or those that `name` misspells."""
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
    """The words of a name, in small letters: `readFile` and `read_file` have the same."""
    return tuple(_stem(word.casefold()) for word in re.findall(_WORD, name[:NAME_SHOWN_LENGTH]))


def _stem(word: str) -> str:
    """`list` for `lists`."""
    return word[:-1] if word.endswith("s") and word[:-1] in _VERBS else word


def _is_misspelt(word: str, verb: str) -> bool:
    """Whether one letter is missing, added, different or swapped; or both start alike and most letters are the same."""
    differing = _differing(word, verb)
    is_swapped = differing == _SWAPPED and sorted(word) == sorted(verb)
    return differing <= 1 or is_swapped or (word[0] == verb[0] and similarity(word, verb) >= _LIKE)


def _differing(word: str, other: str) -> int:
    """Letters between the common beginning and the common end of two words."""
    start = next((n for n, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other)))
    left, right = word[start:], other[start:]
    end = next((n for n, (a, b) in enumerate(zip(left[::-1], right[::-1], strict=False)) if a != b), None)
    return max(len(left), len(right)) - (min(len(left), len(right)) if end is None else end)


def similarity(name: str, other: str, masks: dict[str, int] | None = None) -> float:
    """How much of two texts is the same in the same order, from 0 to 1: twice the longest common subsequence.

    Its cost is a few operations on integers for each letter of `other`, whatever the letters are. `masks` are those of
    `name`, for a caller who compares it with many.
    """
    masks = letter_positions(name) if masks is None else masks
    row = (1 << len(name)) - 1
    for letter in other:
        if match := row & masks.get(letter, 0):
            row = (row + match) | (row - match)
    common = len(name) - (row & ((1 << len(name)) - 1)).bit_count()
    return 2 * common / (len(name) + len(other)) if name or other else 1.0


def letter_positions(name: str) -> dict[str, int]:
    """For each letter, a bit at every position that has it."""
    masks: dict[str, int] = {}
    for position, letter in enumerate(name):
        masks[letter] = masks.get(letter, 0) | 1 << position
    return masks
