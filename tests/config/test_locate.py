"""Where the configuration file is looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_workbench.config import locate
from mcp_workbench.config.locate import find_config, has_project_file
from mcp_workbench.errors import ConfigError


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty home, and an empty current folder beside it."""
    monkeypatch.setattr(locate.sys, "platform", "linux")
    (tmp_path / "home").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "home"


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    return path


def local() -> Path:
    return write(Path("workbench-config.json"))


def own(home: Path) -> Path:
    return write(home / ".config/mcp-workbench/workbench-config.json")


def test_the_flag_wins_over_everything(home):
    local()
    own(home)
    environ = {"HOME": str(home), "WORKBENCH_CONFIG": "/other.json"}
    assert Path(find_config("/flag.json", environ)) == Path("/flag.json")


def test_the_variable_wins_over_files_in_known_places(home):
    local()
    own(home)
    environ = {"HOME": str(home), "WORKBENCH_CONFIG": "/other.json"}
    assert Path(find_config(None, environ)) == Path("/other.json")


def test_an_empty_variable_counts_as_not_set(home):
    path = own(home)
    assert Path(find_config(None, {"HOME": str(home), "WORKBENCH_CONFIG": ""})) == path


def test_a_tilde_is_the_home_folder_where_no_shell_replaced_it(home, monkeypatch):
    monkeypatch.setenv("HOME", str(home))
    assert Path(find_config("~/a.json", {})) == home / "a.json"
    assert Path(find_config(None, {"WORKBENCH_CONFIG": "~/b.json"})) == home / "b.json"


def test_the_users_file_is_found_and_not_the_current_folder(home):
    local()
    path = own(home)
    assert Path(find_config(None, {"HOME": str(home)})) == path


def test_nothing_starts_with_the_file_of_the_current_folder_and_says_which_flag_to_pass(home):
    local()
    with pytest.raises(ConfigError) as caught:
        find_config(None, {"HOME": str(home)})
    assert "--config ./workbench-config.json" in caught.value.hint
    assert "decides which programs start" in str(caught.value)


def test_where_nothing_is_found_the_error_names_the_places_and_how_to_start(home):
    with pytest.raises(ConfigError) as caught:
        find_config(None, {"HOME": str(home)})
    text = str(caught.value)
    assert "$WORKBENCH_CONFIG" in text
    assert str(home / ".config/mcp-workbench/workbench-config.json") in text
    assert "./workbench-config.json" in text
    assert "--config FILE" in caught.value.hint
    assert "mcp-workbench import" in caught.value.hint
    assert "mcp-workbench add" in caught.value.hint


def test_a_file_of_the_folder_is_a_projects_unless_another_is_named_or_the_folder_is_the_users_own(home, monkeypatch):
    environ = {"HOME": str(home)}
    assert not has_project_file(None, environ)
    local()
    assert has_project_file(None, environ)
    assert not has_project_file("x.json", environ)
    assert not has_project_file(None, {**environ, "WORKBENCH_CONFIG": "x.json"})
    monkeypatch.chdir(own(home).parent)
    assert not has_project_file(None, environ)


def test_xdg_config_home_is_used_where_it_is_absolute(home):
    path = write(home / "xdg/mcp-workbench/workbench-config.json")
    assert Path(find_config(None, {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "xdg")})) == path
    default = own(home)
    assert Path(find_config(None, {"HOME": str(home), "XDG_CONFIG_HOME": "xdg"})) == default


def test_macos_has_its_own_folder(home, monkeypatch):
    monkeypatch.setattr(locate.sys, "platform", "darwin")
    path = write(home / "Library/Application Support/mcp-workbench/workbench-config.json")
    assert Path(find_config(None, {"HOME": str(home)})) == path


def test_a_broken_link_is_found_so_that_reading_it_tells_what_is_wrong(home):
    path = home / ".config/mcp-workbench/workbench-config.json"
    path.parent.mkdir(parents=True)
    path.symlink_to("nowhere")
    assert Path(find_config(None, {"HOME": str(home)})) == path
