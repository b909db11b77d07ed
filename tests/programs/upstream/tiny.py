"""A file of tests as torch writes them, with all that can happen to a test."""

import os
import time

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, onlyNativeDeviceTypes, skipXLA
from torch.testing._internal.common_utils import TestCase


class TestTiny(TestCase):
    def test_a_passes(self, device):
        self.assertEqual(torch.ones(2, device=device).sum().item(), 2)

    def test_b_crashes(self, device):
        if torch.device(device).type == "xla":
            os.abort()

    def test_c_fails(self, device):
        self.assertEqual(torch.device(device).type, "cpu")

    def test_d_hangs(self, device):
        if torch.device(device).type == "xla":
            time.sleep(1000)

    def test_e_fails_on_the_cpu_too(self, device):
        self.assertEqual(1, 2)

    @onlyNativeDeviceTypes
    @skipXLA
    def test_f_of_torchs_own_devices(self, device):
        self.assertEqual(str(torch.ones(2, device=device).device), device)

    def test_g_skips(self, device):
        self.skipTest("it says so")


class TestOfAccelerators(TestCase):
    def test_h_is_run_too(self, device):
        self.assertEqual(torch.device(device).type, "xla")


instantiate_device_type_tests(TestTiny, globals(), except_for="meta")
instantiate_device_type_tests(TestOfAccelerators, globals(), only_for=("cuda", "xpu"))
