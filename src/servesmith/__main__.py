"""`python -m servesmith` is the same door as the `servesmith` command."""

from servesmith.cli.app import main

if __name__ == "__main__":
    main()
