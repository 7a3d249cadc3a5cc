"""Benchmarks: rankwright and its peers side by side, and how time grows with the size of the data."""

from rankwright_lab.bench.head_to_head import generated_folds, run_bench
from rankwright_lab.bench.presets import SYSTEM_PRESETS, choose_systems, preset_systems
from rankwright_lab.bench.regressions import regressions
from rankwright_lab.bench.result_files import read_result, write_result
from rankwright_lab.bench.scaling import QUICK, ScalingSizes, run_scaling

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
