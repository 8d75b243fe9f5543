"""Parts of ``benchmarks/cpu_device.py``: rows, peers, measuring."""
