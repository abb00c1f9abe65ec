"""The guide and the explanations of figures."""
