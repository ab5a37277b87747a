"""Are the answers still as good? Tasks, paired items and the gate."""
