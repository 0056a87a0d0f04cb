"""Compares results of oneDNN's fused int8 partitions with NumPy, and measures the errors of its post-ops."""
