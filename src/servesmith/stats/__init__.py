"""Decisions under noise: pure functions from samples to verdicts."""
