"""Prompts with exact token counts, built before any clock starts."""
