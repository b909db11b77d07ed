"""``python -m build_support.site COMMAND``; see `main`."""

from __future__ import annotations

import sys

from ..toolchain import BuildError, reported
from . import REQUIREMENTS, build, notebooks


def main(arguments: list[str]) -> None:
    """Run one of the commands.

    requirements  print what the environment of the site needs
    notebooks     execute the notebooks that changed, by the project's Python
    build         build the site, by the Python of the site
    """
    match arguments:
        case ["requirements"]:
            print("\n".join(REQUIREMENTS))
        case ["notebooks"]:
            notebooks.execute()
        case ["build"]:
            build.build()
        case _:
            raise BuildError(f"no such command.\n{main.__doc__}")


if __name__ == "__main__":
    with reported():
        main(sys.argv[1:])
