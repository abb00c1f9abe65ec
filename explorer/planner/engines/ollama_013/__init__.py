"""The estimator of Ollama 0.13.3, as it was; nothing is added to it."""
