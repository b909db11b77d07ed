"""``python -m build_support COMMAND``; see `main`."""

from __future__ import annotations

import sys

from . import chart, interpreters, pipeline, plugin, prose, release, requirements, vulnerabilities, wheels
from .toolchain import BuildError, find_go, reported, toolchain


def main(arguments: list[str]) -> None:
    """Run one of the commands.

    build         rebuild the libraries in the source tree, what has changed only
    build go      only the Go library
    requirements  print what must be installed before a build without isolation, or what extras need
    pythons       print VERSION=COMMAND for each Python that others' clients are tested with
    go-path       print the directory of the Go command that the build uses
    test-env      print the settings by which the Go tests find the CPU plugin
    wheels        build and audit the wheels, into dist/
    try-wheels    install the wheels and train, for each Python, or those whose versions follow
    release       check that dist/ can be released, and write its bills of materials
    prose         check the English of pages, docstrings, comments and errors, or of files whose names follow
    chart         draw the chart of README.md from its table
    vulns         look the Go modules up in the database of vulnerabilities, where it can be reached
    """
    match arguments:
        case ["build"]:
            pipeline.build()
        case ["build", "go"]:
            pipeline.build_go(toolchain())
        case ["requirements"]:
            print("\n".join(requirements.all_requirements()))
        case ["requirements", *extras]:
            print("\n".join(requirements.extra_requirements(*extras)))
        case ["pythons"]:
            print("\n".join(f"{version}={command}" for version, command in interpreters.client_pythons().items()))
        case ["go-path"]:
            go = find_go()
            if go is None:
                raise BuildError("no Go on the PATH and none installed as a Python package")
            print(go.parent)
        case ["test-env"]:
            print(" ".join(plugin.test_environment()))
        case ["wheels"]:
            wheels.build()
            wheels.audit()
        case ["try-wheels", *versions]:
            wheels.try_out(*versions)
        case ["release"]:
            release.check()
        case ["prose", *names]:
            prose.check(*names)
        case ["chart"]:
            chart.write()
        case ["vulns", *packages]:
            vulnerabilities.check(*packages)
        case _:
            raise BuildError(f"no such command.\n{main.__doc__}")


if __name__ == "__main__":
    with reported():
        main(sys.argv[1:])
