"""The loop that turns a recipe into a faster one, one proven lever at a time."""
