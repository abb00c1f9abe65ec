"""Quantized weights whose scales lie in tensors of their own."""
