"""The types in a file by role, compared with what llama-quantize would write.

A label such as Q4_K_M names a recipe, not a type: llama.cpp gives each tensor a type by its role,
its layer and the model's shape. The recipes here are those rules, so that a file can be held
against its label. They are llama.cpp's rules of one day (`RULES_SOURCE`) and change over
time; other programs have rules of their own. Only names and shapes are looked at, never a weight.
"""
