"""Weights of Hugging Face's quantization methods, whose scales lie in tensors of their own."""
