"""Computes single layers of PyTorch's models: modules, ops, the state and packed weights of each, repeated calls."""
