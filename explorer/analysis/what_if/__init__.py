"""What tensors of other types would lose, and what they would save.

`requantization` measures one tensor in several types and `losses` several tensors, with what
`importance` an importance matrix gives their columns; `sizes` needs the header alone. `pareto`
tells which of the outcomes are worth a look.
"""
