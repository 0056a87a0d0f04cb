"""Computes convolutions (forward, backward data, backward weights): a file per algorithm, with its cost and steps."""
