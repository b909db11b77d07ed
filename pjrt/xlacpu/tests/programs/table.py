"""Loads the plugin and prints its table."""

import ctypes
import sys

print(ctypes.CDLL(sys.argv[1]).GetPjrtApi())
