"""Graphs that run op by op draw the numbers that compiled ones draw."""

import pytest
import torch
import torch.nn.functional as F

import torch_go_xla
from torch_go_xla.debug import metrics
from torch_go_xla.tiers import set_tier

N = 2003  # no multiple of a block of random numbers
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)
INTS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
CHANCES = torch.linspace(0, 1, N)


def xla(dtype):
    return CHANCES.to(dtype).to("xla")


def zeros(dtype):
    return torch.zeros(N, dtype=dtype, device="xla")


# name: element types and what is drawn
EXACT = {
    "uniform": ((*FLOATS, *COMPLEX), lambda d: zeros(d).uniform_()),
    "uniform of a range": ((*FLOATS, *COMPLEX), lambda d: zeros(d).uniform_(-2, 7)),
    "normal": ((*FLOATS, *COMPLEX), lambda d: zeros(d).normal_()),
    "normal of a mean": ((*FLOATS, *COMPLEX), lambda d: zeros(d).normal_(2, 3)),
    "exponential": (FLOATS, lambda d: zeros(d).exponential_(1.3)),
    "cauchy": (FLOATS, lambda d: zeros(d).cauchy_(1, 2)),
    "geometric": ((*FLOATS, *INTS), lambda d: zeros(d).geometric_(0.1)),
    "bernoulli.p": ((*FLOATS, *INTS, torch.bool), lambda d: zeros(d).bernoulli_(0.3)),
    "never and always": (FLOATS, lambda d: zeros(d).bernoulli_(0.0) - zeros(d).bernoulli_(1.0)),
    "bernoulli.Tensor": ((*FLOATS, *INTS, torch.bool), lambda d: zeros(d).bernoulli_(xla(torch.float32))),
    "bernoulli": (FLOATS, lambda d: torch.bernoulli(xla(d))),
    "random": ((*FLOATS, *INTS, torch.bool), lambda d: zeros(d).random_()),
    "random.to": ((*FLOATS, *INTS), lambda d: zeros(d).random_(100)),
    "random.from": ((*FLOATS, *INTS), lambda d: zeros(d).random_(3, 90)),
    "random of 63 bits": ((torch.int64,), lambda d: zeros(d).random_(-(2**62), 2**62)),
    "random of 64 bits": ((torch.int64,), lambda d: zeros(d).random_(-(2**63), None)),
    "randperm": ((torch.int32, torch.int64, torch.float32), lambda d: torch.randperm(N, dtype=d, device="xla")),
    "dropout": ((*FLOATS, *COMPLEX), lambda d: F.dropout(xla(d), 0.3)),
    "all dropped": (FLOATS, lambda d: F.dropout(xla(d), 1.0)),
    "mask of dropout": (FLOATS, lambda d: torch.ops.aten.native_dropout(xla(d), 0.3, True)[1]),
    "dropout in evaluation": (FLOATS, lambda d: torch.ops.aten.native_dropout(xla(d), 0.3, False)[1]),
    "multinomial": (FLOATS, lambda d: torch.multinomial(xla(d), 1)),
    "multinomial of several": (FLOATS, lambda d: torch.multinomial(xla(d)[:2000].view(20, 100), 5)),
    "none": ((torch.float32,), lambda d: torch.randn(0, 3, dtype=d, device="xla")),
}
# a product and a sum are one rounding where the compiler fuses them, and its exponential is another one than torch's
NEAR = {
    "log_normal": (FLOATS, lambda d: zeros(d).log_normal_(0.1, 0.7)),
    "normal.Tensor_float": (FLOATS, lambda d: torch.normal(xla(d), 2.5)),
    "normal.float_Tensor": (FLOATS, lambda d: torch.normal(0.5, xla(d))),
    "normal.Tensor_Tensor": (FLOATS, lambda d: torch.normal(xla(d), xla(d) + 1)),
}


def drawn(types, draw, mode):
    """The second draws of a seed, and how many graphs ran op by op."""
    torch.manual_seed(7)
    torch.rand(1, device="xla")
    torch_go_xla.sync()
    before = metrics.counter_value("InterpretedGraphs") or 0
    with set_tier(mode):
        values = [draw(d) for d in types]
        torch_go_xla.sync(wait=True)
    return [v.cpu() for v in values], (metrics.counter_value("InterpretedGraphs") or 0) - before


def drawn_by_both(types, draw):
    """For each type: what a compiled program draws, what is drawn op by op, and the type."""
    wanted, _ = drawn(types, draw, "compile")
    got, interpreted = drawn(types, draw, "eager")
    assert interpreted == 1
    return zip(wanted, got, types, strict=True)


@pytest.mark.parametrize("name", EXACT)
def test_both_tiers_draw_the_same_bits(name):
    for a, b, d in drawn_by_both(*EXACT[name]):
        assert torch.equal(a, b), d


@pytest.mark.parametrize("name", NEAR)
def test_both_tiers_draw_the_same_but_for_the_rounding(name):
    for a, b, d in drawn_by_both(*NEAR[name]):
        eps = torch.finfo(d).eps
        torch.testing.assert_close(b, a, rtol=4 * eps, atol=8 * eps)


def test_a_block_has_a_place_of_its_own_past_32_bits():
    """The state of a generator may be any: the key and the number of draws have 64 bits."""

    def draw(mode):
        generator = torch.Generator("xla").manual_seed(-3)
        with set_tier(mode):
            return torch.rand(9, device="xla", generator=generator).cpu()

    assert torch.equal(draw("compile"), draw("eager"))


def test_training_with_dropout_runs_op_by_op():
    def losses(mode):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Dropout(0.3), torch.nn.Linear(32, 4)).to("xla")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(16, 8, device="xla")
        values = []
        with set_tier(mode):
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                optimizer.step()
                values.append(loss.detach())
                torch_go_xla.sync()
            return torch.stack(values).cpu()

    compiled = losses("compile")
    before = metrics.counter_value("InterpretedGraphs") or 0
    torch.testing.assert_close(losses("eager"), compiled, rtol=1e-5, atol=1e-6)
    assert (metrics.counter_value("InterpretedGraphs") or 0) - before == 4
