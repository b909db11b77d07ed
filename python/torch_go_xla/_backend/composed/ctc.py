"""Connectionist temporal classification: the loss is a loop over time, ctc_paths, over the states of each target.

A target of n labels has 2 n + 1 states: a blank, and each label with a blank behind it. The gradient takes the
same loop over time and states in reverse.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..kernels import KERNELS, Kernel, add

_NAME = "ctc_loss"


def _check(log_probs: Tensor, targets: Tensor, inputs: Sequence[int], lengths: Sequence[int], blank: int) -> None:
    if log_probs.dtype not in (torch.float32, torch.float64):
        raise NotImplementedError(f"\"ctc_loss_cpu\" not implemented for '{log_probs.dtype}'")
    if targets.dtype not in (torch.int32, torch.int64):
        raise RuntimeError(f"{_NAME}: expected targets of torch.int32 or torch.int64, got {targets.dtype}")
    if log_probs.dim() != 3 or log_probs.numel() == 0:
        raise RuntimeError("log_probs tensor must not be empty")
    time, batch, classes = log_probs.shape
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    for name, given in (("input_lengths", inputs), ("target_lengths", lengths)):
        if len(given) != batch:
            raise RuntimeError(f"{name} must be of size batch_size")
        if min(given) < 0:
            raise RuntimeError(f"Expected {name} to have value at least 0, but got value {min(given)}")
    if max(inputs) > time:
        raise RuntimeError(
            f"Expected input_lengths to have value at most {time}, but got value {max(inputs)} "
            "(while checking arguments for ctc_loss)"
        )
    wanted = [sum(lengths)] if targets.dim() == 1 else [batch, max(lengths)]
    if targets.dim() not in (1, 2) or targets.shape[0] != wanted[0] or targets.shape[-1] < wanted[-1]:
        raise RuntimeError(
            f"Expected targets to have size {' by at least '.join(map(str, wanted))}, but got {list(targets.shape)} "
            "(while checking arguments for ctc_loss)"
        )


class _States(NamedTuple):
    labels: Tensor  # [batch, state]; anything behind a target's last state
    skips: Tensor  # [batch, state]: whether a path may come from two states before
    time: Tensor  # [batch, 1]: how long each input is
    size: Tensor  # [batch, 1]: how many states each target has


def _states(log_probs: Tensor, targets: Tensor, inputs: Sequence[int], lengths: Sequence[int], blank: int) -> _States:
    # The lengths are data: other ones need no other program.
    device, most = targets.device, max(lengths)
    if targets.dim() == 1:
        starts = list(itertools.accumulate(lengths, initial=0))[:-1]
        last = max(len(targets) - 1, 0)
        index = [[min(start + i, last) for i in range(most)] for start in starts]
        padded = targets[torch.tensor(index, dtype=torch.int64, device=device).reshape(-1, most)]
    else:
        padded = targets[:, :most]
    padded = padded.long().clamp(0, log_probs.shape[2] - 1)
    blanks = torch.full_like(padded, blank)
    labels = torch.stack((blanks, padded), 2).flatten(1)
    labels = torch.cat((labels, labels.new_full((len(labels), 1), blank)), 1)
    time = torch.tensor(inputs, dtype=torch.int64, device=device).unsqueeze(1)
    size = torch.tensor(lengths, dtype=torch.int64, device=device).unsqueeze(1) * 2 + 1
    return _States(labels, _skips(labels, blank), time, size)


def _skips(labels: Tensor, blank: int) -> Tensor:
    return (labels != blank) & (labels != labels.roll(2, 1))


def _emissions(log_probs: Tensor, labels: Tensor) -> Tensor:
    return log_probs.gather(2, labels.expand(len(log_probs), *labels.shape))


def _paths(log_probs: Tensor, labels: Tensor, skips: Tensor) -> Tensor:
    return torch.ops.torch_go_xla.ctc_paths(_emissions(log_probs, labels), skips)  # type: ignore[no-any-return]


def loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Sequence[int], target_lengths: Sequence[int],
    blank: int = 0, zero_infinity: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """_ctc_loss: the negative logarithm of each target's probability, [batch], and those of all paths to each state."""
    _check(log_probs, targets, input_lengths, target_lengths, blank)
    s = _states(log_probs, targets, input_lengths, target_lengths, blank)
    alpha = _paths(log_probs, s.labels, s.skips).transpose(0, 1).contiguous()
    end = (s.time - 1).clamp_min(0).unsqueeze(2).expand(-1, 1, alpha.shape[2])
    last = alpha.gather(1, end).squeeze(1)
    ends = last.gather(1, torch.cat((s.size - 1, (s.size - 2).clamp_min(0)), 1))
    none = torch.cat((s.size < 1, s.size < 2), 1)
    likelihood = ends.masked_fill(none, -torch.inf).logsumexp(1)
    nothing = torch.where(s.size == 1, 0.0, torch.inf).squeeze(1).to(likelihood.dtype)
    return torch.where(s.time.squeeze(1) == 0, nothing, -likelihood), alpha


def backward(
    grad: Tensor, log_probs: Tensor, targets: Tensor, input_lengths: Sequence[int], target_lengths: Sequence[int],
    neg_log_likelihood: Tensor, log_alpha: Tensor, blank: int, zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """_ctc_loss_backward: the gradient by log_probs, of log_probs that are normalized."""
    s = _states(log_probs, targets, input_lengths, target_lengths, blank)
    time = torch.arange(len(log_probs), device=grad.device).unsqueeze(1)  # [time, 1]
    place = torch.arange(s.labels.shape[1], device=grad.device)  # [state]
    from_end = (s.time.mT - 1 - time).clamp_min(0)  # [time, batch]
    from_last = (s.size - 1 - place).clamp_min(0)  # [batch, state]
    row = torch.arange(len(s.labels), device=grad.device)
    labels = s.labels.gather(1, from_last)
    beta = _paths(log_probs[from_end, row], labels, _skips(labels, blank))[from_end, row]
    beta = beta.gather(2, from_last.expand_as(beta))
    # The share of the paths through each state in all of them: both factors have the emission.
    paths = log_alpha.transpose(0, 1) + beta - _emissions(log_probs, s.labels)
    share = (paths + neg_log_likelihood.unsqueeze(1)).exp().masked_fill(place >= s.size, 0)
    shares = torch.zeros_like(log_probs).scatter_add(2, s.labels.expand_as(share), share)
    result = (log_probs.exp() - shares) * grad.unsqueeze(1)
    if zero_infinity:
        result = result.masked_fill((neg_log_likelihood == torch.inf).unsqueeze(1), 0)
    return result.masked_fill((time >= s.time.mT).unsqueeze(2), 0)


def _of_tensors(kernel: Kernel, first: int) -> Kernel:
    """Return the kernel for lengths in tensors, which are waited for, as torch does."""

    def waiting(*args: Any) -> Any:
        lengths = (args[first].tolist(), args[first + 1].tolist())
        return kernel(*args[:first], *lengths, *args[first + 2 :])

    return waiting


add(
    KERNELS,
    {
        "_ctc_loss": loss,
        "_ctc_loss.Tensor": _of_tensors(loss, 2),
        "_ctc_loss_backward": backward,
        "_ctc_loss_backward.Tensor": _of_tensors(backward, 3),
    },
)
