"""The journal and the evidence: what happened, in order, checkable by anyone."""
