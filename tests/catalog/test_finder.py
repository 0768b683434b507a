"""Search in what a place knows: the index follows the catalog, at the cost of what changed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.catalog.search import finder as module
from mcp_workbench.catalog.search.finder import Finder
from mcp_workbench.catalog.search.index import Index
from mcp_workbench.catalog.snapshot import Catalog, ServerTools, take_listing
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import DEFAULTS, Limits
from tests.support.procs import wait_until
from tests.surfaces.benches import config_of
from tests.wire.pair import settle

FILES = {"read_file": "Reads the contents of a file.", "delete_file": "Deletes a file for good."}
MAIL = {"send_mail": "Sends an electronic letter to somebody.", "read_mail": "Reads the letters in a mailbox."}


class Spied(Index):
    """Writes down what is put in and taken out, and by which thread."""

    made: list[Spied]
    calls: list[tuple[str, str, bool]]
    gate = threading.Event()
    inside = 0
    most_inside = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.calls = []
        self.made.append(self)

    def put(self, server: ServerIdentifier, *arguments: Any, **options: Any) -> None:
        self.inside += 1
        self.most_inside = max(self.inside, self.most_inside)
        assert self.gate.wait(10)
        self.inside -= 1
        super().put(server, *arguments, **options)
        is_here = threading.current_thread() is threading.main_thread()
        self.calls.append(("put", server.server, is_here))

    def drop(self, server: ServerIdentifier) -> None:
        super().drop(server)
        self.calls.append(("drop", server.server, True))

    def puts(self) -> list[str]:
        return [server for call, server, _ in self.calls if call == "put"]


@pytest.fixture(autouse=True)
def spied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Index", Spied)
    monkeypatch.setattr(Spied, "made", [], raising=False)
    Spied.gate.set()


def listing(tools: dict[str, str] | Iterable[str]) -> ServerTools:
    said = tools if isinstance(tools, dict) else dict.fromkeys(tools, "")
    raw = [Raw(json.dumps({"name": name, "description": about}).encode()) for name, about in said.items()]
    return take_listing(raw, (), DEFAULTS)


def place(**limits: Any) -> tuple[Finder, Catalog]:
    """Two toolboxes; `files` and `mail` of the first have listed."""
    boxes = {"dev": {"files": [], "mail": [], "late": []}, "ops": {"files": []}}
    catalog = Catalog({name: list(servers) for name, servers in boxes.items()})
    catalog.snapshot("dev", "files").put(listing(FILES))
    catalog.snapshot("dev", "mail").put(listing(MAIL))
    return Finder(config_of(boxes), catalog, Limits(**limits)), catalog


def only_index() -> Spied:
    """The index of the only finder that has searched."""
    [made] = Spied.made
    return made


def tool(name: str, server: str = "files", toolbox: str = "dev") -> ToolIdentifier:
    return ToolIdentifier(toolbox, server, name)


async def found(finder: Finder, query: str, toolbox: str | None = None) -> list[ToolIdentifier]:
    return [identifier for identifier, _ in (await finder.search(query, toolbox)).found]


async def test_what_fits_best_comes_first():
    finder, _ = place()
    assert (await found(finder, "delete a file"))[0] == tool("delete_file")
    assert (await found(finder, "send a letter to somebody"))[0] == tool("send_mail", "mail")


async def test_nothing_is_found_where_nothing_fits():
    finder, _ = place()
    assert await found(finder, "xylophone") == []


async def test_there_is_no_index_before_a_search_and_the_next_one_takes_nothing_in_again():
    finder, _ = place()
    assert Spied.made == []
    await found(finder, "file")
    for _ in range(3):
        await found(finder, "mail")
    assert only_index().puts() == ["files", "mail"]


async def test_only_the_server_that_listed_something_new_is_taken_in_again():
    finder, catalog = place()
    await found(finder, "file")
    catalog.snapshot("dev", "mail").put(listing({"paint_picture": "Paints a picture in oil."}))
    assert await found(finder, "paint a picture") == [tool("paint_picture", "mail")]
    assert tool("send_mail", "mail") not in await found(finder, "send a letter to somebody")
    assert only_index().puts() == ["files", "mail", "mail"]


async def test_a_server_that_lists_for_the_first_time_is_found_from_then_on():
    finder, catalog = place()
    assert await found(finder, "weather forecast") == []
    catalog.snapshot("dev", "late").put(listing({"forecast": "Tells the weather forecast of a place."}))
    assert (await found(finder, "weather forecast"))[0] == tool("forecast", "late")
    assert only_index().puts() == ["files", "mail", "late"]


async def test_the_tools_of_a_server_that_cannot_be_reached_are_left_out_until_it_can():
    finder, catalog = place()
    await found(finder, "file")
    catalog.snapshot("dev", "files").lose()
    assert all(one.server == "mail" for one in await found(finder, "read or delete a file"))
    assert ("drop", "files", True) in only_index().calls
    catalog.snapshot("dev", "files").put(listing(FILES))
    assert (await found(finder, "delete a file"))[0] == tool("delete_file")


async def test_one_toolbox_is_searched_alone():
    finder, catalog = place()
    catalog.snapshot("ops", "files").put(listing(FILES))
    assert {one.toolbox for one in await found(finder, "delete a file")} == {"dev"}  # their tools are the same
    assert {one.toolbox for one in await found(finder, "delete a file", "ops")} == {"ops"}


async def test_no_more_are_found_than_are_shown():
    finder, catalog = place()
    catalog.snapshot("dev", "late").put(listing({f"copy_{number}": "Copies a picture." for number in range(50)}))
    assert len(await found(finder, "copy a picture")) == DEFAULTS.matches


async def test_few_tools_are_taken_in_at_once_and_many_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "INDEX_INLINE_TOOLS", 4)
    finder, catalog = place()
    await found(finder, "file")
    assert all(is_here for _, _, is_here in only_index().calls)
    catalog.snapshot("dev", "late").put(listing([f"t{number}" for number in range(5)]))
    only_index().calls.clear()
    await found(finder, "file")
    assert [call for call in only_index().calls if call[0] == "put"] == [("put", "late", False)]


async def test_searches_at_once_take_each_server_in_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "INDEX_INLINE_TOOLS", 0)
    finder, _ = place()
    Spied.gate.clear()
    searches = [asyncio.ensure_future(found(finder, "delete a file")) for _ in range(20)]
    await settle(20)
    Spied.gate.set()
    results = await asyncio.gather(*searches)
    assert {result[0] for result in results} == {tool("delete_file")}
    assert sorted(only_index().puts()) == ["files", "mail"]


async def test_a_search_that_is_given_up_does_not_let_another_into_what_is_being_made(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "INDEX_INLINE_TOOLS", 0)
    finder, _ = place()
    Spied.gate.clear()
    given_up = asyncio.ensure_future(found(finder, "delete a file"))
    await wait_until(lambda: Spied.made and only_index().inside == 1, what="a thread that indexes")
    given_up.cancel()
    other = asyncio.ensure_future(found(finder, "send a letter to somebody"))
    await settle(20)
    await asyncio.to_thread(lambda: None)  # another thread had its chance
    Spied.gate.set()
    assert (await other)[0] == tool("send_mail", "mail")
    assert given_up.cancelled()
    assert only_index().most_inside == 1
    assert sorted(only_index().puts()) == ["files", "mail"]


async def test_an_index_that_could_not_be_made_is_made_by_the_next_search(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "INDEX_INLINE_TOOLS", 0)
    finder, _ = place()
    with monkeypatch.context() as patched:
        patched.setattr(Spied, "put", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await found(finder, "delete a file")
    assert (await found(finder, "delete a file"))[0] == tool("delete_file")


async def test_a_list_that_is_the_same_again_is_not_taken_in_again():
    """A server that is read again by a check has usually nothing new; its tools need not be read again for that."""
    finder, catalog = place()
    await found(finder, "file")
    catalog.snapshot("dev", "files").put(listing(FILES))
    await found(finder, "file")
    assert only_index().puts() == ["files", "mail"]
