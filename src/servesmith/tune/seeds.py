"""Seeds by name: every trial's randomness follows from the run's seed and the trial's key, so resuming repeats it."""

import hashlib


def derived(seed: int, name: str) -> int:
    """A 31-bit seed that depends on both and on nothing else."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1
