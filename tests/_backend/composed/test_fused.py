"""Fused optimizer steps against torch's CPU: the same parameters and state, and nothing run on the CPU."""

from __future__ import annotations

import pytest
import torch

import torch_go_xla.debug.metrics as met

OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
    "adam, decay, amsgrad": lambda p: torch.optim.Adam(p, lr=0.1, weight_decay=0.1, amsgrad=True, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1, fused=True),
    "adamw, maximize": lambda p: torch.optim.AdamW(p, lr=0.1, maximize=True, fused=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1, fused=True),
    "sgd, momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.2, fused=True),
    "sgd, nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True, fused=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.1, fused=True),
}


def train(make, device, steps=4):
    """Return parameters and state after some steps on gradients that depend on the parameters."""
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(n, 3).to(device)) for n in (1, 4)]
    optimizer = make(params)
    for _ in range(steps):
        optimizer.zero_grad()
        sum((p * p).sum() for p in params).backward()
        optimizer.step()
    state = [optimizer.state[p] for p in params]
    return params, [{k: v for k, v in s.items() if torch.is_tensor(v)} for s in state]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_equal_to_torch(name):
    met.clear_all()
    params, state = train(OPTIMIZERS[name], "xla")
    assert not met.executed_fallback_ops()
    want, want_state = train(OPTIMIZERS[name], "cpu")
    torch.testing.assert_close([p.cpu() for p in params], list(want))
    torch.testing.assert_close([{k: v.cpu() for k, v in s.items()} for s in state], want_state)


def arguments(device):
    """Return parameter, gradient and state for one step of Adam by its op."""
    tensors = [torch.full((2,), v, device=device) for v in (1.0, 8.0, 0.5, 0.25)]
    return [[t] for t in tensors] + [[], [torch.tensor(3.0, device=device)]]


@pytest.mark.parametrize("found", [0.0, 1.0])
def test_an_overflow_leaves_everything_as_it_was(found):
    results = []
    for device in ("xla", "cpu"):
        args = arguments(device)
        numbers = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8}
        scale, inf = (torch.tensor(v, device=device) for v in (4.0, found))
        torch._fused_adam_(*args, **numbers, amsgrad=False, maximize=False, grad_scale=scale, found_inf=inf)
        results.append([args[i][0].cpu() for i in (0, 2, 3)])
    torch.testing.assert_close(*results)


def test_a_learning_rate_in_a_tensor():
    rates = {device: torch.tensor(0.1, device=device) for device in ("xla", "cpu")}
    got, want = (train(lambda p, lr=lr: torch.optim.AdamW(p, lr=lr, fused=True), d)[0] for d, lr in rates.items())
    torch.testing.assert_close([p.cpu() for p in got], list(want))


def test_the_corrections_of_a_late_step_are_as_exact_as_torchs():
    def step(device):
        p = torch.ones(3, device=device, requires_grad=True)
        optimizer = torch.optim.Adam([p], lr=1.0, betas=(0.9, 0.9999999), fused=True)
        p.grad = torch.full((3,), 0.5, device=device)
        optimizer.step()
        return p.detach().cpu()

    torch.testing.assert_close(step("xla"), step("cpu"), rtol=2e-7, atol=0)


def test_adagrad_in_double_precision():
    def train(device):
        p = torch.ones(3, device=device, requires_grad=True, dtype=torch.float64)
        optimizer = torch.optim.Adagrad([p], lr=1e-2, lr_decay=1e-3, fused=True)
        for _ in range(5):
            p.grad = torch.full((3,), 0.5, device=device, dtype=torch.float64)
            optimizer.step()
        return p.detach().cpu()

    torch.testing.assert_close(train("xla"), train("cpu"), rtol=1e-14, atol=0)
