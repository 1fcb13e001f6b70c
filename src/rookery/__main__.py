"""``python -m rookery`` is the command line."""

from rookery.cli.main import program

if __name__ == "__main__":
    program()
