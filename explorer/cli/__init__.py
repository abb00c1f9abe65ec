"""The command line: thin. It parses arguments, calls the core and prints text or JSON."""
