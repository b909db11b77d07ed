"""Random numbers: seeds, and generators of the device."""

import copy
import gc
import pickle

import pytest
import torch

import torch_go_xla


def test_seeds():
    draws = []
    for _ in range(2):
        torch.manual_seed(3)
        draws.append(torch.rand(4, device="xla").tolist())
    assert draws[0] == draws[1]
    state = torch.xla.get_rng_state()
    a = torch.rand(4, device="xla").tolist()
    torch.xla.set_rng_state(state)
    assert torch.rand(4, device="xla").tolist() == a != draws[0]
    torch.xla.manual_seed(-1)
    torch.xla.seed()
    torch.xla.set_rng_state_all(torch.xla.get_rng_state_all())


def test_a_generator_of_the_cpu_draws_the_cpus_numbers():
    g = torch.Generator().manual_seed(5)
    want = torch.rand(3, generator=g)
    g.manual_seed(5)
    assert torch.equal(torch.empty(3, device="xla").uniform_(generator=g).cpu(), want)


def test_a_generator_has_a_stream_of_its_own():
    torch.manual_seed(1)
    own = torch.rand(3, device="xla").tolist()
    g = torch.Generator(device="xla").manual_seed(1)
    assert g.device == torch.device("xla:0") and isinstance(g, torch.Generator) and g.initial_seed() == 1
    torch.manual_seed(1)
    assert torch.rand(3, device="xla", generator=g).tolist() == own  # the same seed, the same numbers
    assert torch.rand(3, device="xla").tolist() == own  # and the device's own stream did not move
    state, offset = g.get_state(), g.get_offset()
    x = torch.empty(3, device="xla").normal_(generator=g)
    twin = g.clone_state()
    assert offset == 1 and g.get_offset() == 2
    after = torch.randperm(8, device="xla", generator=g).tolist()
    assert torch.randperm(8, device="xla", generator=twin).tolist() == after
    for again in (copy.deepcopy(g), pickle.loads(pickle.dumps(g)), torch.Generator("xla")):
        again.set_state(state)
        assert torch.equal(torch.empty(3, device="xla").normal_(generator=again).cpu(), x.cpu())
    assert g.seed() == g.initial_seed() != 1 and g.get_offset() == 0
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        g.set_state(torch.zeros(3, dtype=torch.uint8))


def test_generators_of_other_devices_are_torchs_own():
    assert type(torch.Generator()) is type(torch.Generator("cpu")) is torch.Generator
    with pytest.raises(RuntimeError, match="Invalid device string"):
        torch.Generator("no such device")
    with pytest.raises(RuntimeError, match="xla:7: invalid device ordinal"):
        torch.Generator("xla:7")


def test_a_generator_in_a_compiled_function():
    g = torch.Generator("xla").manual_seed(3)
    x = torch.zeros(4, device="xla")

    def noisy(x):
        return x + torch.rand(4, device="xla", generator=g) + torch.rand(4, device="xla")

    def draws(f):
        g.manual_seed(3)
        torch.manual_seed(4)
        return [f(x).tolist() for _ in range(4)]

    assert draws(torch_go_xla.compile(noisy)) == draws(noisy)


def test_a_generator_made_in_a_compiled_function_starts_again():
    x = torch.zeros(4, device="xla")

    @torch_go_xla.compile
    def noisy(x):
        return x + torch.rand(4, device="xla", generator=torch.Generator("xla").manual_seed(5))

    assert noisy(x).tolist() == noisy(x).tolist() == noisy(x).tolist()


def test_generators_end():
    from torch_go_xla._backend import generator

    gc.collect()
    kept = len(generator.NUMBERS)
    made = [torch.Generator("xla") for _ in range(5)]
    assert len(generator.NUMBERS) == kept + 5
    del made
    gc.collect()
    assert len(generator.NUMBERS) == kept


def test_checkpointing_restores_the_generator():
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    x = torch.ones(64, device="xla", requires_grad=True)
    y = checkpoint(lambda t: torch.nn.functional.dropout(t) * t, x, use_reentrant=False)
    y.sum().backward()
    kept = y.detach().cpu() != 0
    assert torch.equal(x.grad.cpu() != 0, kept)
