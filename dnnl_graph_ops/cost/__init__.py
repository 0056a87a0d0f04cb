"""Estimates the seconds of an algorithm: a linear model, recorded layers, and every number that is a speed."""
