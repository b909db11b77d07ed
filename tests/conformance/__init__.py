"""Runs torch's own op descriptions (OpInfo) on xla and compares them with the CPU.

``python -m tests.conformance`` runs them and writes ``docs/ops.md``; ``test_conformance.py`` is the quick tier.
"""
