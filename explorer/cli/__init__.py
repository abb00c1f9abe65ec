"""The command line: thin. It parses arguments, calls the core and prints text or JSON.

A command is in the module of its name; `main` holds the table of commands.
"""
