"""Research tools: fair comparison of systems, other libraries as systems, benchmarks and the papers' experiments."""
