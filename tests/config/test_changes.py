"""What is otherwise in a configuration than in the one before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mcp_workbench.config.diff import Changes, changes
from mcp_workbench.config.model import CatalogConfig, Config, Launch, ServerConfig, ToolboxConfig
from mcp_workbench.identity import ServerIdentifier

Shape = dict[str, tuple[str, dict[str, str]]]
NAMES = st.sampled_from(["a", "b", "c"])
SHAPES = st.dictionaries(NAMES, st.tuples(NAMES, st.dictionaries(NAMES, NAMES)))


def config_of(shape: Shape) -> Config:
    """Toolboxes with a description each, of servers with a command each."""
    toolboxes = {
        toolbox: ToolboxConfig(
            name=toolbox,
            description=description,
            servers={
                name: ServerConfig(name=name, toolbox=toolbox, target=Launch(command=command))
                for name, command in servers.items()
            },
        )
        for toolbox, (description, servers) in shape.items()
    }
    return Config(file="/etc/workbench-config.json", toolboxes=toolboxes)


def commands_of(shape: Shape) -> dict[ServerIdentifier, str]:
    return {
        ServerIdentifier(toolbox, server): command
        for toolbox, (_, servers) in shape.items()
        for server, command in servers.items()
    }


@given(SHAPES, SHAPES)
def test_every_server_is_in_its_place_and_those_that_stay_as_they_are_in_none(old: Shape, new: Shape):
    found = changes(config_of(old), config_of(new))
    before, after = commands_of(old), commands_of(new)
    assert set(found.added) == after.keys() - before.keys()
    assert set(found.removed) == before.keys() - after.keys()
    assert set(found.changed) == {one for one in after.keys() & before.keys() if after[one] != before[one]}
    assert set(found.toolboxes) == {name for name in {**old, **new} if old.get(name) != new.get(name)}
    assert set(found.replaced) == {*found.changed, *found.removed}


@given(SHAPES)
def test_nothing_is_otherwise_in_the_same(shape: Shape):
    assert changes(config_of(shape), config_of(dict(reversed(shape.items())))) == Changes()


def test_settings_of_the_whole_file_are_named_as_people_write_them():
    old = config_of({})
    for field, value, name in (
        ("tool_mode", "dynamic", "toolMode"),
        ("bounds", {"open_timeout_seconds": 1.0}, "limits"),
        ("catalog", CatalogConfig(refresh="never"), "catalog"),
        ("record", "full", "record"),
    ):
        assert changes(old, replace(old, **{field: value})) == Changes(settings=(name,))
