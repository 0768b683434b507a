"""Every official client, on every surface, in front of servers that ask, log, report, change and define odd things.

`make matrix`. The file has no name that `make test` collects: it plays some hundred scenes, which takes minutes.
`cells.py` has the table, `scenes.py` what is played, `compare.py` what must be equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.matrix import compare, scenes
from tests.matrix.cells import (
    CLIENTS,
    SERVERS,
    SOUND,
    SURFACES,
    TRANSPORTS,
    Client,
    Server,
    Surface,
    Transport,
    exists,
    reference,
)
from tests.support.typescript import Play, Scene, play_all, play_of

AT_ONCE = 3
"""Processes of clients that play at the same time: they wait more than they work."""
GROUP_SECONDS = 300.0


class Group(NamedTuple):
    """What one process of a client plays, one scene after the other."""

    client: Client
    surface: Surface
    front: Transport


class Theatre:
    """Plays every group once, when it is first asked for or earlier."""

    def __init__(self, programs: scenes.Programs, pool: ThreadPoolExecutor, groups: list[Group]) -> None:
        self._programs = programs
        self._running = {group: pool.submit(self._play, group) for group in groups}

    def direct(self, client: Client, server: Server) -> Play:
        client, server = reference(client, server)
        return self._played(Group(client, "direct", server.transport), server)

    def through(self, group: Group, server: Server) -> Play:
        return self._played(group, None if group.surface in ("meta", "dynamic") else server)

    def _played(self, group: Group, server: Server | None) -> Play:
        future: Future[dict[Server | None, Play | str]] = self._running[group]
        return play_of(future.result()[server])

    def _play(self, group: Group) -> dict[Server | None, Play | str]:
        folder = self._programs.folder / "plays" / "-".join(map(str, group))
        folder.mkdir(parents=True)
        played = scenes_of(group, self._programs)
        return dict(zip(played, play_all(list(played.values()), folder, GROUP_SECONDS), strict=True))


def scenes_of(group: Group, programs: scenes.Programs) -> dict[Server | None, Scene]:
    client, surface, front = group
    if surface == "direct":
        reached = [one for one in SOUND if one.transport == front and reference(client, one) == (client, one)]
        return {server: scenes.direct_scene(client, server, programs) for server in reached}
    if surface in ("meta", "dynamic"):
        return {None: scenes.through_scene(client, surface, front, None, programs)}
    shown = [server for server in SERVERS if exists(*group, server)]
    return {server: scenes.through_scene(client, surface, front, server, programs) for server in shown}


ROWS = [
    (Group(client, surface, front), server)
    for client in CLIENTS
    for surface in SURFACES
    for front in TRANSPORTS
    for server in SERVERS
    if exists(client, surface, front, server)
]


def groups_of(rows: list[tuple[Group, Server]]) -> list[Group]:
    """All that has to be played for some rows, in their order; what they are compared with first."""
    wanted: dict[Group, None] = {}
    for group, server in rows:
        if server in SOUND:
            client, itself = reference(group.client, server)
            wanted[Group(client, "direct", itself.transport)] = None
        wanted[group] = None
    return list(wanted)


@pytest.fixture(scope="session")
def theatre(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    folder: Path = tmp_path_factory.mktemp("matrix")
    rows = [item.callspec.params["row"] for item in request.session.items]  # type: ignore[attr-defined]
    with scenes.programs(folder) as programs, ThreadPoolExecutor(AT_ONCE) as pool:
        yield Theatre(programs, pool, groups_of(rows))


@pytest.mark.timeout(0)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{scenes.scene_name(*row[0])}-{row[1]}")
def test_a_client_gets_through_the_workbench_what_it_gets_directly(row: tuple[Group, Server], theatre: Theatre):
    group, server = row
    through = theatre.through(group, server)
    if server in SOUND:
        differing = compare.differences(group, server, through, theatre.direct(group.client, server))
    else:
        differing = compare.refused_definitions(group, server, through)
    assert not differing, "\n".join(differing)
