"""Bad input is answered before anything runs, for every method and every option, `federate` and `simulate`."""

import math
from dataclasses import MISSING, fields
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import fedlib
from fedlib.algorithms import REGISTRY, create
from fedlib.problem import limits
from fedlib.problem.limits import Count, Decay, Fraction, Limit, Positive, Share, Whole, checked


def choices(kind) -> tuple:
    return get_args(kind) if get_origin(kind) not in (None, Annotated, Literal) else (kind,)


def impossible(kind) -> list:
    """Values that no option of this kind may have."""
    wrong: list = ["much", [1], {"a": 1}, object()]
    for choice in choices(kind):
        plain, *extras = get_args(choice) if get_origin(choice) is Annotated else (choice,)
        limit = next((extra for extra in extras if isinstance(extra, Limit)), Limit())
        if plain in (int, float):
            wrong += [math.nan, math.inf, -math.inf, True]
            wrong += [limit.low if limit.low_open else limit.low - 1] if limit.low > -math.inf else []
            wrong += [limit.high if limit.high_open else limit.high + 1] if limit.high < math.inf else []
        if plain is int:
            wrong += [1.5, "3"]
        if plain is bool:
            wrong += [0, 1, None]
    return wrong if type(None) in choices(kind) else [*wrong, None]


EVERY_OPTION = [
    (name, option.name, get_type_hints(method, include_extras=True)[option.name])
    for name, method in REGISTRY.items()
    for option in fields(method)
]


@pytest.mark.parametrize(("method", "option", "kind"), EVERY_OPTION, ids=lambda value: str(value)[:20])
def test_every_option_of_every_method_states_its_limits_and_keeps_to_them(method, option, kind):
    assert all(get_origin(choice) is Annotated for choice in choices(kind) if choice in (int, float)), "state a limit"
    for value in impossible(kind):
        with pytest.raises(ValueError, match=f"^{option}=") as complaint:
            create(method, **{option: value})
        assert limits.describe(kind) in str(complaint.value)


@pytest.mark.parametrize("name", REGISTRY)
def test_every_method_can_be_made_without_options(name):
    made = create(name)
    assert all(option.default is not MISSING for option in fields(made))
    assert REGISTRY[name](**{option.name: getattr(made, option.name) for option in fields(made)}) == made


def test_numbers_of_numpy_become_plain_ones():
    made = create("fedavg", batch=np.int64(8), lr=np.float32(0.5), epochs=np.int32(2))
    assert [type(value) for value in (made.batch, made.lr, made.epochs)] == [int, float, int]


@pytest.mark.parametrize(
    ("method", "options", "complaint"),
    [
        ("fedavg", {"steps": 1, "epochs": 1}, "steps=1 and epochs=1: give one of them"),
        ("fedavg", {"batch": None}, "full batches .* are counted in steps"),
        ("fedavg", {"final_lr": 0.1}, "a falling rate needs both final_lr .* and schedule"),
        ("ring", {"epochs": None}, "Ring works in epochs"),
        ("fedsr", {"epochs": None, "steps": 3}, "FedSR works in epochs"),
        ("hierfavg", {"epochs": None}, "HierFAVG works in epochs"),
        ("fedgs", {"participation": 0.5}, "FedGS draws its devices itself"),
        ("fedgs", {"presampled": 4, "devices": 3}, "presampled=4 must lie between 0 and devices=3"),
        ("fedacs", {"tolerance": 0.1, "participation": 0.3}, "tolerance=0.1 must lie between participation=0.3 and 1"),
        ("randomclients", {"epochs": None, "steps": 2}, "give epochs, not steps"),
        ("randomclients", {"final_lr": 0.1, "schedule": 3}, "leave final_lr out"),
    ],
)
def test_options_that_contradict_each_other_are_named(method, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        create(method, **options)


FEDERATION = {"data_set": "handwriting", "partitioner": "dirichlet", "clients": 4, "samples": 100, "alpha": 1.0}
KINDS = {name: kind for name, kind in get_type_hints(fedlib.federate, include_extras=True).items() if name != "return"}


@pytest.mark.parametrize("argument", [name for name in KINDS if name != "standardise"])
def test_every_argument_of_federate_keeps_to_its_limits(argument):
    named = {str: "much", dict: {"a": 1}}  # of the right type: answered by whoever knows the names
    for value in impossible(KINDS[argument]):
        if value not in [named.get(choice) for choice in choices(KINDS[argument])]:
            with pytest.raises(ValueError, match=f"{argument}="):
                fedlib.federate(**FEDERATION | {argument: value})


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"alpha": "wide"}, "alpha is 'wide': a Dirichlet concentration is positive and finite"),
        ({"partitioner": "shards", "alpha": None}, "shards: .*; its arguments are: labels, clients, per_client, rng"),
        (
            {"beta": 3},
            "dirichlet: got an unexpected keyword argument 'beta'; its arguments are: labels, clients, alpha",
        ),
        ({"partitioner": "dealt"}, "unknown partitioner 'dealt'; known: by_writer"),
        ({"network": "resnet"}, "unknown network 'resnet'; known: cnn_fedsr"),
        ({"network": "cnn_leaf", "network_options": {"width": 0}}, "width=0 must be a whole number of at least 1"),
        ({"network": "cnn_leaf", "network_options": {"depth": 2}}, "unexpected keyword argument 'depth'"),
        ({"network": "cnn_leaf", "network_options": {"start": "lucky"}}, "start='lucky' must be one of 'default'"),
        ({"samples": 10**9}, "samples=1000000000 must lie between 1 and the"),
        ({"client_samples": 5}, "dirichlet deals all samples; client_samples is for"),
    ],
)
def test_impossible_federations_are_answered_with_what_would_be_right(change, complaint):
    with pytest.raises(ValueError, match=complaint):
        fedlib.federate(**{name: value for name, value in (FEDERATION | change).items() if value is not None})


def test_a_missing_argument_is_named_beside_those_there_are():
    with pytest.raises(
        ValueError, match="federate: missing a required argument: 'clients'; its arguments are: data_set"
    ):
        fedlib.federate("handwriting", "iid")


# The kinds themselves


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Count, [1, 10**9], [0, -1, 1.0, True, "1", None]),
        (Whole, [0, 3], [-1, 0.0, False]),
        (Positive, [1e-300, 3], [0, -1.0, math.nan, math.inf, "1"]),
        (Share, [1, 1e-9], [0, 1.0001]),
        (Fraction, [0, 1], [-1e-9, 2]),
        (Decay, [0, 0.999], [1, -0.1]),
        (Count | None, [None, 2], [0, "none"]),
        (Literal["a", "b"], ["a", "b"], ["c", 1, None]),
        (bool, [True, False], [0, 1, None, "yes"]),
    ],
)
def test_kinds_accept_what_they_say(kind, good, bad):
    assert [checked("value", value, kind) for value in good] == good
    for value in bad:
        with pytest.raises(ValueError, match="value="):
            checked("value", value, kind)
