"""Trying what fused int8 partitions of a library compute, against NumPy."""
