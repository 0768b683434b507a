"""Every number in the program, in one frozen object, each with its reason.

Nothing else in the package holds a timeout, a size or a count. Tests pass a `Limits`
with small values instead of waiting for the large ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds that the program keeps. Durations are seconds, sizes are bytes."""

    # -- opening a toolbox and starting its servers
    open_timeout_seconds: float = 20.0
    """An open answers with what is ready: hosts give up on a call after 60 s, people long before."""
    startup_timeout_seconds: float = 60.0
    """A first `npx` or `uvx` start downloads its package; beyond a minute it hangs."""
    probe_patience_seconds: float = 1.5
    """How long `server/discover` may stay unanswered before `initialize` is sent too: old servers
    that ignore unknown requests would otherwise cost their whole startup limit."""

    progress_step: float = 0.001
    """How much progress we report each time: hundreds of them are less than a server's first."""
    start_progress_seconds: float = 5.0
    """How often a client that asked for progress hears that its server is still starting: hosts that wait
    for signs of life give up after 10 s at the earliest."""

    # -- servers that fail, and servers that nobody uses
    backoff_first_seconds: float = 1.0
    """After a failed start, until the next: enough for a file to be saved or a port to be free."""
    backoff_most_seconds: float = 60.0
    """It doubles up to this."""
    backoff_jitter: float = 0.2
    """It is longer or shorter by up to this part, so that servers that failed together do not start together."""
    backoff_patience_seconds: float = 2.5
    """How long a caller waits for the next start; beyond it hears when that is."""
    breaker_failures: int = 5
    """Failures in a row after which a server rests: it is broken, and each start costs the machine."""
    rest_seconds: float = 30.0
    """Its first rest, after which it is tried once; each further failure makes the rest longer by this."""
    rest_most_seconds: float = 300.0
    """The longest rest. It never ends for good: a server that heals is found within five minutes."""
    steady_seconds: float = 30.0
    """A connection that lasted this long was a good one, and what failed before it is forgotten."""
    alive_seconds: float = 30.0
    """A server that was silent through a whole call is asked whether it lives, and has this long to say anything,
    or what was left of the call's time where its client gave up before."""
    idle_timeout_seconds: float = 0.0
    """When a server that nobody uses is stopped; 0 is never: a browser or a shell would lose its state."""

    # -- listing tools
    list_page_timeout_seconds: float = 15.0
    """A page is a local answer; a server that needs longer is stuck."""
    list_total_timeout_seconds: float = 60.0
    """All pages together: no catalog is worth more than a startup."""
    list_pages: int = 250
    """Endless cursors exist; 250 pages of 20 tools is the tool cap."""
    list_tools: int = 5_000
    """No model and no person can use more tools of one server."""
    list_bytes: int = 16 * 1024 * 1024
    """The definitions of one server, together."""
    schema_bytes: int = 256 * 1024
    """One tool's definition; a larger one would fill a context window by itself."""
    name_scan_bytes: int = 4096
    """How far into a definition that is too large its name is looked for."""
    schema_depth: int = 64
    """Nesting of one tool's definition: readers of schemas recurse."""
    list_inline_bytes: int = 256 * 1024
    """A longer list is read in a thread: on the event loop it would delay every other call."""
    refresh_wait_seconds: float = 2.0
    """How long an open waits for a list that changed, before it answers with the one it has."""
    relist_interval_seconds: float = 2.0
    """A storm of `list_changed` leads to at most one new listing in this time."""

    # -- calls
    call_idle_timeout_seconds: float = 120.0
    """Silence of a server during a call; progress starts it again."""
    call_hard_timeout_seconds: float = 900.0
    """No call lasts longer, progress or not: every call has one outcome."""
    in_flight: int = 32
    """Calls under way at once on one server: local servers are small programs."""
    queued: int = 128
    """Calls that wait for a slot of one server; beyond it they are refused at once."""
    queue_wait_seconds: float = 30.0
    """A call that waited this long says `overloaded` instead of waiting on."""
    overloaded_retry_seconds: float = 5.0
    """When a call that was refused for that may be worth another try: a call takes seconds."""
    client_requests: int = 1000
    """Requests of one client that are being answered at once: six servers' queues. Each costs some kilobytes."""
    question_seconds: float = 600.0
    """How long a parked call waits for its client's answer: a person may be reading it."""
    handle_bytes: int = 24
    """Random bytes in the handle of a parked call: nobody guesses it."""
    audience_bytes: int = 8
    """Random bytes that tell one client of the process from another."""
    parked: int = 256
    """Calls of one client that wait for it; beyond it the one that waited longest is given up."""
    page_bytes: int = 2 * 1024 * 1024
    """A page of a list that several servers share: a fourth of the largest message."""
    question_rounds: int = 10
    """How often one call of a modern server may ask before it is given up: it could ask for ever."""
    turn_seconds: float = 2.0
    """How long a call that waits for a modern client keeps other calls from a server that can't tell which
    call it asks for. Questions of one call come within milliseconds; a person takes longer."""
    missed_notifications: int = 64
    """Progress and log messages of a call while its modern client is being asked: the last of them are kept."""
    settle_seconds: float = 0.05
    """A moment for a server that asked at its start (for the roots) to take in the answer before its first call:
    npm's filesystem server needs up to 20 ms."""
    questions: int = 64
    """Questions of one server that its client has not answered yet; nobody reads more."""
    places: int = 16
    """Sets of capabilities that one client may declare, each with connections of its own: honest ones
    declare one, or one per kind of request."""
    subscriptions: int = 1000
    """Resources and tasks that one client watches at once: each is a request to a server."""
    known_uris: int = 10_000
    """Resources that servers named in results, remembered so that they can be read."""
    known_names: int = 20_000
    """Names of prompts that were given out and stay good, though a server renames them."""
    link_objects: int = 25_000
    """Objects in a result that is read for such names: that takes 20 ms; results beyond are passed on unread."""
    refusal_data_bytes: int = 16 * 1024
    """Data of a server's error that is searched for secrets and passed on: 20 ms at worst."""
    uri_length: int = 8192
    """Characters in an URI that is remembered or subscribed to; browsers and servers agree on less."""
    template_bytes: int = 256 * 1024
    """Templates that are compared with an URI, together: 20 ms of the event loop."""
    capabilities_bytes: int = 64 * 1024
    """What a client may declare; the longest seen in use is under 1 KiB."""
    announce_interval_seconds: float = 1.0
    """A storm of changes is told a client at most once in this time, per kind of list."""

    # -- messages
    message_bytes: int = 8 * 1024 * 1024
    """One message: honest results exceed 1 MiB; checking and re-framing 8 MiB takes 43 ms."""
    write_buffer_bytes: int = 8 * 1024 * 1024
    """Unread output towards one peer before requests to it wait: one largest message."""
    greeting_bytes: int = 32 * 1024
    """The longest first answer that is written before the event loop runs: half an empty pipe."""
    read_chunk_bytes: int = 256 * 1024
    """One read from a pipe: four times the default pipe size of Linux."""
    repair_bytes: int = 256 * 1024
    """The longest message in which broken surrogate pairs are repaired: 90 ms of regex at worst."""
    cut_depth: int = 128
    """Where an item of a list that is nested too deep to be read is cut: twice what is accepted, so it is withheld."""
    cut_bytes: int = 1024 * 1024
    """The longest list that is cut so: ten times one that any client could use."""
    cut_brackets: int = 60_000
    """Brackets that are looked at for it, those in a row as one: 60 ms."""
    noise_lines: int = 1_000
    """Lines that are no messages, since the last good one: banners pass, a broken server is closed."""
    noise_bytes: int = 1024 * 1024
    """The same in bytes."""
    noise_sample_bytes: int = 200
    """How much of the first noise line is logged."""
    id_length: int = 1024
    """Characters in a request's id; it is repeated in the answer."""
    id_batch: int = 64
    """Ids drawn from the system's noise at once."""
    identifier_scan_bytes: int = 4096
    """How far into an unreadable message its id is looked for."""

    # -- processes
    drain_seconds: float = 0.5
    """Shutdown: calls under way may end by themselves for this long; most take less."""
    stdin_eof_seconds: float = 1.0
    """First step: stdin is closed, a good server ends by itself."""
    terminate_seconds: float = 2.0
    """Second step: SIGTERM to the process group."""
    kill_seconds: float = 1.0
    """Third step: SIGKILL to the group, and the wait for the kernel to deliver it."""
    group_poll_seconds: float = 0.02
    """How often a process group that must be empty is looked at; no event tells it."""
    group_seconds: float = 0.5
    """What is left of a group whose leader ended well gets SIGTERM, and this long."""
    sweep_seconds: float = 0.5
    """The guardian's search for daemonised descendants; a scan takes milliseconds."""
    obituary_seconds: float = 0.5
    """After a server's output ended, how long its exit status and last words are waited for:
    calls on it fail within a second."""
    stderr_ring_bytes: int = 64 * 1024
    """The last of a server's stderr, kept for error messages."""
    stderr_tail_bytes: int = 2048
    """How much of it an error shows."""
    stderr_lines_per_second: int = 50
    """How many lines of it the log takes (at level debug); the rest is counted."""
    stderr_line_length: int = 1000
    """Characters of such a line that are looked at; the log shows less."""

    last_write_seconds: float = 1.0
    """How long a client that left may still read its last answers."""

    # -- configuration
    config_bytes: int = 4 * 1024 * 1024
    """A configuration file; the largest seen in use is under 100 KiB."""
    config_depth: int = 64
    """Nesting of the file; its own shape is six deep."""
    config_values: int = 50_000
    """Values in the file; it has thousands at most, and Python reads as many as this in a second."""
    open_timeout_most_seconds: float = 600.0
    """The largest `openTimeout`: no host waits longer for an answer."""
    timeout_most_seconds: float = 86_400.0
    """The largest of the other times that a file may set: more than a day is a number of milliseconds."""
    timeout_usual_seconds: float = 3600.0
    """Beyond it `check` asks whether milliseconds were meant."""
    in_flight_most: int = 1024
    """The largest `maxConcurrent`: beyond it a local server's own queues are the limit."""
    message_bytes_least: int = 64 * 1024
    """The smallest `maxMessageSize`: what servers say at their start must fit."""
    message_bytes_most: int = 64 * 1024 * 1024
    """The largest `maxMessageSize`: reading it takes a third of a second, in which nothing else happens."""
    name_length: int = 128
    """Characters in a toolbox or server name."""
    secret_length: int = 6
    """Shorter values are not redacted: `1` or `true` would black out every log line."""
    escape_layers: int = 3
    """Escapes within escapes that are resolved in search of a secret: JSON in JSON has two."""
    secret_piece_length: int = 256
    """A longer secret is looked for in pieces of this length, so that no text is read far beyond what is shown."""
    few_patterns: int = 500
    """Up to this many forms of secrets each is looked for by itself; beyond, a table of their first bytes is faster."""

    # -- what is shown
    names_shown: int = 20
    """Names listed in an error, when none is near."""
    nearest_candidates: int = 300
    """Names that are compared in search of the nearest: more would block the event loop."""
    nearest_shown: int = 3
    """Names that may have been meant, where several are offered."""
    joined_matches_shown: int = 5
    """Tools listed for one historical name that several had."""
    name_shown_length: int = 200
    """Characters of a hostile name that an error or a log line repeats."""
    joined_name_length: int = 128
    """The longest tool name that the protocol allows."""
    list_ttl_ms: int = 3_600_000
    """How long a modern client may keep a list that cannot change while we run."""
    dynamic_ttl_ms: int = 0
    """The same where the list can change: not at all without asking."""
    log_line_bytes: int = 4096
    """One log line: what a pipe takes at once."""
    log_value_length: int = 500
    """Characters of one value in a log line."""

    def bounded(self, bounds: Mapping[str, Any]) -> Limits:
        """The same with some of them changed, as a configuration says."""
        return msgspec.structs.replace(self, **bounds) if bounds else self


DEFAULTS = Limits()
