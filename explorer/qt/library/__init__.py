"""The library panel: models that were downloaded, and the files they consist of."""
