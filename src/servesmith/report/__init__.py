"""Runs as tables, charts and one self-contained page. Reads the store and never runs anything."""
