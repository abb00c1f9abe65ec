"""Programs that load models, one module or package each; `registry` has them by name."""
