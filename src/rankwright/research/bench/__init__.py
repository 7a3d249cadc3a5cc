"""Benchmarks: rankwright and its peers side by side, and how time grows with the size of the data."""

from rankwright.research.bench.head_to_head import generated_folds, run_bench
from rankwright.research.bench.presets import SYSTEM_PRESETS, choose_systems, preset_systems
from rankwright.research.bench.regressions import regressions
from rankwright.research.bench.result_files import read_result, write_result
from rankwright.research.bench.scaling import QUICK, ScalingSizes, run_scaling

__all__ = [
    "QUICK",
    "SYSTEM_PRESETS",
    "ScalingSizes",
    "choose_systems",
    "generated_folds",
    "preset_systems",
    "read_result",
    "regressions",
    "run_bench",
    "run_scaling",
    "write_result",
]
