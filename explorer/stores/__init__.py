"""Downloaded models: the stores found on this machine, and what each of them holds."""
