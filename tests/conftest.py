# SPDX-License-Identifier: BSD-3-Clause
import os

# scikit-learn skips its array API checks without a word unless this is set before it loads
os.environ.setdefault("SCIPY_ARRAY_API", "1")
