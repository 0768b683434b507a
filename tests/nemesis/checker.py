"""What must hold for every history. Pure functions: a history in, violations out."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from mcp_workbench.serve.stdio import LAST_WRITE_SECONDS
from tests.nemesis.history import (
    EXPECTED_STATUS,
    NONCE,
    UNCAUGHT,
    AnyEvent,
    Begun,
    Calmed,
    Cancelled,
    Counted,
    CutOff,
    Delivered,
    Ended,
    Heard,
    History,
    Lagged,
    Left,
    Paused,
    Peopled,
    Setting,
    Started,
    Swept,
    Unforeseen,
    Weighed,
    line,
    of,
)

SLACK_SECONDS = 1.0
BACKLOG_SECONDS = 10.0
"""How long after a pause a client may still be reading what it missed."""
"""For the way of an answer; the time that the machine did not give to the driver is added."""
CROSSING_SECONDS = 1.0
"""An answer that was on its way when its request was cancelled is there by then."""
HEAL_SECONDS = 60.0
END_SECONDS = 5.0
"""Nothing is left of a client that hung up."""
CARRYING = frozenset({"ok", "tool_error"})
"""What a server answered itself."""
DEFECTS = frozenset({"internal", "fault", "rpc:-32603", "spawn_failed", "input_required", "negotiation_failed"})
"""What only a defect of the workbench answers with: every command can be run, and no server asks."""


class Violation(NamedTuple):
    """A promise that was not kept, and the events that show it."""

    rule: str
    text: str
    events: tuple[AnyEvent, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.rule}: {self.text}", *(f"    {line(event)}" for event in self.events)])


class Record:
    """A history with its events found by what they are about."""

    def __init__(self, history: History) -> None:
        self.history = history
        [self.setting] = of(history, Setting)
        self.begun = {event.op: event for event in of(history, Begun)}
        self.by_nonce = {event.nonce: event for event in self.begun.values() if event.nonce}
        self.cancelled = {event.op: event for event in of(history, Cancelled)}
        self.ended: dict[str, list[Ended]] = defaultdict(list)
        for end in of(history, Ended):
            self.ended[end.op].append(end)
        self.delivered: dict[str, list[Delivered]] = defaultdict(list)
        for delivered in of(history, Delivered):
            self.delivered[delivered.nonce].append(delivered)

        self._pauses: dict[str, list[Paused]] = defaultdict(list)
        for pause in of(history, Paused):
            self._pauses[pause.client].append(pause)
        lags = sorted((event.at, event.seconds) for event in of(history, Lagged))
        self._lagged_at = [at for at, _ in lags]
        self._lag = list(accumulate((seconds for _, seconds in lags), initial=0.0))

    def slack(self, begin: float, end: float, client: str = "") -> float:
        """How late something may be that was due in this time, for a client that may have read nothing meanwhile."""
        first, last = bisect_left(self._lagged_at, begin), bisect_right(self._lagged_at, end)
        paused = sum(one.seconds for one in self._pauses[client] if begin - one.seconds <= one.at <= end)
        return SLACK_SECONDS + self._lag[last] - self._lag[first] + paused

    def deliveries(self, begun: Begun) -> list[Delivered]:
        return self.delivered.get(begun.nonce, []) if begun.nonce else []

    def was_abandoned(self, begun: Begun) -> bool:
        """Whether its client was gone before it had to be answered."""
        return any(
            left.client == begun.client
            and 0 <= left.at - begun.at <= begun.seconds + self.slack(begun.at, left.at, begun.client)
            for left in of(self.history, Left)
            if not left.final
        )

    def heals(self) -> Iterator[tuple[Begun, Ended]]:
        """The calls that were made to see whether servers heal, with their outcomes, in order."""
        for end in of(self.history, Ended):
            begun = self.begun.get(end.op)
            if begun is not None and begun.what == "heal":
                yield begun, end


def check(history: History) -> list[Violation]:
    """Everything that is wrong with a history."""
    record = Record(history)
    return [violation for rule in RULES for violation in rule(record)]


def one_outcome(record: Record) -> Iterator[Violation]:
    """Every request has exactly one outcome; a cancelled or abandoned one has one at most."""
    for begun in record.begun.values():
        ends = record.ended.get(begun.op, [])
        withdrawn = record.cancelled.get(begun.op)
        if len(ends) > 1:
            yield Violation("one outcome", f"{begun.op} was answered {len(ends)} times", (begun, *ends))
        if not ends and withdrawn is None and not record.was_abandoned(begun):
            yield Violation("one outcome", f"{begun.op} was never answered", (begun, *record.deliveries(begun)))
        if ends and withdrawn is not None and _is_late(record, begun, withdrawn, ends[0]):
            text = f"{begun.op} was answered {ends[0].at - withdrawn.at:.1f} s after it was cancelled"
            yield Violation("one outcome", text, (begun, withdrawn, ends[0]))
    for op, ends in record.ended.items():
        if op not in record.begun:
            yield Violation("one outcome", f"{op} was answered, and never asked", tuple(ends))


def _is_late(record: Record, begun: Begun, withdrawn: Cancelled, end: Ended) -> bool:
    """Whether an answer can't have been on its way already when its request was cancelled."""
    return end.at - withdrawn.at > CROSSING_SECONDS + record.slack(withdrawn.at, end.at, begun.client)


def in_time(record: Record) -> Iterator[Violation]:
    """An outcome comes before the deadline of its request, and of a call whose server has it."""
    for begun in record.begun.values():
        for end in record.ended.get(begun.op, [])[:1]:
            took, arrived = end.at - begun.at, record.deliveries(begun)
            if took > begun.seconds + record.slack(begun.at, end.at, begun.client):
                text = f"{begun.op} took {took:.1f} s of at most {begun.seconds:g}"
                yield Violation("in time", text, (begun, *arrived, end))
            for delivered in arrived:
                took = end.at - delivered.at
                if took > record.setting.hard_seconds + record.slack(delivered.at, end.at, begun.client):
                    text = f"{begun.op} ended {took:.1f} s after its server had it"
                    yield Violation("in time", text, (begun, delivered, end))


def own_nonce(record: Record) -> Iterator[Violation]:
    """A success carries the nonce of its request, and nothing that a client hears carries another client's."""
    for ends in record.ended.values():
        for end in ends:
            begun = record.begun.get(end.op)
            if begun is not None and end.code in CARRYING and begun.nonce and end.nonces != (begun.nonce,):
                yield Violation("own nonce", f"{end.op} succeeded with {end.nonces or 'no nonce'}", (begun, end))
    for told in (*of(record.history, Ended), *of(record.history, Heard)):
        if any(_maker(nonce) != told.client for nonce in told.nonces):
            yield Violation("own nonce", f"{told.client} heard of another client's call", (told,))
    for heard in of(record.history, Heard):
        begun = record.begun.get(heard.op)
        if heard.op and (begun is None or begun.client != heard.client or set(heard.nonces) - {begun.nonce}):
            shown = (begun,) if begun is not None else ()
            yield Violation("own nonce", f"{heard.client} heard of {heard.op} what belongs elsewhere", (*shown, heard))


def delivered_once(record: Record) -> Iterator[Violation]:
    """No call reaches servers twice, none reaches another server or tool, and no success is made up."""
    for nonce, arrived in record.delivered.items():
        begun = record.by_nonce.get(nonce)
        if begun is None:
            yield Violation("delivered once", f"a call that nobody made was delivered ({nonce!r})", tuple(arrived))
            continue
        if len(arrived) > 1:
            yield Violation("delivered once", f"{begun.op} was delivered {len(arrived)} times", (begun, *arrived))
        if any((one.server, one.tool) != (begun.server, begun.tool) for one in arrived):
            yield Violation("delivered once", f"{begun.op} went to another tool", (begun, *arrived))
    for op, ends in record.ended.items():
        begun = record.begun.get(op)
        if begun is not None and begun.nonce and ends[0].code in CARRYING and not record.deliveries(begun):
            yield Violation("delivered once", f"{op} succeeded, and no server had it", (begun, *ends))


def withheld_from_servers(record: Record) -> Iterator[Violation]:
    """No call of a withheld or filtered tool reaches its server, or succeeds."""
    withheld = set(record.setting.withheld)
    for delivered in of(record.history, Delivered):
        if (delivered.server, delivered.tool) in withheld:
            yield Violation("withheld", f"{delivered.tool} of {delivered.server} was called", (delivered,))
    for begun in record.begun.values():
        for end in record.ended.get(begun.op, []):
            if (begun.server, begun.tool) in withheld and end.code in CARRYING:
                yield Violation("withheld", f"{end.op} succeeded", (begun, end))


def wrong_requests_contact_nobody(record: Record) -> Iterator[Violation]:
    """A request of a wrong shape is refused and not passed on, and as long as there are no others nothing starts."""
    for begun in record.begun.values():
        if not begun.wrong:
            continue
        for end in record.ended.get(begun.op, []):
            if end.code in CARRYING:
                yield Violation("wrong requests", f"{end.op} succeeded", (begun, end))
        if arrived := record.deliveries(begun):
            yield Violation("wrong requests", f"{begun.op} reached a server", (begun, *arrived))
    needed = min((one.at for one in record.begun.values() if one.server and not one.wrong), default=float("inf"))
    for started in of(record.history, Started):
        if started.at < needed:
            yield Violation("wrong requests", f"{started.server} was started before it was needed", (started,))


def healed(record: Record) -> Iterator[Violation]:
    """After the last fault every server answers every client in time."""
    if not of(record.history, Calmed):
        yield Violation("healed", "the faults never stopped")
        return
    last = {(begun.client, begun.server): (begun, end) for begun, end in record.heals()}
    times = heal_seconds(record)
    for pair in ((client, server) for client in record.setting.clients for server in record.setting.servers):
        if pair not in times:
            yield Violation("healed", f"{pair[1]} never answered {pair[0]} again", last.get(pair, ()))
        elif times[pair] > HEAL_SECONDS:
            yield Violation("healed", f"{pair[1]} answered {pair[0]} only after {times[pair]:.0f} s", last[pair])


def heal_seconds(record: Record) -> dict[tuple[str, str], float]:
    """How long after the last fault each client had an answer of each server."""
    calm = max((event.at for event in of(record.history, Calmed)), default=0.0)
    times: dict[tuple[str, str], float] = {}
    for begun, end in record.heals():
        if end.code == "ok":
            times.setdefault((begun.client, begun.server), end.at - calm)
    return times


def swept(record: Record) -> Iterator[Violation]:
    """Whoever hangs up, or is killed, leaves nothing behind."""
    ends = of(record.history, Swept)
    for event in ends:
        if event.left:
            yield Violation("swept", f"{event.client} left {len(event.left)} processes behind", (event,))
        elif event.seconds > END_SECONDS + record.slack(event.at - event.seconds, event.at):
            yield Violation("swept", f"{event.client} took {event.seconds:.1f} s to end", (event,))
        is_early = event.fresh and event.how == "term" and event.status == UNCAUGHT
        if event.status != EXPECTED_STATUS[event.how] and not is_early:
            yield Violation("swept", f"{event.client} ended with status {event.status}", (event,))
    if len(ends) != len(of(record.history, Left)):
        yield Violation("swept", "a client that hung up never ended", tuple(of(record.history, Left)))


def bounded_memory(record: Record) -> Iterator[Violation]:
    """No workbench process holds more memory than it may, whatever its clients leave unread."""
    for event in of(record.history, Weighed):
        if 0 < record.setting.memory_bytes < event.size_bytes:
            yield Violation("memory", f"{event.client} holds {event.size_bytes / 1024 / 1024:.0f} MiB", (event,))


def no_crowd(record: Record) -> Iterator[Violation]:
    """A server that was started again and again has left nothing behind, while the workbench still runs."""
    counted = of(record.history, Peopled)
    if not counted:
        yield Violation("no crowd", "nobody counted")
    for event in counted:
        if event.count > event.most:
            text = f"{event.workbench} has {event.count} processes of {event.server}, and needs {event.most}"
            yield Violation("no crowd", text, (event,))


def nothing_left(record: Record) -> Iterator[Violation]:
    """At the end there are no processes, and descriptors and tasks are those of the beginning."""
    counts = {event.when: event for event in of(record.history, Counted)}
    if counts.keys() != {"before", "after"}:
        yield Violation("nothing left", "nobody counted", tuple(counts.values()))
        return
    before, after = counts["before"], counts["after"]
    if after.processes:
        yield Violation("nothing left", f"{len(after.processes)} processes", (after,))
    if len(after.descriptors) > len(before.descriptors):
        yield Violation("nothing left", f"{len(after.descriptors) - len(before.descriptors)} descriptors", (after,))
    if len(after.tasks) > len(before.tasks):
        yield Violation("nothing left", f"{len(after.tasks) - len(before.tasks)} tasks", (after,))


def nothing_unforeseen(record: Record) -> Iterator[Violation]:
    """No defect shows: no traceback, no line that is no message, no internal error, no end while a client is there."""
    for event in of(record.history, Unforeseen):
        yield Violation("unforeseen", f"{event.client}: {event.text}", (event,))
    for event in of(record.history, Ended):
        begun = record.begun.get(event.op)
        is_early = event.code == "shutting_down" and begun is not None and not record.was_abandoned(begun)
        if event.code in DEFECTS or is_early:
            yield Violation("unforeseen", f"{event.op} ended with {event.code}", (event,))


def cut_off_only_for_slow_readers(record: Record) -> Iterator[Violation]:
    """A workbench that ends writes whole lines. It gives up only on a client that does not read for a second."""
    for event in of(record.history, CutOff):
        begin = max(one.at for one in of(record.history, Left) if one.client == event.client and one.at <= event.at)
        missed = record.slack(begin - BACKLOG_SECONDS, event.at, event.client) - SLACK_SECONDS
        if missed < LAST_WRITE_SECONDS:
            yield Violation("cut off", f"{event.client} read all the time, and got half a line", (event,))


RULES = (
    nothing_unforeseen,
    cut_off_only_for_slow_readers,
    one_outcome,
    in_time,
    own_nonce,
    delivered_once,
    withheld_from_servers,
    wrong_requests_contact_nobody,
    healed,
    swept,
    bounded_memory,
    no_crowd,
    nothing_left,
)


def _maker(nonce: str) -> str:
    match = NONCE.fullmatch(nonce)
    return match.group(1) if match else ""
