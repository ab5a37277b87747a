"""Makes the helpers in this folder importable: pytest puts the folder of a conftest.py on the path."""
