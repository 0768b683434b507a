"""Makes the pictures of the terminal: `make pictures`, or `python -m docs.pictures.make [--into FOLDER] [NAME...]`.

Each is what a real command wrote to a real pseudo-terminal, in a home folder that is made for it, with the servers that
come with the package. No network is needed. Times and process numbers are those of the run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from docs.pictures.emulator import Emulator
from docs.pictures.home import STAND_IN, home
from docs.pictures.recipes import RECIPES
from docs.pictures.svg import picture

FOLDER = Path(__file__).parent / "terminal"


def make(name: str, folder: Path) -> Path:
    """Make one picture."""
    recipe = RECIPES[name]
    with home() as person, Emulator(person.environ, person.folder, STAND_IN, recipe.rows) as terminal:
        recipe.cook(terminal, person)
        drawn = picture(terminal.screen, recipe.title, is_full=recipe.is_full)
    file = folder / f"{name}.svg"
    file.write_text(drawn, encoding="utf-8")
    return file


def main() -> None:
    reader = argparse.ArgumentParser(description="Make the pictures of the terminal.")
    reader.add_argument("names", nargs="*", metavar="NAME", help=f"Of these alone: {', '.join(RECIPES)}")
    reader.add_argument("--into", type=Path, default=FOLDER, help="Where they go.")
    given = reader.parse_args()
    given.into.mkdir(parents=True, exist_ok=True)
    for name in given.names or RECIPES:
        print(make(name, given.into))


if __name__ == "__main__":
    main()
