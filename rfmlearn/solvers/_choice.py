# SPDX-License-Identifier: BSD-3-Clause
"""Which solver, when the user leaves it to us."""

from rfmlearn.solvers._base import SOLVERS, Solver


def resolve_solver(
    solver: str | Solver,
    n: int = 0,
    n_outputs: int = 1,
    itemsize: int = 8,
    budget: int | None = None,
) -> Solver:
    """Return the solver that a name or an object stands for.

    "auto" takes the one with fewer multiplications, counted as below, and Cholesky where the
    difference is less than a half, because its work does not depend on the data, or where
    there are fewer than 3,000 equations (5,000 in float64). Where its factor does not fit
    into the budget "auto" takes "pcg".

    - "cholesky": ``2 n^3 / 3``, twice the true number, since a factorisation runs at half
      the rate of a product;
    - "pcg": ``75 n^2`` for the preconditioner of rank ``5 sqrt(n)`` and 40 steps in float32,
      or the time of 80 in float64, where most of 150 are in float32; each as long as
      ``min(8 c, 60 + 2 c) n^2`` for c outputs: a product with few columns waits for the
      memory.

    Parameters
    ----------
    solver : str or Solver
        Registered name, "auto", or an object, which is returned as it is.
    n : int
        Number of equations.
    n_outputs : int
        Number of right-hand sides.
    itemsize : int
        Bytes of a number.
    budget : int, optional
        Bytes that matrix and solver may take together; None is no limit.

    Returns
    -------
    Solver
        The solver.
    """
    if not isinstance(solver, str):
        return solver
    if solver != "auto":
        return SOLVERS[solver]()
    single = itemsize <= 4
    direct = 2 * n**3 / 3
    step = min(8 * n_outputs, 60 + 2 * n_outputs)
    iterative = (75 + (40 if single else 80) * step) * n**2
    cheaper = n >= (3000 if single else 5000) and 1.5 * iterative < direct
    cholesky = SOLVERS["cholesky"]()
    too_big = budget is not None and n * n * itemsize + cholesky.memory(n, itemsize) > budget
    return SOLVERS["pcg"]() if too_big or cheaper else cholesky
