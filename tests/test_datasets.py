# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest

from rfmlearn.datasets import load_penguins, load_yacht, make_multi_index


def test_the_yacht_data_are_those_of_the_source():
    data = load_yacht()
    assert data.data.shape == (308, 6)
    assert data.feature_names[-1] == "froude_number"
    # first row of the published file
    np.testing.assert_array_equal(data.data[0], [-2.3, 0.568, 4.78, 3.99, 3.17, 0.125])
    assert data.target[0] == 0.11
    # 14 speeds for each of 22 hulls
    assert len(np.unique(data.data[:, 5])) == 14
    assert len(np.unique(data.data[:, :5], axis=0)) == 22
    X, y = load_yacht(return_X_y=True)
    np.testing.assert_array_equal(X, data.data)
    np.testing.assert_array_equal(y, data.target)


def test_the_multi_index_target_follows_its_formula():
    X, y, subspace = make_multi_index(200, 7, noise=0, random_state=3)
    np.testing.assert_allclose(y, X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]))
    np.testing.assert_array_equal(X @ subspace.T, X[:, :3])
    noisy = make_multi_index(200, 7, noise=0.5, random_state=3)
    np.testing.assert_array_equal(noisy[0], X)
    assert 0.4 < np.std(noisy[1] - y) < 0.6
    with pytest.raises(ValueError, match="must be at least 3"):
        make_multi_index(10, 2)


def test_the_penguins_are_mixed_and_incomplete():
    X, y = load_penguins()
    assert X.shape == (344, 7)
    # counts of the published data
    assert y.value_counts().to_dict() == {"Adelie": 152, "Gentoo": 124, "Chinstrap": 68}
    assert X.isna().sum().sum() == 4 * 2 + 11
    assert X["island"].nunique() == 3
