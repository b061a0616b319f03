"""Measures of heterogeneity against numbers worked out by hand, and pictures that say what they show."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedlib.problem import partition, skew
from fedlib.report import plots

TWO_PURE = np.array([[10, 0], [0, 10]])  # two clients, one class each; pooled: half and half
UNEVEN = np.array([[3, 1], [0, 4]])  # p_0 = (3/4, 1/4), p_1 = (0, 1), pooled (3/8, 5/8)
LABELS = np.repeat(np.arange(10), 400)

count_tables = hnp.arrays(
    np.int64, st.tuples(st.integers(1, 12), st.integers(2, 8)), elements=st.integers(0, 30)
).filter(lambda counts: counts.sum(axis=1).all())
modest = settings(deadline=None, max_examples=60)


@pytest.fixture(autouse=True)
def figures_without_windows():
    plt.switch_backend("agg")
    yield
    plt.close("all")


def test_class_counts_count_each_clients_labels():
    labels = np.array([0, 0, 1, 2, 2, 2])
    counted = skew.class_counts(labels, [np.array([0, 2]), np.array([1, 3, 4, 5]), np.array([], dtype=int)], 4)
    np.testing.assert_array_equal(counted, [[1, 1, 0, 0], [1, 0, 3, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize("labels", [[0, 1, 5], [-1, 0, 1]])
def test_labels_outside_the_classes_are_an_error(labels):
    with pytest.raises(ValueError, match="but classes=3 allows 0 to 2"):
        skew.class_counts(np.array(labels), [np.array([0])], 3)


def test_two_clients_with_one_class_each_by_hand():
    np.testing.assert_allclose(skew.entropy(TWO_PURE), 0)
    np.testing.assert_allclose(skew.effective_classes(TWO_PURE), 1)
    np.testing.assert_allclose(skew.emd(TWO_PURE), 1)  # |1 - 1/2| + |0 - 1/2|
    # sqrt(((1 - sqrt(1/2))^2 + 1/2) / 2) = sqrt(1 - sqrt(1/2))
    np.testing.assert_allclose(skew.hellinger(TWO_PURE), 0.5411961)
    assert skew.quantity_gini(TWO_PURE) == 0


def test_uneven_clients_by_hand():
    # H_0 = 3/4 ln(4/3) + 1/4 ln 4 = 0.5623351
    np.testing.assert_allclose(skew.entropy(UNEVEN), [0.5623351 / np.log(2), 0], rtol=1e-6)
    np.testing.assert_allclose(skew.effective_classes(UNEVEN), [1.7547654, 1], rtol=1e-6)
    np.testing.assert_allclose(skew.emd(UNEVEN), [0.75, 0.75])
    # 1 - sqrt(3/4 * 3/8) - sqrt(1/4 * 5/8) = 0.0743852;  1 - sqrt(5/8) = 0.2094306
    np.testing.assert_allclose(skew.hellinger(UNEVEN), np.sqrt([0.0743852, 0.2094306]), rtol=1e-5)


def test_gini_of_sizes_by_hand():
    # sizes 1, 2, 3: sum of |differences| over ordered pairs = 8, over 2 * 3 * 6
    assert skew.quantity_gini(np.array([[2, 0], [1, 0], [0, 3]])) == pytest.approx(8 / 36)
    assert skew.quantity_gini(np.array([[5], [0], [0], [0]])) == pytest.approx(3 / 4)  # one has all: 1 - 1/K


@modest
@given(count_tables)
def test_measures_stay_in_their_ranges_and_effective_classes_match_entropy(counts):
    classes = counts.shape[1]
    for measure, low, high in (
        (skew.entropy, 0, 1),
        (skew.effective_classes, 1, classes),
        (skew.emd, 0, 2),
        (skew.hellinger, 0, 1),
    ):
        values = measure(counts)
        assert (values >= low - 1e-9).all() and (values <= high + 1e-9).all()
    np.testing.assert_allclose(skew.effective_classes(counts), classes ** skew.entropy(counts))
    assert 0 <= skew.quantity_gini(counts) <= 1 - 1 / len(counts) + 1e-9


@modest
@given(count_tables)
def test_distances_bound_each_other_as_total_variation_and_hellinger_do(counts):
    total_variation, distance = skew.emd(counts) / 2, skew.hellinger(counts)
    assert (distance**2 <= total_variation + 1e-9).all()
    assert (total_variation <= np.sqrt(2) * distance + 1e-9).all()


@modest
@given(count_tables)
def test_gini_equals_its_definition_over_all_pairs(counts):
    sizes = counts.sum(axis=1)
    by_pairs = np.abs(sizes[:, None] - sizes).sum() / (2 * len(sizes) * sizes.sum())
    assert skew.quantity_gini(counts) == pytest.approx(by_pairs)


@modest
@given(hnp.arrays(np.int64, 5, elements=st.integers(0, 20)).filter(lambda row: row.any()), st.integers(1, 6))
def test_clients_alike_are_at_no_distance(row, clients):
    counts = np.outer(np.arange(1, clients + 1), row)
    np.testing.assert_allclose(skew.emd(counts), 0, atol=1e-9)
    np.testing.assert_allclose(skew.hellinger(counts), 0, atol=1e-7)


def test_an_empty_client_has_no_measures_and_is_left_out_of_means():
    labels, parts = np.array([0, 0, 1, 1]), [np.array([0, 1]), np.array([2, 3]), np.array([], dtype=int)]
    counts = skew.class_counts(labels, parts, 2)
    frame = skew.per_client(counts)
    assert frame.loc[2].drop("samples").isna().all() and frame.loc[2, "samples"] == 0
    table = skew.summary(counts)
    assert table.loc["emd", "mean"] == 1
    assert table.loc["samples", "min"] == 0
    assert table.loc["quantity_gini", "mean"] == pytest.approx(1 / 3)


def test_a_partition_without_samples_is_an_error():
    with pytest.raises(ValueError, match="no client holds a sample"):
        skew.emd(np.zeros((3, 2), dtype=int))


def test_per_client_has_a_row_a_client_and_summary_a_row_a_measure():
    parts = partition.dirichlet(LABELS, 15, 0.3, rng=np.random.default_rng(0))
    counts = skew.class_counts(LABELS, parts, 10)
    frame, table = skew.per_client(counts), skew.summary(counts)
    assert list(frame.index) == list(range(15)) and frame.index.name == "client"
    np.testing.assert_array_equal(frame["samples"], [len(part) for part in parts])
    assert list(table.index) == [*frame.columns, "quantity_gini"] and list(table.columns) == ["mean", "min", "max"]
    for measure in frame:
        assert table.loc[measure].tolist() == [frame[measure].mean(), frame[measure].min(), frame[measure].max()]


def test_smaller_alpha_is_more_skewed_by_every_measure():
    rng = np.random.default_rng(0)
    splits = [partition.dirichlet(LABELS, 20, alpha, rng=rng) for alpha in (100, 1, 0.1)]
    means = [skew.summary(skew.class_counts(LABELS, parts, 10))["mean"] for parts in splits]
    for measure in ("emd", "hellinger", "quantity_gini"):
        assert means[0][measure] < means[1][measure] < means[2][measure]
    for measure in ("entropy", "effective_classes"):
        assert means[0][measure] > means[1][measure] > means[2][measure]


# Pictures


def dealt(clients, alpha=0.5):
    parts = partition.dirichlet_clients(LABELS, clients, alpha, rng=np.random.default_rng(1))
    return skew.class_counts(LABELS, parts, 10)


def visible_ticks(axis, low, high):
    return [tick for tick in axis.get_ticklocs() if low <= tick <= high]


@pytest.mark.parametrize("picture", [plots.heatmap, plots.stacked_bars])
def test_pictures_draw_on_the_axes_given_and_return_them(picture):
    _, ax = plt.subplots()
    assert picture(dealt(10), ax) is ax
    assert picture(dealt(10)) is not ax


@pytest.mark.parametrize("picture", [plots.heatmap, plots.stacked_bars])
def test_few_clients_are_each_named_by_their_number(picture):
    ax = picture(dealt(10))
    assert visible_ticks(ax.xaxis, 0, 9) == list(range(10))
    assert ax.get_xlabel() == "client"


@pytest.mark.slow
@pytest.mark.parametrize("picture", [plots.heatmap, plots.stacked_bars])
@pytest.mark.parametrize("clients", [400, 1000])
def test_many_clients_have_few_ticks_and_a_label_that_tells_the_order(picture, clients):
    ax = picture(dealt(clients))
    assert 4 <= len(visible_ticks(ax.xaxis, 0, clients)) <= 10
    assert ax.get_xlabel() == f"{clients} clients, sorted by most frequent class"
    assert ax.get_xlim() == (-0.5, clients - 0.5)


def test_heatmap_shows_the_counts_with_zeros_left_blank():
    counts = dealt(10, alpha=0.05)
    ax = plots.heatmap(counts)
    shown = ax.images[0].get_array()[::20]
    np.testing.assert_array_equal(shown.filled(0), counts.T)
    assert shown.mask.sum() == (counts == 0).sum() > 0
    assert sorted(int(text.get_text()) for text in ax.texts) == sorted(counts[counts > 0])
    assert ax.images[0].colorbar.ax.get_ylabel() == "samples"
    assert ax.get_ylabel() == "class"


def test_heatmap_of_many_clients_shows_blocks_of_the_most_frequent_class():
    counts = dealt(400)
    shown = plots.heatmap(counts).images[0].get_array()[::20].filled(0).T
    assert (np.diff(shown.argmax(axis=1)) >= 0).all()
    np.testing.assert_array_equal(np.sort(shown.max(axis=1)), np.sort(counts.max(axis=1)))


@pytest.mark.parametrize("clients", [10, 400])
def test_stacked_bars_fill_each_client_up_to_one_and_name_the_classes(clients):
    ax = plots.stacked_bars(dealt(clients))
    heights = sum(bar.get_data().values - bar.get_data().baseline for bar in ax.patches)
    np.testing.assert_allclose(heights, 1)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [str(k) for k in range(9, -1, -1)]
    assert ax.get_ylabel() == "share of the client's samples"


def test_many_classes_get_a_colour_scale_instead_of_a_legend():
    labels = np.repeat(np.arange(62), 30)
    parts = partition.iid(labels, 20, rng=np.random.default_rng(0))
    ax = plots.stacked_bars(skew.class_counts(labels, parts, 62))
    assert ax.get_legend() is None
    assert [other.get_ylabel() for other in ax.figure.axes if other is not ax] == ["class"]
