"""How long things take on the device ``xla``, beside torch on the CPU and beside peers.

``python -m benchmarks.peers`` installs the peers. ``python -m benchmarks`` starts one process per subject
(`benchmarks.subjects`) and asks them in turn for one sample of one case (`benchmarks.cases`). So all subjects see the
same state of the machine. Every process has the same two processors. It prints medians, spreads, bests and the
ratios of medians and of bests, and writes JSON, a table and a chart to ``benchmarks/results``. docs/benchmarks.md
shows a run. ``python -m benchmarks.soak`` watches the memory of a long run.
"""
