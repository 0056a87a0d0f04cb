"""The native layer, against NumPy."""
