"""What every other part may use: text parsing, ranges, sums over machines, interrupts, files, frames and tables."""
