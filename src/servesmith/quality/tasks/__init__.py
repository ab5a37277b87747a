"""Tasks: what is asked and when an answer is right. A new task is one object that satisfies `base.Task`."""
