"""The block inspector: one block's bytes as fields, and what each bit acts on."""
