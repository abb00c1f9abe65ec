"""One block of a quantized tensor: taken apart, compared with a reference, and searched for."""
