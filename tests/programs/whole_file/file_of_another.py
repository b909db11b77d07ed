"""A file of another user."""

import os

import torch
from rights import data, fails, folder, path

import torch_go_xla.core.xla_model as xm

xm.save([2], path)
