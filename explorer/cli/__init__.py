"""The command line: thin. It parses arguments, calls the core and prints text or JSON.

A command is in the module of its name, such as `inspect_command`; what it prints as JSON is made in
a module that ends in `record`, what it prints for people in one that ends in `text`.
"""
