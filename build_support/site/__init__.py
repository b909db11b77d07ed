"""Builds the documentation site, by Sphinx, from the pages, notebooks and docstrings of the repository.

Nothing is copied by hand: README.md is the first page, ARCHITECTURE.md and its like are pages where they lie, notebooks
are executed, and the reference is read from the sources. `make docs` builds it into build/site.

=========== =================================================================
pages       which files are pages, where the site has them, links between them
notebooks   executes notebooks, and turns them into pages
reference   the pages of public modules, from their docstrings
build       writes what Sphinx reads, into build/pages, and runs it
links       checks the links of what was built
screenshots takes pictures of pages in a headless Chromium
conf        Sphinx's settings
=========== =================================================================

`notebooks.execute` needs the project's own environment, the rest one that has `REQUIREMENTS`.
"""

# What builds the site, in an environment of its own.
REQUIREMENTS = ("sphinx>=9,<10", "furo", "myst-parser>=5,<6", "griffelib>=2,<3", "sphinx-copybutton", "nbconvert")
