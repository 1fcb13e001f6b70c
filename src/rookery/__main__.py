"""``python -m rookery`` is the command line."""

from rookery.cli.main import main

if __name__ == "__main__":
    main()
