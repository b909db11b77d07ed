"""Writes by indices or masks to expanded tensors: values and warnings are torch's."""

import pytest
import torch

import torch_go_xla  # noqa: F401

ROWS = [3, 0, 3]
VALUES = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]
EVERY_OTHER = [[True, False, True], [False, False, False], [False, True, False], [False, False, True]]


def over_rows(device: str) -> torch.Tensor:
    return torch.arange(3.0, device=device).expand(4, 3)


def over_columns(device: str) -> torch.Tensor:
    return torch.arange(4.0, device=device)[:, None].expand(4, 3)


WRITES = {
    "index_fill_": lambda x: x.index_fill_(0, torch.tensor(ROWS, device=x.device), 9),
    "index_fill_ a tensor": lambda x: x.index_fill_(
        0, torch.tensor(ROWS, device=x.device), torch.tensor(9.0, device=x.device)
    ),
    "masked_fill_": lambda x: x.masked_fill_(torch.tensor(EVERY_OTHER, device=x.device), 9),
    "masked_fill_ a tensor": lambda x: x.masked_fill_(
        torch.tensor(EVERY_OTHER, device=x.device), torch.tensor(9.0, device=x.device)
    ),
    "index_put_": lambda x: x.index_put_((torch.tensor(ROWS, device=x.device),), torch.tensor(VALUES, device=x.device)),
    "index_put_ sums": lambda x: x.index_put_(
        (torch.tensor(ROWS, device=x.device),), torch.tensor(VALUES, device=x.device), accumulate=True
    ),
    "index_put_ by a mask": lambda x: x.__setitem__(
        torch.tensor([True, False, True, True], device=x.device), torch.tensor(VALUES, device=x.device)
    ),
}


@pytest.mark.parametrize("expanded", [over_rows, over_columns])
@pytest.mark.parametrize("write", WRITES)
def test_writes_as_torch_does(write, expanded):
    ours, theirs = expanded("xla"), expanded("cpu")
    message = f"Use of {write.partition(' ')[0]} on expanded tensors is deprecated"
    with pytest.warns(UserWarning, match=message):
        WRITES[write](theirs)
    with pytest.warns(UserWarning, match=message) as said:
        WRITES[write](ours)
    assert said[0].filename == __file__
    assert torch.equal(ours.cpu(), theirs)


def test_other_writes_are_refused():
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        over_rows("xla").add_(1)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        over_rows("xla").index_add_(0, torch.tensor(ROWS, device="xla"), torch.ones(3, 3, device="xla"))


def test_an_index_is_not_what_is_written():
    for device in ("cpu", "xla"):
        index = torch.tensor([0, 1], device=device)
        with pytest.raises(RuntimeError, match="unsupported operation: some elements of the input tensor"):
            index.index_fill_(0, index, 0)
