"""Loads the plugin and prints what vetting says."""

import ctypes
import sys


def vet():
    text = ctypes.create_string_buffer(1000)
    code = ctypes.CDLL(sys.argv[1]).XlaCpuPlugin_Vet(None, text, 1000)
    print(code, text.value.decode())


if __name__ == "__main__":
    vet()
