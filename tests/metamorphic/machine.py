"""The language of the random programs, and a machine that runs it on a device.

A program is text, one instruction a line::

    t0 = arange [4,6] "float32"
    t1 = select t0 0 1
    add_ t1 2.5
    sync
    t2,t3 = reload t0 t1

Words are tensors (``t1``) or JSON values without spaces; ``nograd`` in front turns autograd off. What an instruction
does is one row of `INSTRUCTIONS`; results are contiguous unless they are views, so that torch's choice of strides
for the result of an op, which the device does not follow, is not part of a program's meaning.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

Function = Callable[..., Any]


@dataclass
class Machine:
    """Where a program runs, and its tensors by name."""

    device: str = "cpu"
    second: str = "cpu"
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    sync: Callable[[], None] = lambda: None
    sync_some: Callable[[torch.Tensor], None] = lambda t: None
    save: Callable[[Any, Any], None] = torch.save
    # Whether tensors require gradients, are leaves and are views, after the last line. A look may renew the node of a
    # view, and torch judges later writes by it: everywhere one look is taken after every line, and no other.
    autograd: dict[str, tuple[bool, bool | str, bool]] = field(default_factory=dict)

    def run(self, line: str) -> Exception | None:
        """Run an instruction; its result is its error, bare: the frames of its traceback would keep tensors alive."""
        error = self._run(line)
        self.autograd = {name: (t.requires_grad, _is_leaf(t), t._is_view()) for name, t in self.tensors.items()}
        return error

    def _run(self, line: str) -> Exception | None:
        names, _, rest = line.rpartition(" = ")
        words = rest.split(" ")
        if words[0] == "del":
            del self.tensors[words[1]]
            return None
        grad = words[0] != "nograd"
        operands = [self._operand(w) for w in words[2 - grad :]]
        try:
            with torch.set_grad_enabled(grad):
                out = INSTRUCTIONS[words[1 - grad]](self, *operands)
        except (RuntimeError, IndexError, TypeError, ValueError) as e:
            e.__cause__ = e.__context__ = None
            return e.with_traceback(None)
        if names:
            results = out if isinstance(out, tuple | list) else (out,)
            self.tensors.update(zip(names.split(","), results, strict=True))
        return None

    def _operand(self, word: str) -> Any:
        if re.fullmatch(r"t\d+", word):
            return self.tensors[word]
        return json.loads(word)


def _is_leaf(t: torch.Tensor) -> bool | str:
    try:
        return t.is_leaf
    except RuntimeError as e:  # one of several views of an op that was written to
        return str(e).partition("\n")[0]


def uses(line: str) -> list[str]:
    """Return the tensors that an instruction names, results too."""
    return re.findall(r"\bt\d+\b", line)


def _dtype(name: str) -> torch.dtype:
    return getattr(torch, name)


def _plain(f: Function) -> Function:
    """Make a row of a function of tensors."""
    return lambda m, *args: f(*args)


def _fresh(f: Function) -> Function:
    """Make a row of a function whose result is made dense: the device lays results out in its own way."""
    return lambda m, *args: f(*args).clone(memory_format=torch.contiguous_format)


def _arange(m: Machine, shape: list[int], dtype: str, start: int = 0) -> torch.Tensor:
    n = torch.Size(shape).numel()
    return (torch.arange(n, device=m.device) % 13 + start).to(_dtype(dtype)).view(shape)


def _leaf(m: Machine, shape: list[int], start: int) -> torch.Tensor:
    return _arange(m, shape, "float32", start).requires_grad_()


def _to(x: torch.Tensor, dtype: str) -> torch.Tensor:
    target = _dtype(dtype)
    return (x if target.is_floating_point else x.clamp(0, 100)).to(target, copy=True).contiguous()


def _set_item(x: torch.Tensor, i: int, value: Any) -> None:
    x[i] = value


def _masked(x: torch.Tensor, bound: float, value: float) -> None:
    x[x > bound] = value


def _index_put(x: torch.Tensor, rows: list[int], value: torch.Tensor, accumulate: bool) -> None:
    x.index_put_((torch.tensor(rows).to(x.device),), value, accumulate)


def _index_method(name: str) -> Function:
    def row(m: Machine, x: torch.Tensor, dim: int, rows: list[int], value: Any) -> None:
        getattr(x, name)(dim, torch.tensor(rows).to(x.device), value)

    return row


def _scatter(x: torch.Tensor, dim: int, source: torch.Tensor) -> None:
    index = torch.zeros(source.shape, dtype=torch.int64).to(x.device)
    x.scatter_(dim, index, source)


def _backward(x: torch.Tensor) -> None:
    x.sum().backward(retain_graph=True)


def _assign_data(x: torch.Tensor, y: torch.Tensor) -> None:
    x.data = y


def _empty_and_back(x: torch.Tensor) -> None:
    storage = x.untyped_storage()
    size = storage.nbytes()
    storage.resize_(0)
    storage.resize_(size)
    flat = torch.empty(0, dtype=torch.uint8, device=x.device).set_(storage)
    flat.zero_()


def _reload(m: Machine, *tensors: torch.Tensor) -> list[torch.Tensor]:
    file = io.BytesIO()
    m.save(list(tensors), file)
    file.seek(0)
    return torch.load(file, map_location=m.device, weights_only=True)


def _across(m: Machine, x: torch.Tensor) -> torch.Tensor:
    there = m.second if str(x.device) == str(torch.device(m.device)) else m.device
    return x.detach().to(there, copy=True).contiguous()


def _method(name: str) -> Function:
    """Make a row of an in-place method."""

    def row(m: Machine, x: torch.Tensor, *args: Any) -> None:
        getattr(x, name)(*args)

    return row


def _out(name: str) -> Function:
    def row(m: Machine, *args: torch.Tensor) -> None:
        getattr(torch, name)(*args[:-1], out=args[-1])

    return row


def _view_of_type(x: torch.Tensor, dtype: str) -> torch.Tensor:
    return x.view(_dtype(dtype))


def _slice(x: torch.Tensor, dim: int, start: int, stop: int, step: int) -> torch.Tensor:
    return x[(slice(None),) * dim + (slice(start, stop, step),)]


FACTORIES: dict[str, Function] = {"arange": _arange, "leaf": _leaf}

VIEWS: dict[str, Function] = {
    **{
        name: _plain(getattr(torch.Tensor, name))
        for name in (
            "select", "narrow", "transpose", "permute", "diagonal", "unfold", "view", "expand", "as_strided",
            "unsqueeze", "squeeze", "detach", "conj", "flatten", "movedim",
        )
    },
    "slice": _plain(_slice),
    "data": _plain(lambda x: x.data),
    "view_dtype": _plain(_view_of_type),
    "view_as_real": _plain(torch.view_as_real),
    "view_as_complex": _plain(torch.view_as_complex),
    "imag": _plain(lambda x: x.imag),
    "chunk": _plain(lambda x, n, i: x.chunk(n)[i]),
}  # fmt: skip

FUNCTIONS: dict[str, Function] = {
    **{
        name: _fresh(getattr(torch, name))
        for name in ("add", "sub", "mul", "maximum", "minimum", "neg", "abs", "relu", "clone", "flip", "cumsum", "sum")
    },
    "square": _fresh(lambda x: (x * x).clamp(-50, 50)),
    "to": _plain(_to),
    "cat": _fresh(lambda x, y: torch.cat([x, y])),
    "where": _fresh(lambda x, y: torch.where(x > y, x, y)),
    "grad": _fresh(lambda x: torch.zeros_like(x) if x.grad is None else x.grad.clone()),
}  # fmt: skip

WRITES: dict[str, Function] = {
    **{
        name: _method(name)
        for name in (
            "add_", "sub_", "mul_", "neg_", "abs_", "copy_", "fill_", "zero_", "clamp_", "relu_", "t_", "unsqueeze_",
            "transpose_", "resize_", "as_strided_", "set_", "conj_physical_", "squeeze_",
        )
    },
    "set_item": _plain(_set_item),
    "masked": _plain(_masked),
    "index_put_": _plain(_index_put),
    "index_fill_": _index_method("index_fill_"),
    "index_add_": _index_method("index_add_"),
    "index_copy_": _index_method("index_copy_"),
    "scatter_": _plain(_scatter),
    "assign_data": _plain(_assign_data),
    "empty_and_back": _plain(_empty_and_back),
    "add_out": _out("add"),
    "mul_out": _out("mul"),
    "neg_out": _out("neg"),
    "foreach_add_": _plain(lambda a, b, n: torch._foreach_add_([a, b], n)),
}  # fmt: skip

INSTRUCTIONS: dict[str, Function] = {
    **FACTORIES,
    **VIEWS,
    **FUNCTIONS,
    **WRITES,
    "backward": _plain(_backward),
    "reload": _reload,
    "across": _across,
    "sync": lambda m: m.sync(),
    "sync_some": lambda m, x: m.sync_some(x),
    "read": _plain(lambda x: x.detach().cpu()),
}
