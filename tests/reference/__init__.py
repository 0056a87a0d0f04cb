"""Plain NumPy truth: every op evaluated without the package and without oneDNN."""
