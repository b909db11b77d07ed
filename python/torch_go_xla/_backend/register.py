"""Registers the kernels of every form of every row with torch's dispatcher."""

from __future__ import annotations

import functools
import types
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from .._vocabulary import LAZY_CONJ, LAZY_NEG
from . import autocast, fallback, foreach, meta, plan, storage_kernels
from .core import native
from .device import torch_version
from .errors import NotLoweredError
from .kernels import (
    AROUND_ROWS,
    DIFFERENTIABLE,
    HIGHER_ORDER,
    KERNELS,
    SPARSE,
    SPARSE_COMPRESSED,
    Kernel,
)
from .plan import Plan
from .rows import Row
from .schema import Schema, of, parse, read

# The updating form of an op whose schema does not say that it updates; see _batch_norm.
_BATCH_NORM = "native_batch_norm"


# The namespace of our ops, which torch does not have.
OWN = "torch_go_xla"

# What there is none of on xla, by the dispatch key that it would have.
_ABSENT = {"NestedTensor": "nested", "Quantized": "quantized"}

# Filled once, by `register`.
_libraries: list[Any] = []  # they unregister when they die
_kernels: dict[str, Any] = {}  # by overload
_table: list[Row] = []


class SchemaMismatch(RuntimeError):
    """The op table was written for another torch."""


def read_table(table: Sequence[Row]) -> dict[str, tuple[int, Schema]]:
    """Return number and schema of every row by name, checked against torch.

    SchemaMismatch lists all rows that torch states differently or does not have. See ops.Row.Since for an older torch.
    """
    rows: dict[str, tuple[int, Schema]] = {}
    wrong = []
    for number, op in enumerate(table):
        name, text = op.name, op.schema
        if "::" in name:  # a step of a view, or an op of ours
            continue
        full = text if text.startswith("aten::") else f"aten::{name}{text}"
        base, _, overload = name.partition(".")
        try:
            theirs = torch._C._get_schema(f"aten::{base}", overload)
        except RuntimeError:
            if not _is_older(op):
                wrong.append(f"{name}: torch has no such overload")
            continue
        if str(theirs) != full and not (_is_older(op) and _differ_in_names_only(parse(full), read(theirs))):
            wrong.append(f"{name}:\n  table  {full}\n  torch  {theirs}")
        elif _is_composite(f"aten::{name}"):
            wrong.append(f"{name}: torch makes it of other ops, and differentiates those; a kernel would hide that")
        rows[name] = (number, read(theirs))
    if wrong:
        raise SchemaMismatch(f"the op table does not fit torch {torch.__version__}:\n" + "\n".join(wrong))
    return rows


def _is_older(op: Row) -> bool:
    """Tell whether this torch is from before the schema of a row."""
    return bool(op.since) and torch_version() < tuple(map(int, op.since.split(".")))


def _differ_in_names_only(ours: Schema, theirs: Schema) -> bool:
    unnamed = ([a._replace(name="") for a in (*s.args, *s.returns)] for s in (ours, theirs))
    return next(unnamed) == next(unnamed)


@functools.cache
def _registered(dispatch_key: str) -> frozenset[str]:
    """Return the ops that have a kernel of their own for a key, "aten::add.Tensor"."""
    return frozenset(torch._C._dispatch_get_registrations_for_dispatch_key(dispatch_key))


def _is_composite(name: str) -> bool:
    return name in _registered("CompositeImplicitAutograd") and name not in _registered("Autograd")


def _overloads() -> dict[str, list[str]]:
    """Return torch's overloads of every ATen op by base name, without namespace."""
    by_base = defaultdict(list)
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::"):
            key = name[6:]
            by_base[key.partition(".")[0]].append(key)
    return by_base


def _forms(name: str, also: str, row: Schema, overloads: dict[str, list[str]]) -> Iterable[tuple[str, Plan]]:
    """Yield the overloads that are another form of a row."""
    base = row.base
    for spelled in filter(None, (base, also)):
        for key in overloads.get(spelled, ()):
            if key != name and (made := plan.out_form(row, of(key))) is not None:
                yield key, made
        for key in overloads.get(spelled + "_", ()):
            if (made := plan.in_place(row, of(key))) is not None:
                yield key, made
    if base.endswith("_functional"):
        plain = base.removesuffix("_functional")
        for key in (*overloads.get(plain, ()), *overloads.get(plain + "_", ())):
            op = of(key)
            if (made := plan.updating(row, op) or plan.in_place(row, op)) is not None:
                yield key, made


def _lazy_bits(key: str) -> int:
    """Return the bits that torch leaves to the op's kernel; see LAZY_CONJ."""
    name = f"aten::{key}"
    return LAZY_CONJ * (name in _registered("Conjugate")) | LAZY_NEG * (name in _registered("Negative"))


def make_own(table: Sequence[Row]) -> list[tuple[str, str, Any]]:
    """Return name, schema and kernel of every row that is an op of ours and not of torch's."""
    made = []
    for number, op in enumerate(table):
        name, text = op.name, op.schema
        namespace, _, base = name.partition("::")
        if namespace == OWN:
            p = plan.functional(parse(name + text))
            made.append((base, base + text, native().fast.kernel(name, number, *p[:4])))
    return made


def make_kernels(table: Sequence[Row]) -> dict[str, Any]:
    """Return a kernel for every form of every row, by overload."""
    rows = read_table(table)
    overloads = _overloads()
    make = native().fast.kernel
    kernels: dict[str, Any] = {}

    def add(key: str, number: int, p: Plan) -> None:
        kernels[key] = make(key, number, p.params, p.args, p.destinations, p.returns, each=p.each, lazy=_lazy_bits(key))

    for name, (number, row) in rows.items():
        add(name, number, plan.functional(row))
    for name, (number, row) in rows.items():
        for key, made in _forms(name, table[number].also, row, overloads):
            if key not in kernels and not _is_composite(f"aten::{key}"):
                add(key, number, made)
    by_base = defaultdict(list)
    for name, (_, row) in rows.items():
        by_base[row.base].append(name)
    schemas = {name: row for name, (_, row) in rows.items()}
    for base, keys in overloads.items():
        if not base.startswith("_foreach_"):
            continue
        for key in keys:
            found = None if key.endswith("out") else foreach.plan(of(key), schemas, by_base)
            if found is not None:
                add(key, rows[found[0].key][0], found[1])
    return kernels


def table() -> list[Row]:
    """Return the rows that `register` was given."""
    return _table


def kernels() -> dict[str, Any]:
    """Return the kernels that are registered for the device, by overload."""
    return _kernels


def _batch_norm(kernels: dict[str, Any]) -> None:
    """Lead native_batch_norm, which updates its running statistics without saying so, to the ops that say it."""
    ops = [kernels.get(f"_native_batch_norm_legit{form}") for form in ("", ".no_stats", "_no_training")]
    if None not in ops:
        kernels[_BATCH_NORM] = native().fast.batch_norm(*ops)


def _conjugate(kernels: dict[str, Any]) -> None:
    """Leave real tensors as they are, without a look at how they lie in memory, as torch does."""
    of_complex = kernels["conj_physical_"]
    kernels["conj_physical_"] = lambda self: of_complex(self) if self.is_complex() else self


def _or_else(kernel: Kernel, dense: Kernel) -> Kernel:
    def either(*args: Any, **kwargs: Any) -> Any:
        try:
            return kernel(*args, **kwargs)
        except NotLoweredError:
            return dense(*args, **kwargs)

    return either


def _register_higher_order() -> None:
    dense = torch._C.DispatchKey.CompositeExplicitAutograd
    for name, kernel in HIGHER_ORDER.items():
        op = getattr(torch.ops.higher_order, name)
        op.py_impl(torch._C.DispatchKey.PrivateUse1)(_or_else(kernel, op.py_kernels[dense]))
        op.fallthrough(torch._C._parse_dispatch_key("AutocastPrivateUse1"))


def _counted(kernel: Any) -> Any:
    """Let the end of the process wait for a kernel in Python; see gocore/pyfast/ending.c."""
    return native().fast.counted(kernel) if isinstance(kernel, types.FunctionType) else kernel


def register(rows: Sequence[Row]) -> None:
    """Register all kernels, the fallback and autocast."""
    _table[:] = rows
    kernels = make_kernels(rows)
    _batch_norm(kernels)
    _conjugate(kernels)
    kernels.update({key: around(kernels[key]) for key, around in AROUND_ROWS.items()})
    kernels.update(storage_kernels.kernels() | KERNELS)
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    native().fast.register_views(major << 56 | minor << 48)
    library: Any = torch.library.Library
    aten, every = library("aten", "IMPL"), library("_", "IMPL")
    _libraries.extend((aten, every))
    every.fallback(native().fast.counted(fallback.fallback), "PrivateUse1")
    for layout, kind in _ABSENT.items():
        every.fallback(storage_kernels.absent(kind), f"{layout}PrivateUse1")
    for layout in ("Sparse", "SparseCsr"):
        every.fallback(storage_kernels.not_for_sparse, f"{layout}PrivateUse1")
    every.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for dispatch_key, entries in (
        ("PrivateUse1", kernels | DIFFERENTIABLE),
        ("SparsePrivateUse1", SPARSE),
        ("SparseCsrPrivateUse1", SPARSE_COMPRESSED),
        ("NestedTensorPrivateUse1", storage_kernels.nested_metadata()),
        ("AutogradPrivateUse1", DIFFERENTIABLE),
        ("AutocastPrivateUse1", autocast.kernels()),
    ):
        for key, kernel in entries.items():
            # Library.impl in three lines: thousands of calls, and what else it does is for other keys.
            aten.m.impl(key, dispatch_key, _counted(kernel), False)
    _register_higher_order()
    _kernels.update(kernels)
    own = library(OWN, "DEF")
    _libraries.append(own)
    for base, schema, kernel in make_own(rows):
        own.define(schema)
        own.impl(base, kernel, "PrivateUse1")
        if base in meta.KERNELS:
            own.impl(base, meta.KERNELS[base], "Meta")
