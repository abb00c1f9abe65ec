"""What a tensor lost against a reference: figures and pictures from one walk over both.

`weights_pair` says what is compared with what, and `lockstep` walks over it. `figures` adds up what
is exact, `pair_counts` counts what `pair_pictures` shows; `picture` does both for one tensor, and
`comparison` the figures of a whole model. `implied` needs no reference. Numba is in `kernels` and
`kernels_pairs` alone.
"""
