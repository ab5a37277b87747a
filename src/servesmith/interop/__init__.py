"""Results of other load generators, read with their definitions; and our own, written in formats of others."""
