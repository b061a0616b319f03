"""The arithmetic of local training, which all methods share. Flat weight vectors in, flat weight vectors out.

| here | what it does |
|---|---|
| `minibatches` | `Work`: what a client does in a round; which samples it sees, in which order |
| `training` | `train` a `Cohort` of clients, `train_mean` for their average, `step_on_rows` for single steps |
| `batch` | `Batch`: the minibatches of one step, and the gradients they define |
| `gradients` | full-batch gradients of clients, of their union, of the last layer |
| `evaluation` | `evaluate` a model on samples |
| `frozen` | outputs of models that stay as they are while others train |
| `exact` | products, roots and exponentials with the same digits on every processor |
| `threads` | train clients in parallel on threads |
| `dense`, `convolution`, `compiled` | how it is computed: stacked dense networks, convolutions, machine code |
| `readable` | the plain loop that all of this must equal |
"""

from fedlib.engine.batch import Batch
from fedlib.engine.convolution import forward
from fedlib.engine.evaluation import (
    evaluate,
    evaluate_each,
    evaluate_personal,
    logits_of,
    mean_loss,
    scores_of,
)
from fedlib.engine.exact import exponential, product, root, weighted_sum
from fedlib.engine.frozen import frozen_outputs, frozen_representations
from fedlib.engine.gradients import client_gradients, head_gradients, mean_gradient, pooled_gradient
from fedlib.engine.minibatches import Work
from fedlib.engine.training import Averaged, Cohort, Memory, Trained, step_on_rows, train, train_mean

__all__ = [
    "Averaged",
    "Batch",
    "Cohort",
    "Memory",
    "Trained",
    "Work",
    "client_gradients",
    "evaluate",
    "evaluate_each",
    "evaluate_personal",
    "exponential",
    "forward",
    "frozen_outputs",
    "frozen_representations",
    "head_gradients",
    "logits_of",
    "mean_gradient",
    "mean_loss",
    "pooled_gradient",
    "product",
    "root",
    "scores_of",
    "step_on_rows",
    "train",
    "train_mean",
    "weighted_sum",
]
