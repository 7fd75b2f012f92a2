# SPDX-License-Identifier: BSD-3-Clause
"""What every estimator of the package shares."""
