"""What a plan runs on: the GPUs and the memory of this machine, and a catalogue of others."""
