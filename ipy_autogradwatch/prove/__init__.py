"""``%%gradcheck``: is each delivered gradient the derivative of what was computed?

    recording ──Tape──▶ slicing ──▶ replaying ──gradients──▶ comparing ──▶ judging ──Verdict──▶

The cell's operations are recorded below autograd. At each backward the user's own backward
runs untouched; then the recorded computation is run again from the values of the leaves, in
double precision, and the gradients of the two are compared.
"""
