"""Helps passes that fold ops into convolutions: taps, channels, enlarged kernels, estimates of the gain."""
