"""Compares results of oneDNN's fused int8 partitions with NumPy."""
