"""Clicks: logs, simulated users, estimated propensities, evaluation and interleaving."""
