"""LSTM, GRU and RNN layers over long sequences: a loop of the program over time, in each pass.

Torch composes them of a cell for each row, and what that takes to compile grows with the rows: 200 take minutes. What
is short, packed or has projections is left to that composition, and so are layers under torch's tracers and transforms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..core import is_xla
from ..errors import NotLoweredError
from ..kernels import DIFFERENTIABLE, add
from . import control_flow, recurrent_cells

# Takes the gates of the input, those of the hidden state, then the state, whose first tensor is the hidden one; returns
# the next state.
Cell = Callable[..., Sequence[Tensor]]

CELLS: dict[str, Cell] = {
    "lstm": lambda x, h, _, cx: recurrent_cells.lstm_cell(x, h, cx)[:2],
    "gru": lambda x, h, hx: recurrent_cells.gru_cell(x, h, hx)[:1],
    "rnn_tanh": lambda x, h, _: [(x + h).tanh()],
    "rnn_relu": lambda x, h, _: [(x + h).relu()],
}

# The length from which layers are loops. A loop compiles as fast as one cell, but nothing is fused across its rows.
SHORTEST = 16


def _unrolled(cell: Cell, gates: Tensor, weight: Tensor, bias: Tensor | None, *state: Tensor) -> tuple[Tensor, ...]:
    """Compute what a loop does by differentiable ops, for gradients of gradients."""
    rows = []
    now: Sequence[Tensor] = state
    for row in gates:
        now = cell(row, F.linear(now[0], weight, bias), *now)
        rows.append(now[0])
    return torch.stack(rows), *now


class _Loop(torch.autograd.Function):
    """One direction of a layer, of input gates [time, batch, gates], hidden weight and bias, state [batch, hidden].

    Returns the hidden states [time, batch, hidden] and the last state.
    """

    @staticmethod
    def forward(
        ctx: Any, cell: Cell, gates: Tensor, weight: Tensor, bias: Tensor | None, *state: Tensor
    ) -> tuple[Tensor, ...]:
        n = len(state)

        def step(*args: Tensor) -> tuple[Tensor, ...]:
            now, (row, *parameters) = args[:n], args[n:]
            hidden = F.linear(now[0], *parameters)
            after = cell(row, hidden, *now)
            return (*after, hidden, *after)

        extra = [weight] if bias is None else [weight, bias]
        body = control_flow.trace(step, (*state, *extra), (gates,), n)
        results = torch.ops.torch_go_xla.scan(list(state), [gates], extra, body.name)
        last, hidden, states = results[:n], results[n], results[n + 1 :]
        ctx.cell, ctx.bias = cell, bias is not None
        ctx.save_for_backward(gates, weight, bias, *state, hidden, *states)
        return states[0], *last

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        cell, n = ctx.cell, len(grads) - 1
        gates, weight, bias, *rest = ctx.saved_tensors
        state, hidden, states = rest[:n], rest[n], rest[n + 1 :]
        if torch.is_grad_enabled():  # the gradients are to be differentiated
            inputs = [x for x in (gates, weight, bias, *state) if x is not None]
            needed = [x for x in inputs if x.requires_grad]
            found = iter(
                torch.autograd.grad(_unrolled(cell, gates, weight, bias, *state), needed, grads, create_graph=True)
            )
            return None, *(
                next(found) if x is not None and x.requires_grad else None for x in (gates, weight, bias, *state)
            )
        before = [torch.cat((first[None], s[:-1])) for first, s in zip(state, states, strict=True)]

        def step(*args: Tensor) -> tuple[Tensor, ...]:
            (grad, *others), (grad_row, *values), w = args[:n], args[n:-1], args[-1]
            with torch.enable_grad():
                leaves = [x.detach().requires_grad_() for x in values]
                after = cell(*leaves)
            of = torch.autograd.grad(after, leaves, (grad + grad_row, *others), materialize_grads=True)
            return torch.addmm(of[2], of[1], w), *of[3:], *of[:2]

        rows = [x.flip(0) for x in (grads[0], gates, hidden, *before)]
        body = control_flow.trace(step, (*grads[1:], weight), rows, n)
        results = torch.ops.torch_go_xla.scan(list(grads[1:]), rows, [weight], body.name)
        of_state, of_gates, of_hidden = results[:n], results[n].flip(0), results[n + 1].flip(0)
        of_weight = of_hidden.flatten(0, 1).t() @ before[0].flatten(0, 1)
        return None, of_gates, of_weight, of_hidden.sum((0, 1)) if ctx.bias else None, *of_state


def _layers(
    cell: Cell,
    x: Tensor,
    states: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, ...]:
    """Run all layers: the last one's hidden states [time, batch, directions · hidden], and the last states of all."""
    directions, each = 1 + bidirectional, 2 + 2 * has_biases
    last = []
    for layer in range(num_layers):
        outs = []
        for k in range(layer * directions, (layer + 1) * directions):
            w_ih, w_hh, *biases = params[k * each : (k + 1) * each]
            b_ih, b_hh = biases or (None, None)
            backwards = k % directions
            gates = F.linear(x.flip(0) if backwards else x, w_ih, b_ih)
            out, *state = _Loop.apply(cell, gates, w_hh, b_hh, *(s[k] for s in states))
            outs.append(out.flip(0) if backwards else out)
            last.append(state)
        x = torch.cat(outs, -1) if bidirectional else outs[0]
        if dropout and train and layer < num_layers - 1:
            x = F.dropout(x, dropout)
    return x, *(torch.stack(s) for s in zip(*last, strict=True))


def _plain(tensors: Sequence[Tensor]) -> bool:
    """Say whether the tensors are the device's own, and no tracer or transform looks on."""
    return (
        all(type(x) in (Tensor, torch.nn.Parameter) and is_xla(x) for x in tensors)
        and torch._C._functorch.peek_interpreter_stack() is None
        and torch._C._len_torch_dispatch_stack() == 0
    )


def _autocast(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Cast what autocast casts for cells; its key has been passed when a kernel runs."""
    dtype = torch.get_autocast_dtype("xla") if torch.is_autocast_enabled("xla") else None
    return [x if dtype is None or x.dtype == torch.float64 else x.to(dtype) for x in tensors]


def _kernel(name: str) -> Callable[..., Any]:
    op, cell = getattr(torch.ops.aten, name).input, CELLS[name]

    def kernel(
        x: Tensor,
        hx: Any,
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor, ...]:
        states = [hx] if isinstance(hx, Tensor) else hx
        plain = _plain((x, *states, *params))
        x, *given = _autocast((x, *states, *params))
        states, params = given[: len(states)], given[len(states) :]
        how = (has_biases, num_layers, dropout, train, bidirectional)
        count = num_layers * (1 + bidirectional) * (2 + 2 * has_biases)
        if plain and len(params) == count and x.dim() == 3 and x.size(int(batch_first)) >= SHORTEST:
            rows = x.transpose(0, 1) if batch_first else x
            try:
                out, *last = _layers(cell, rows, states, params, *how)
                return out.transpose(0, 1) if batch_first else out, *last
            except NotLoweredError:
                pass
        composed: tuple[Tensor, ...] = op.decompose(
            x, states if len(states) > 1 else states[0], params, *how, batch_first
        )
        return composed

    return kernel


add(DIFFERENTIABLE, {f"{name}.input": _kernel(name) for name in CELLS})
