"""Passes over a graph before its ops are grouped: one file each, in the order of `pipeline.PASSES`."""
