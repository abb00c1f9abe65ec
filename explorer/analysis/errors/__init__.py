"""What a tensor lost against a reference: figures and pictures from one walk over both."""
