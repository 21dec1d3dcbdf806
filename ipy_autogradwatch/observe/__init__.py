"""Stage 2, observe: turn live tensors into facts, while the cell runs.

With ``prove`` the only package that imports torch. What leaves it is `model`, never a
tensor. `probe` and `run` do without torch, so that a notebook that has not imported it
yet stays that way; the rest is imported when the notebook has.
"""
