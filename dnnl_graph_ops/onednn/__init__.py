"""Knows the library: its ops and partitions, its defects and workarounds, its exact int8 results, its log."""
