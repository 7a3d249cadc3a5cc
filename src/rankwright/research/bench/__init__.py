"""Benchmarks: us and the peers side by side, and how time grows with the size of the data."""

from rankwright.research.bench.files import read_result, write_result
from rankwright.research.bench.regressions import regressions
from rankwright.research.bench.running import generated_folds, run_bench
from rankwright.research.bench.scaling import QUICK, Sizes, run_scaling
from rankwright.research.bench.systems import PRESETS, choose_systems, preset_systems

__all__ = [
    "PRESETS",
    "QUICK",
    "Sizes",
    "choose_systems",
    "generated_folds",
    "preset_systems",
    "read_result",
    "regressions",
    "run_bench",
    "run_scaling",
    "write_result",
]
