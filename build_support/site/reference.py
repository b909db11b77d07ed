"""The pages of the reference, one for each public module, read from the sources without importing them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import public

_SIGNATURE = 100  # columns

# One backtick is code in our docstrings, as in Markdown.
_CODE = re.compile(r"(?<![`:\w])`([^`\n]+)`(?!`)")


class Module(NamedTuple):
    """A public module: what griffe has read of it, and its public names."""

    source: Any
    names: list[str]

    @property
    def name(self) -> str:
        """Its full name."""
        return str(self.source.path)

    @property
    def place(self) -> str:
        """Where the site has its page."""
        return f"reference/{self.name}.rst"


def modules() -> list[Module]:
    """Return the public modules that have public names."""
    import griffe

    loader = griffe.GriffeLoader(search_paths=[public.PYTHON], allow_inspection=False)
    packages = {package: loader.load(package) for package in public.PACKAGES}
    loader.resolve_aliases()
    found = []
    for module in public.modules():
        package, _, path = module.name.partition(".")
        found.append(Module(packages[package][path] if path else packages[package], module.names))
    return found


def _indented(text: str, by: str = "   ") -> str:
    return "\n".join(by + line if line else line for line in text.splitlines())


def _docstring(text: str) -> str:
    """Return a docstring of ours, with its sections, as reStructuredText."""
    from sphinx.ext.napoleon import Config, GoogleDocstring

    settings = Config(napoleon_google_docstring=True, napoleon_use_rtype=False, napoleon_use_ivar=True)
    return _CODE.sub(r"``\1``", str(GoogleDocstring(text, settings)))


def _parameters(function: Any) -> str:
    """Return the parameters of a function as Python writes them, without ``self``."""
    import griffe

    parts = []
    keyword_only = False
    for index, parameter in enumerate(function.parameters):
        if index == 0 and parameter.name in ("self", "cls") and function.parent.is_class:
            continue
        kind = parameter.kind
        if kind is griffe.ParameterKind.keyword_only and not keyword_only:
            parts.append("*")
        keyword_only |= kind in (griffe.ParameterKind.keyword_only, griffe.ParameterKind.var_positional)
        stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(kind, "")
        text = f"{stars}{parameter.name}"
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and not stars:
            text += f" = {parameter.default}" if parameter.annotation is not None else f"={parameter.default}"
        parts.append(text)
    return ", ".join(parts)


def _described(directive: str, signature: str, source: Any, *options: str, body: str = "") -> str:
    text = _docstring(source.docstring.value) if source.docstring else ""
    flags = "".join(f"   :{option}:\n" for option in options)
    return f".. py:{directive}:: {signature}\n{flags}\n{_indented(text)}\n\n{_indented(body)}\n"


def _function(name: str, source: Any, directive: str = "function") -> str:
    returns = f" -> {source.returns}" if source.returns is not None else ""
    options = [label for label in ("classmethod", "staticmethod") if label in source.labels]
    if "async" in source.labels:
        options.append("async")
    return _described(directive, f"{name}({_parameters(source)}){returns}", source, *options)


def _comment(source: Any) -> str:
    """Return the comment at the line of an attribute, which says what the attribute is."""
    if source.lineno is None:
        return ""
    return public.comment(source.lines_collection[source.filepath], source.lineno)


def _attribute(name: str, source: Any, directive: str) -> str:
    options = []
    if source.annotation is not None:
        options.append(f"type: {source.annotation}")
    if source.value is not None and len(str(source.value)) < _SIGNATURE:
        options.append(f"value: {source.value}")
    text = _docstring(source.docstring.value) if source.docstring else _CODE.sub(r"``\1``", _comment(source))
    flags = "".join(f"   :{option}\n" for option in options)
    return f".. py:{directive}:: {name}\n{flags}\n{_indented(text)}\n"


def _class(name: str, source: Any) -> str:
    body = []
    for member_name, member in source.members.items():
        if member_name.startswith("_") or member.is_alias:
            continue
        if member.is_function:
            body.append(_function(member_name, member, "method"))
        elif member.is_attribute and "property" in member.labels:
            body.append(_described("property", member_name, member, *_type(member)))
        elif member.is_attribute:
            body.append(_attribute(member_name, member, "attribute"))
    bases = ", ".join(str(base) for base in source.bases)
    initializer = source.members.get("__init__")
    called = f"({_parameters(initializer)})" if initializer is not None and initializer.is_function else ""
    if "dataclass" in source.labels:
        called = ""
    raised = any(str(base).endswith(("Error", "Exception")) for base in source.bases)
    text = _described("exception" if raised else "class", f"{name}{called}", source, body="\n".join(body))
    return text.replace("\n\n", f"\n\n   Bases: ``{bases}``\n\n", 1) if bases else text


def _type(member: Any) -> list[str]:
    return [f"type: {member.annotation}"] if member.annotation is not None else []


def _member(name: str, source: Any) -> str:
    target = source.final_target if source.is_alias else source
    if target.is_class:
        return _class(name, target)
    if target.is_function:
        return _function(name, target)
    return _attribute(name, target, "data") if target.is_attribute else ""


def _page(module: Module, public: set[str]) -> str:
    """Return the page of a module. Names that another public module has made are links to that one's page."""
    head = f"{module.name}\n{'=' * len(module.name)}\n\n.. py:module:: {module.name}\n\n"
    parts = [head, _docstring(module.source.docstring.value) if module.source.docstring else "", "\n"]
    elsewhere = []
    for name in module.names:
        member = module.source.members[name]
        made = member.target_path if member.is_alias else ""
        if made in public:
            elsewhere.append(f"* :py:obj:`{name} <{made}>`")
        else:
            parts.append(_member(name, member))
    if elsewhere:
        parts.append("\n".join([".. rubric:: Names of other modules", "", *elsewhere]))
    return "\n".join(parts) + "\n"


def pages() -> Iterator[tuple[str, str]]:
    """Yield the places and texts of the reference's pages."""
    found = modules()
    public = {f"{module.name}.{name}" for module in found for name in module.names}
    rows = []
    for module in found:
        summary = module.source.docstring.value.partition("\n")[0].rstrip(":") if module.source.docstring else ""
        rows.append(f"| [`{module.name}`]({module.name}.rst) | {summary} |")
        yield module.place, _page(module, public)
    head = "# Public names\n\nEvery public module, from its docstrings.\n\n| module | |\n|---|---|\n"
    yield "reference/index.md", head + "\n".join(rows) + "\n"
