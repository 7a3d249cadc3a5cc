"""The laboratory of rankwright: comparisons with other libraries, diagnostics, benchmarks and experiments of papers."""
