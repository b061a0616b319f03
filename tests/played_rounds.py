"""What tests share: rounds played one after another, models compared, small federations of pictures."""

import numpy as np
import torch

from fedlib.data.dataset import Dataset
from fedlib.problem import Federation, models
from fedlib.problem.federation import assemble


def after_rounds(algorithm, fed, rounds: int) -> dict[str, torch.Tensor]:
    state = algorithm.init(fed)
    for round in range(1, rounds + 1):
        state = algorithm.round(fed, state, round)
    return state


def assert_equal(fast: torch.Tensor, slow: torch.Tensor, relative: float = 1e-5) -> None:
    """Row by row, the difference is small beside the vector itself."""
    assert fast.shape == slow.shape
    fast, slow = fast.double(), slow.double()
    error = (fast - slow).norm(dim=-1) / slow.norm(dim=-1).clamp(min=1e-12)
    assert float(error.max()) <= relative, f"relative difference {float(error.max()):.2e}"


def assert_a_round_leaves_its_state_alone_and_comes_out_the_same_again(algorithm, fed) -> None:
    state = after_rounds(algorithm, fed, 2)
    before = {key: tensor.clone() for key, tensor in state.items()}
    first, again = algorithm.round(fed, state, 3), algorithm.round(fed, state, 3)
    for key, tensor in state.items():
        assert torch.equal(tensor, before[key]), f"round wrote into {key} of the state it was given"
        assert torch.equal(first[key], again[key])
        assert (first[key].dtype, first[key].shape) == (tensor.dtype, tensor.shape)


def spread_weights(fed: Federation, seed: int = 0) -> torch.Tensor:
    """Weights away from zero, where no gradient vanishes by symmetry."""
    return fed.start + 0.3 * torch.randn(fed.start.shape, generator=torch.Generator().manual_seed(seed))


def pictures(network: str = "lenet_tutorial", l2: float = 0.01, side: int = 32, **options) -> Federation:
    """Four clients of 3 to 9 colour pictures, and 6 pictures to test with."""
    rng = np.random.default_rng(0)
    images = torch.as_tensor(rng.integers(0, 256, (31, side, side, 3), dtype=np.uint8))
    labels = torch.as_tensor(rng.integers(0, 10, 31))
    names = tuple("0123456789")
    halves = (images[:25], labels[:25], images[25:], labels[25:])
    dataset = Dataset("pictures", *halves, names, None, None, "pictures")
    parts = np.split(np.arange(25), [3, 10, 16])
    return assemble(dataset, parts, models.build(network, 10, (3, side, side)), seed=0, l2=l2, **options)
