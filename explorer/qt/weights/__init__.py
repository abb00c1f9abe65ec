"""The weights panel: histograms, statistics, codes, scales and values of tensors."""
