"""Pages about the current model, a module each: what it reads, its tables, its picture."""
