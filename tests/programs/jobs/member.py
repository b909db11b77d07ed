"""Member: run by test_job_faults.py."""

import torch
from start import n

import torch_go_xla.core.xla_model as xm

assert xm.all_reduce("sum", torch.ones(2, device="xla")).tolist() == [n, n]
