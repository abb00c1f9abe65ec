"""What a tensor lost against a reference, and what another type would cost."""
