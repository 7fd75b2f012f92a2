# SPDX-License-Identifier: BSD-3-Clause
"""Feature learning around any estimator."""

from rfmlearn.wrapping._learner import RecursiveFeatureLearner

__all__ = ["RecursiveFeatureLearner"]
