"""From a model's header to the memory it needs: pure arithmetic, no Qt, no hardware."""
