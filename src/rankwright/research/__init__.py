"""Research tools: an honest comparison of systems, other libraries as systems, benchmarks, the papers' experiments."""
