"""Sphinx's settings; `build` runs it."""

import builtins
from typing import Any

from sphinx.addnodes import pending_xref

project = "torch_go_xla"
html_title = "torch_go_xla"
extensions = ["myst_parser", "sphinx_copybutton"]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
# Anchors of headings, as others render Markdown.
myst_heading_anchors = 4
python_maximum_signature_line_length = 80
add_module_names = False
toc_object_entries_show_parents = "hide"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def _without_builtins(app: Any, tree: Any) -> None:
    """Take out the links of types such as ``bytes``, which would lead to an attribute of that name."""
    for link in list(tree.findall(pending_xref)):
        if link.get("reftarget") in vars(builtins):
            link.replace_self(link.children)


def setup(app: Any) -> None:
    """Register what changes the pages as they are read."""
    app.connect("doctree-read", _without_builtins)
