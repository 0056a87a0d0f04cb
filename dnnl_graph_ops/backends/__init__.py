"""Computes nodes: one file for each backend, asked in the order of `table.BACKENDS`."""
