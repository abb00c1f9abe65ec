"""Programs that load models, one module or package each."""
