"""What tests of methods share: rounds played one after another, and models compared."""

import torch


def after_rounds(algorithm, fed, rounds: int) -> dict[str, torch.Tensor]:
    state = algorithm.init(fed)
    for round in range(1, rounds + 1):
        state = algorithm.round(fed, state, round)
    return state


def assert_equal(fast: torch.Tensor, slow: torch.Tensor, relative: float = 1e-5) -> None:
    error = float((fast.double() - slow.double()).norm() / slow.double().norm())
    assert error <= relative, f"relative difference {error:.2e}"


def assert_a_round_leaves_its_state_alone_and_comes_out_the_same_again(algorithm, fed) -> None:
    state = after_rounds(algorithm, fed, 2)
    before = {key: tensor.clone() for key, tensor in state.items()}
    first, again = algorithm.round(fed, state, 3), algorithm.round(fed, state, 3)
    for key, tensor in state.items():
        assert torch.equal(tensor, before[key]), f"round wrote into {key} of the state it was given"
        assert torch.equal(first[key], again[key])
        assert (first[key].dtype, first[key].shape) == (tensor.dtype, tensor.shape)
