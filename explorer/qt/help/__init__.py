"""The guide, the tour and the explanations of figures."""
