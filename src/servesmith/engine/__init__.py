"""Engines: how each is started, watched, questioned and ended. A new engine is one file here."""
