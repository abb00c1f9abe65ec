"""What is in the models that are open: their tree, and tables of tensors, metadata and tokens."""
