"""Random programs, made by running them on the CPU as they are written."""

from __future__ import annotations

import json
import random
import warnings
from dataclasses import dataclass, field

import torch
from machine import Machine
from torch._prims_common import is_non_overlapping_and_dense_or_false

SHAPES = ([4, 6], [4, 6], [6], [2, 3, 4], [24], [4, 4], [6, 2], [])
DTYPES = ("float32", "float32", "float32", "int32", "bfloat16", "int64")
TWO = 1 << 30  # the bits of 2.0 in float32

_VIEWS = ("detach", "data", "unsqueeze", "view")
_DIM_VIEWS = (
    "select", "narrow", "narrow", "slice", "slice", "transpose", "permute", "diagonal", "unfold", "expand", "flatten",
    "as_strided", "squeeze", "chunk", "movedim", "view_dtype", "conj", "view_as_complex", "view_as_real", "imag",
)  # fmt: skip


@dataclass
class State:
    """What is known of a tensor at a moment; tensors of equal ``group`` share a storage."""

    value: torch.Tensor
    group: int
    about: tuple[object, ...]


@dataclass
class Program:
    """A program with what torch's CPU makes of it: an error or None for each line, and the tensors after each."""

    lines: list[str] = field(default_factory=list)
    errors: list[Exception | None] = field(default_factory=list)
    states: list[dict[str, State]] = field(default_factory=list)


def observe(machine: Machine) -> dict[str, tuple[int, tuple[object, ...]]]:
    """Return alias group and metadata of the tensors; groups are numbered in the order of the names."""
    groups: dict[int, int] = {}
    out = {}
    for name, t in machine.tensors.items():
        group = groups.setdefault(t.untyped_storage()._cdata, len(groups))
        strides = tuple(s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1 and t.numel())
        offset = t.storage_offset() if t.numel() else 0
        about = (t.dtype, tuple(t.shape), strides, offset, t._version, t.is_conj(), t.is_neg(), *machine.autograd[name])
        out[name] = (group, about)
    return out


def execute(lines: list[str]) -> Program:
    """Run a program on the CPU."""
    machine, program = Machine(), Program()
    for line in lines:
        step(machine, program, line)
    return program


def step(machine: Machine, program: Program, line: str) -> None:
    """Run one more line of a program on the CPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        error = machine.run(line)
    program.lines.append(line)
    program.errors.append(error)
    seen = observe(machine)
    with torch.no_grad():
        values = {n: t.detach().resolve_conj().resolve_neg().clone() for n, t in machine.tensors.items()}
    program.states.append({n: State(values[n], *seen[n]) for n in values})


def _addresses(t: torch.Tensor) -> set[int]:
    """Return the bytes that a tensor reaches, by address in its storage."""
    flat = torch.arange(t.untyped_storage().nbytes() // t.element_size() + 1)
    at = torch.as_strided(flat, t.shape, t.stride(), t.storage_offset()).flatten().tolist()
    return {i * t.element_size() + b for i in at for b in range(t.element_size())}


def _overlap(t: torch.Tensor) -> bool:
    return len(_addresses(t)) < t.numel() * t.element_size()


def writable(x: torch.Tensor) -> bool:
    """Tell whether writing to all of x has a meaning: no element twice, or plainly so, which is an error."""
    return not _overlap(x) or any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape, strict=True))


def readable_beside(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Tell whether writing to x what is read from y has a meaning: same, apart, or an overlap that torch finds."""
    if x.untyped_storage()._cdata != y.untyped_storage()._cdata or not _addresses(x) & _addresses(y):
        return True
    same = (x.shape, x.stride(), x.storage_offset(), x.dtype) == (y.shape, y.stride(), y.storage_offset(), y.dtype)
    dense = is_non_overlapping_and_dense_or_false(x) and is_non_overlapping_and_dense_or_false(y)
    return not _overlap(x) and (same or (dense and x.shape == y.shape and x.dtype == y.dtype))


class Generator:
    """Writes one program, from a seed."""

    def __init__(self, seed: int, length: int = 16) -> None:
        self.rng = random.Random(seed)
        self.machine = Machine()
        self.program = Program()
        self.count = 0
        self.there: set[str] = set()  # tensors on the second device
        self.bits: set[str] = set()  # integers that are the bits of floats
        self._length = length

    def make(self) -> Program:
        """Return the program; its end is the gradient of something, if anything has one."""
        for _ in range(2):
            self._do(self._leaf() if self.rng.random() < 0.3 else self._factory())
        while len(self.program.lines) < self._length:
            kind = self.rng.choices(*_KINDS)[0]
            line = getattr(self, "_" + kind)()
            if line is not None:
                self._do(line)
        if (line := self._backward()) is not None:
            self._do(line)
            for name in [n for n in self._with_autograd(leaf=True) if self.machine.tensors[n].grad is not None]:
                self._do(self._gradient_of(name))
        return self.program

    def _do(self, line: str) -> None:
        step(self.machine, self.program, line)

    # ---- choices ----

    def _new(self) -> str:
        self.count += 1
        return f"t{self.count - 1}"

    def _pick(self, test=lambda t: True) -> str | None:
        """Return the name of a tensor that passes a test, rather a recent one."""
        return self._recent([n for n, t in self.machine.tensors.items() if test(t)])

    def _recent(self, names: list[str]) -> str | None:
        if not names:
            return None
        return names[max(self.rng.randrange(len(names)), self.rng.randrange(len(names)))]

    def _like(self, name: str, broadcast: bool = True) -> str | None:
        """Return the name of a tensor that goes together with another in an op."""
        x = self.machine.tensors[name]

        def fits(y: torch.Tensor) -> bool:
            if y.dtype != x.dtype:
                return False
            if y.shape == x.shape:
                return True
            if not broadcast or y.dim() > x.dim():
                return False
            return all(a in (1, b) for a, b in zip(reversed(y.shape), reversed(x.shape), strict=False))

        names = [n for n, t in self.machine.tensors.items() if fits(t) and (n in self.there) == (name in self.there)]
        return self.rng.choice(names)

    def _number(self, t: torch.Tensor) -> str:
        return json.dumps(
            self.rng.choice((1, 2, -1, 3)) if not t.is_floating_point() else self.rng.choice((0.5, 1.0, -2.0, 3.0))
        )

    def _result(self, name: str, line: str) -> str:
        new = self._new()
        if name in self.there:
            self.there.add(new)
        return f"{new} = {line}"

    # ---- instructions ----

    def _factory(self) -> str:
        shape, dtype = self.rng.choice(SHAPES), self.rng.choice(DTYPES)
        return f'{self._new()} = arange {_text(shape)} "{dtype}" {self.rng.randint(-3, 3)}'

    def _leaf(self) -> str:
        return f"{self._new()} = leaf {_text(self.rng.choice(SHAPES))} {self.rng.randint(-3, 3)}"

    def _view(self) -> str | None:
        name = self._pick()
        if name is None:
            return None
        x = self.machine.tensors[name]
        kind = self.rng.choice(_VIEWS + (_DIM_VIEWS if x.dim() else ()))
        words = self._view_words(kind, x)
        if words is None:
            return None
        if kind == "view_dtype":
            if x.dtype != torch.float32:
                return None
            self.bits.add(f"t{self.count}")
        elif name in self.bits:
            self.bits.add(f"t{self.count}")
        return self._result(name, " ".join([kind, name, *map(_text, words)]))

    def _view_words(self, kind: str, x: torch.Tensor) -> list[object] | None:
        r, d = self.rng, x.dim()
        i = r.randrange(d) if d else 0
        n = x.shape[i] if d else 1
        match kind:
            case "detach" | "data" | "squeeze" | "flatten" | "conj":
                if kind == "flatten" and not x.is_contiguous():
                    return None
                return []
            case "unsqueeze":
                return [r.randint(0, d)]
            case "view":
                return (
                    [[-1]]
                    if r.random() < 0.5
                    else [list(x.shape[:i]) + [n // 2, 2] + list(x.shape[i + 1 :])]
                    if d and n % 2 == 0 and n
                    else None
                )
            case "select":
                return [i, r.randrange(-n, n)] if n else None
            case "narrow":
                start = r.randrange(n + 1)
                return [i, start, r.randint(0 if r.random() < 0.1 else min(1, n - start), n - start)]
            case "slice":
                return [i, r.randrange(n + 1), r.randint(0, n), r.randint(1, 3)]
            case "transpose" | "movedim":
                return [i, r.randrange(d)]
            case "permute":
                return [r.sample(range(d), d)]
            case "diagonal":
                return [r.randint(-1, 1), *r.sample(range(d), 2)] if d >= 2 else None
            case "unfold":
                return [i, r.randint(1, n), r.randint(1, 3)] if n else None
            case "expand":
                return [[r.randint(2, 3), *x.shape]] if d < 4 else None
            case "as_strided":
                return [[2, 2], r.choice(([2, 1], [1, 2], [3, 1], [4, 2])), r.randrange(4)]
            case "chunk":
                return [2, 0] if n else None
            case "view_dtype":
                return ["int32"]
            case "view_as_complex" | "view_as_real" | "imag":
                return [] if x.dtype in (torch.float32, torch.complex64) else None
        raise ValueError(kind)

    def _function(self) -> str | None:
        name = self._pick()
        if name is None:
            return None
        x = self.machine.tensors[name]
        kind = self.rng.choice(
            (
                "add",
                "add",
                "sub",
                "mul",
                "maximum",
                "where",
                "neg",
                "abs",
                "relu",
                "clone",
                "flip",
                "cumsum",
                "sum",
                "sum",
                "cat",
                "square",
                "to",
                "to",
            )
        )
        if x.is_complex() and kind in ("abs", "square", "to", "where", "maximum", "relu"):
            kind = "clone"
        match kind:
            case "add" | "sub" | "mul":
                other = self._number(x) if self.rng.random() < 0.5 else self._like(name)
                words = [other]
            case "maximum" | "where":
                words = [self._like(name)]
            case "flip":
                words = [_text([self.rng.randrange(x.dim())] if x.dim() else [])]
            case "cumsum":
                words = ["0"]
            case "sum":
                words = [str(self.rng.randrange(x.dim()))] if x.dim() and self.rng.random() < 0.7 else []
            case "cat":
                words = [self._like(name, broadcast=False)]
            case "to":
                words = [f'"{self.rng.choice(DTYPES)}"']
            case _:
                words = []
        line = " ".join([self._grad(), kind, name, *words]).strip()
        return self._result(name, line)

    def _grad(self) -> str:
        return "nograd" if self.rng.random() < 0.15 else ""

    def _write(self) -> str | None:
        name = self._pick()
        if name is None:
            return None
        x = self.machine.tensors[name]
        kind = self.rng.choice(_BIT_WRITES if name in self.bits else _WRITES)
        words = self._write_words(kind, name, x)
        if words is None:
            return None
        return " ".join([self._grad(), kind, *words]).strip()

    def _write_words(self, kind: str, name: str, x: torch.Tensor) -> list[str] | None:
        r = self.rng
        n = x.shape[0] if x.dim() else 0
        if x.is_complex() and kind in ("clamp_", "relu_", "abs_", "masked"):
            return None
        if kind in ("t_", "unsqueeze_", "transpose_", "squeeze_"):
            if kind == "t_" and x.dim() > 2:
                return None
            return [name, *{"unsqueeze_": ["0"], "transpose_": ["0", "-1"]}.get(kind, [])]
        if kind in ("resize_", "as_strided_", "set_", "assign_data", "empty_and_back"):
            return self._reshape_words(kind, name, x)
        if not writable(x):
            return None
        rows = _text(r.sample(range(n), min(n, 2)))
        match kind:
            case "add_" | "sub_" | "mul_":
                other = self._number(x) if r.random() < 0.6 else self._like(name)
                return [name, other] if self._apart(name, other) else None
            case "copy_":
                other = self._pick(lambda t: t.shape == x.shape and t.is_complex() == x.is_complex())
                if name in self.bits and other not in self.bits:
                    return None
                if (
                    other is None
                    or not self._same_place(name, other)
                    or (x.dtype != self.machine.tensors[other].dtype and not x.is_floating_point())
                ):
                    return None
                return [name, other] if self._apart(name, other) else None
            case "fill_":
                return [name, str(TWO) if name in self.bits else self._number(x)]
            case "clamp_":
                return [name, "-2", "2"]
            case "masked":
                return [name, "1", self._number(x)] if not _overlap(x) else None
            case "set_item":
                return [name, str(r.randrange(n)), self._number(x)] if n else None
            case "add_out" | "mul_out":
                other, out = self._like(name), self._like(name, broadcast=False)
                if not writable(self.machine.tensors[out]) or not (self._apart(out, name) and self._apart(out, other)):
                    return None
                return [name, other, out] if out not in self.bits else None
            case "neg_out":
                out = self._like(name, broadcast=False)
                fine = writable(self.machine.tensors[out]) and self._apart(out, name) and out not in self.bits
                return [name, out] if fine else None
            case "foreach_add_":
                other = self._like(name, broadcast=False)
                apart = not _addresses(x) & _addresses(self.machine.tensors[other]) or name == other
                shared = x.untyped_storage()._cdata == self.machine.tensors[other].untyped_storage()._cdata
                fine = (apart or not shared) and writable(self.machine.tensors[other]) and other not in self.bits
                return [name, other, self._number(x)] if fine else None
            case "index_put_" | "index_add_" | "index_copy_" | "index_fill_" | "scatter_":
                return self._index_words(kind, name, x, rows)
        return [name]

    def _index_words(self, kind: str, name: str, x: torch.Tensor, rows: str) -> list[str] | None:
        if x.dim() == 0 or x.shape[0] < 2 or _overlap(x):
            return None
        if kind == "index_fill_":
            return [name, "0", rows, self._number(x)]
        wanted = torch.Size([2, *x.shape[1:]])
        other = self._pick(
            lambda t: (
                t.dtype == x.dtype
                and (
                    t.shape == wanted
                    if kind != "scatter_"
                    else t.shape[:1] == (1,) and t.dim() == x.dim() and t.shape[1:] == x.shape[1:]
                )
                and t.untyped_storage()._cdata != x.untyped_storage()._cdata
            )
        )
        if other is None or not self._same_place(name, other):
            return None
        if kind == "index_put_":
            return [name, rows, other, self.rng.choice(("true", "false"))]
        return [name, "0", other] if kind == "scatter_" else [name, "0", rows, other]

    def _reshape_words(self, kind: str, name: str, x: torch.Tensor) -> list[str] | None:
        room = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
        match kind:
            case "resize_":
                return [name, _text([self.rng.randint(0, room)])] if room >= 0 else None
            case "as_strided_":
                return [name, "[2,2]", "[2,1]", "0"]
            case "empty_and_back":
                return [name] if not self.machine.autograd[name][0] and x.untyped_storage().resizable() else None
        # Of devices without a name of their own in torch, the new data must be conjugated and negated as the old are.
        other = self._pick(lambda t: (t.dtype, t.is_conj(), t.is_neg()) == (x.dtype, x.is_conj(), x.is_neg()))
        if other is None or not self._same_place(name, other) or (name in self.bits) != (other in self.bits):
            return None
        return [name, other]

    def _same_place(self, a: str, b: str) -> bool:
        return (a in self.there) == (b in self.there)

    def _apart(self, name: str, other: str) -> bool:
        if not other.startswith("t"):
            return True
        return self._same_place(name, other) and readable_beside(
            self.machine.tensors[name], self.machine.tensors[other]
        )

    # ---- the rest ----

    def _with_autograd(self, leaf: bool) -> list[str]:
        """Return the names of the tensors that require gradients and are leaves, or not."""
        return [n for n, (needed, is_leaf, _) in self.machine.autograd.items() if needed and is_leaf is leaf]

    def _backward(self) -> str | None:
        name = self._recent([n for n in self._with_autograd(leaf=False) if self.machine.tensors[n].is_floating_point()])
        return name and f"backward {name}"

    def _gradient(self) -> str | None:
        name = self._recent(self._with_autograd(leaf=True))
        return name and self._gradient_of(name)

    def _gradient_of(self, name: str) -> str:
        return self._result(name, f"nograd grad {name}")

    def _sync(self) -> str:
        return "sync"

    def _sync_some(self) -> str | None:
        name = self._pick()
        return name and f"sync_some {name}"

    def _read(self) -> str | None:
        name = self._pick()
        return name and f"read {name}"

    def _reload(self) -> str | None:
        names = [n for n in self.machine.tensors if n not in self.there]
        if len(names) < 2:
            return None
        chosen = self.rng.sample(names, 2)
        for name in chosen:
            if name in self.bits:
                self.bits.add(f"t{self.count + chosen.index(name)}")
        return f"{self._new()},{self._new()} = reload {' '.join(chosen)}"

    def _across(self) -> str | None:
        name = self._pick(lambda t: not t.is_complex())
        if name is None or name in self.bits:
            return None
        new = self._new()
        if name not in self.there:
            self.there.add(new)
        return f"{new} = across {name}"

    def _del(self) -> str | None:
        name = self._pick() if len(self.machine.tensors) > 4 else None
        return name and f"del {name}"


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


_WRITES = (
    "add_", "add_", "add_", "mul_", "sub_", "copy_", "copy_", "neg_", "abs_", "fill_", "zero_", "clamp_", "relu_",
    "masked", "set_item", "set_item", "index_put_", "index_put_", "index_fill_", "index_add_", "index_copy_",
    "scatter_", "add_out", "mul_out", "neg_out", "foreach_add_", "t_", "unsqueeze_", "transpose_", "resize_",
    "as_strided_", "set_", "assign_data", "empty_and_back", "squeeze_", "conj_physical_",
)  # fmt: skip
_BIT_WRITES = ("zero_", "fill_", "copy_", "t_", "unsqueeze_")
_WEIGHTS = {
    "factory": 6, "leaf": 4, "view": 30, "function": 22, "write": 42, "sync": 9, "sync_some": 6, "read": 4, "reload": 2,
    "across": 2, "del": 5, "backward": 4, "gradient": 3,
}  # fmt: skip
_KINDS = (list(_WEIGHTS), list(_WEIGHTS.values()))
