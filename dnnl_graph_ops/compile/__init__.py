"""Compiles nodes of known shapes into a plan: a file for each stage, and the choice and tuning of algorithms."""

from ..runtime import rates
from .measure_rates import measure

rates.measure_by(measure)
