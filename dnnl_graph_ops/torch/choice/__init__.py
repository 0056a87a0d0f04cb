"""Chooses between this engine and PyTorch's by measured times, within a budget."""
