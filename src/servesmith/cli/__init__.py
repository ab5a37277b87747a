"""Commands: one file a verb. Only `show.py` and `live.py` print."""
