"""Runs models, or their largest parts, as nets: the backend of torch.compile, and captures of optimized models."""
