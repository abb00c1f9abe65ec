"""Models on the web, read by ranges. Nothing here runs unless the user gives an address."""

from explorer.sources.remote.addresses import Address, is_address, parse_address

__all__ = ["Address", "is_address", "parse_address"]
