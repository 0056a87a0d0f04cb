"""Computes convolutions (fprop, dgrad, wgrad): a file per algorithm, with its cost and steps."""
