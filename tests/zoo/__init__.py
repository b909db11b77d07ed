"""Models that people use, trained on xla and on the CPU; ``python -m tests.zoo`` runs them all."""
