"""The federations and runs behind the figures and tables of FedACS; insights and selectors at a fixed model.

A federation is an environment (Definitions 3 to 5, Section VII-A) of clients with the same number of samples. If
clients together hold more than the data set has, they share images.
"""

import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from fedlib import engine
from fedlib.algorithms import create
from fedlib.algorithms.algorithm import State, mean_by_size, scores_on_test_set
from fedlib.algorithms.cmfl import relevance
from fedlib.algorithms.fedacs import FedACS
from fedlib.algorithms.randomclients import RandomClients, sizes
from fedlib.engine import readable
from fedlib.problem.federation import Federation, draw_poisoners, federate
from fedlib.problem.streams import generator
from fedlib.runs import study
from fedlib.runs.computations import computation
from fedlib.runs.study import Run
from fedlib.selection import skewness

# Environment -> partitioner and its options, as printed in Section VII.
ENVIRONMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "iid": ("dominance", {"alphas": 0.0}),
    "uniform": ("uniform_skew", {}),
    "inverse Pareto": ("inverse_pareto_skew", {"s": 2.0}),
    "Dirichlet": ("dirichlet_skew", {"median": 0.2, "largest": 3.0}),
    "few-class": ("few_class_skew", {}),
}
PRINTED_ENVIRONMENTS = ["uniform", "inverse Pareto", "Dirichlet"]  # of Tables II and III
# Method -> algorithm. Rivals are as the authors of FedACS released them, and again as in their own papers. CMFL's
# threshold is scaled to the samples per client (`scaled_threshold`).
METHODS = {
    "baseline": "randomclients",
    "FedACS": "fedacs",
    "FedACS, released": "releasedfedacs",
    "Oort": "oort",
    "CMFL": "releasedcmfl",
    "Rexp3": "releasedrexp3",
    "CMFL, own paper": "cmfl",
    "Rexp3, own paper": "rexp3",
}
RIVALS = ["Oort", "CMFL", "Rexp3"]
VARIANTS = ["FedACS, released", "CMFL, own paper", "Rexp3, own paper"]
AS_FEW_IMAGES = "baseline, as few images"  # a federation of as many clients as FedACS's pool has, drawn at random
POOL = 0.4  # lambda: FedACS's pool as a share of the clients
PRINTED_ROUNDS = 1000
PRINTED_EPOCHS = 5
IMAGES = 50000  # CIFAR-10's training set
HELD_OUT = 0.1  # of the training images, in the trials that set the targets
# Inputs as in the released code: channels by these means and deviations; training images shifted and mirrored.
INPUTS: dict[str, Any] = {
    "standardise": [[0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]],
    "crop": 4,
    "flip": True,
}
OBSERVED = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # alpha of the observation groups G1 to G6 of Fig. 4
GROUP = 10  # clients per observation group


@dataclass(frozen=True)
class PopulationSetting:
    """The setting of all runs of a notebook: N clients of equal size, kappa of them per round, and how they train."""

    clients: int = 200  # N
    kappa: int = 10  # participants per round
    samples: int = 250  # M, of each client
    test_samples: int | None = None  # to evaluate on; None: the whole test set
    batch: int = 50  # B
    epochs: int = 5  # E
    lr: float = 0.1  # gamma
    decay: float = 0.9993  # gamma_d, each local epoch of the printed 1000 rounds
    momentum: float = 0.5
    weight_decay: float = 5e-4
    rounds: int = PRINTED_ROUNDS
    every: int = 5  # evaluate every k-th round
    method_options: dict[str, dict] = field(default_factory=dict)  # method -> its own options, such as Oort's ban

    def local(self) -> dict[str, Any]:
        """Options of every method. With fewer local epochs in all, the rate decays faster, to the same end."""
        names = ("batch", "epochs", "lr", "momentum", "weight_decay")
        given = {name: getattr(self, name) for name in names}
        decay = round(self.decay ** (PRINTED_ROUNDS * PRINTED_EPOCHS / (self.rounds * self.epochs)), 8)
        return given | {"decay": decay, "participation": self.kappa / self.clients}


def federation(setting: PopulationSetting, environment: str, **more: Any) -> dict[str, Any]:
    """Arguments of `federate` for CIFAR-10 and the network of PyTorch's tutorial."""
    partitioner, options = ENVIRONMENTS[environment]
    sizes = {"client_samples": setting.samples, "test_samples": setting.test_samples}
    shared = {"data_set": "cifar10", "network": "lenet_tutorial"} | sizes | INPUTS
    return shared | {"partitioner": partitioner, "clients": setting.clients} | options | more


def run(
    setting: PopulationSetting, environment: str, method: str, seed: int, label: dict | None = None, **options: Any
) -> Run:
    """One run of a method in an environment. It records who takes part, for the figures on selection."""
    label = {"environment": environment, "method": method} | (label or {})
    given = setting.local() | setting.method_options.get(method, {}) | {"tally": True} | options
    return Run(METHODS[method], federation(setting, environment), setting.rounds, seed, given, setting.every, label)


def execute(runs: list[Run]) -> pd.DataFrame:
    """`study.execute` without pandas's warning about records with many columns, one per client."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pd.errors.PerformanceWarning)
        return study.execute(runs).copy()


def environments(setting: PopulationSetting, names: list[str], seeds: range) -> list[Run]:
    """Fig. 2: FedAvg with random participants in several environments."""
    return [run(setting, name, "baseline", seed) for seed in seeds for name in names]


def comparison(setting: PopulationSetting, methods: dict[str, list[str]], seeds: range) -> list[Run]:
    """Fig. 6 and Tables II and III: the methods of each environment, and iid clients as the upper bound."""
    pairs = [("iid", "baseline"), *((environment, name) for environment in methods for name in methods[environment])]
    return [run(setting, environment, name, seed) for seed in seeds for environment, name in pairs]


def variants(setting: PopulationSetting, environment: str, seeds: range) -> list[Run]:
    """FedACS as released, and rivals as in their own papers, in one environment."""
    return [run(setting, environment, name, seed) for seed in seeds for name in VARIANTS]


def as_few_images(setting: PopulationSetting, environment: str, seeds: range) -> list[Run]:
    """The baseline in a federation of as many clients as FedACS's pool has: what a pool costs in images alone."""
    few = replace(setting, clients=round(POOL * setting.clients))
    label = {"method": AS_FEW_IMAGES}
    return [run(few, environment, "baseline", seed, label, tally=False) for seed in seeds]


def target_trials(setting: PopulationSetting, seed: int, environments: list[str]) -> list[Run]:
    """The baseline on a seed that no result uses, scored on held-out training images: it sets the targets."""
    runs = [run(setting, name, "baseline", seed, tally=False) for name in environments]
    return [replace(trial, federation=_held_out(setting, trial.federation)) for trial in runs]


def _held_out(setting: PopulationSetting, arguments: dict[str, Any]) -> dict[str, Any]:
    """Score on a part of the clients' training images instead of the test set.

    Nobody trains on an image that any of its holders holds out. Where several clients hold each image, every one of
    them holds out fewer, so that a client keeps nine tenths of its images all the same.
    """
    holders = max(1.0, setting.clients * setting.samples / IMAGES)
    share = round(1 - (1 - HELD_OUT) ** (1 / holders), 4)
    return arguments | {"test_samples": None, "validation_share": share}


# Runs that break down. A client with one or two classes may be at the edge of stability while the model is young.

BROKEN = 10.0  # a model this many times as long as the first one has broken down
BREAKDOWN = ("round", "client", "alpha", "loop", "moved")
NUDGES = 3  # starts that differ from the received model by one rounding error per weight


def beginnings(
    setting: PopulationSetting, environment: str, methods: list[str], rounds: int, seeds: range
) -> list[Run]:
    """The first rounds of runs as long as the others."""
    runs = [run(setting, environment, method, seed, tally=False) for seed in seeds for method in methods]
    return [replace(beginning, rounds=rounds) for beginning in runs]


@computation
def breakdown(federation: dict, algorithm: str, options: dict, rounds: int, seed: int) -> pd.DataFrame:
    """How far each participant moves in the round in which the model breaks down: by the compiled loop, by the readable
    one, which makes the same sums in another order, and by the compiled one from nudged starts.

    One row per client and loop; none if the model holds for all these rounds.
    """
    built, method = federate(**federation, seed=seed), create(algorithm, **options)
    assert isinstance(method, RandomClients)
    state = method.init(built)
    longest = BROKEN * float(state["weights"].norm())
    for round in range(1, rounds + 1):
        after = method.round(built, state, round)
        if not float(after["weights"].norm()) <= longest:  # not a number counts as broken, too
            return _moves(built, method, state, round)
        state = after
    return pd.DataFrame(columns=list(BREAKDOWN))


def breakdowns(setting: PopulationSetting, lost: pd.DataFrame, rounds: int) -> pd.DataFrame:
    """`breakdown` of each of these runs, given by environment, method and seed, in its first rounds."""
    parts = [pd.DataFrame(columns=["environment", "method", "seed", *BREAKDOWN])]
    for environment, method, seed in lost[["environment", "method", "seed"]].itertuples(index=False):
        broken = run(setting, environment, method, seed)
        told = breakdown(broken.federation, broken.algorithm, broken.options, rounds, seed)
        parts.append(told.assign(environment=environment, method=method, seed=seed))
    full = [part for part in parts if len(part)]
    return pd.concat(full, ignore_index=True) if full else parts[0]


def _moves(built: Federation, method: RandomClients, state: State, round: int) -> pd.DataFrame:
    clients, start, work = method.choose(built, state, round), state["weights"], method.work(round)
    ends = {
        "compiled": engine.train(built, engine.Cohort(clients, start), work, round).weights,
        "readable": readable.train(built, engine.Cohort(clients, start), work, round).weights,
    }
    for number in range(1, NUDGES + 1):
        signs = generator(built.seed, "nudge", round, number).choice([-1.0, 1.0], len(start)).astype(np.float32)
        nudged = torch.nextafter(start, start + torch.from_numpy(signs))
        ends[f"nudged, {number}"] = engine.train(built, engine.Cohort(clients, nudged), work, round).weights
    alphas = skewness.true_alphas(built)[clients]
    moved = {loop: (weights - start).norm(dim=1).numpy() for loop, weights in ends.items()}
    parts = [
        pd.DataFrame({"round": round, "client": clients, "alpha": alphas, "loop": loop, "moved": far})
        for loop, far in moved.items()
    ]
    return pd.concat(parts, ignore_index=True)


def observed_alphas(clients: int, seed: int) -> list[float]:
    """Fig. 4: six groups of ten clients with fixed alphas come first; the alphas of the others are uniform."""
    others = clients - GROUP * len(OBSERVED)
    if others < 0:
        raise ValueError(f"clients={clients}: the observation groups alone are {GROUP * len(OBSERVED)}")
    return [alpha for alpha in OBSERVED for _ in range(GROUP)] + generator(seed, "alphas").random(others).tolist()


def observation(setting: PopulationSetting, seeds: range) -> list[Run]:
    """Fig. 4: random participants; in each measured round the observed clients get rewards as if they took part."""
    options = setting.local() | {"watch": GROUP * len(OBSERVED)}
    return [
        Run(
            "randomclients",
            federation(setting, "uniform", partitioner="dominance", alphas=observed_alphas(setting.clients, seed)),
            setting.rounds,
            seed,
            options,
            setting.every,
            {},
        )
        for seed in seeds
    ]


def client_counts(setting: PopulationSetting, counts: list[int], seeds: range) -> list[Run]:
    """Fig. 5: fewer iid clients of the same size, equally many participants."""
    return [
        Run(
            "randomclients",
            federation(setting, "iid", clients=clients),
            setting.rounds,
            seed,
            setting.local() | {"participation": setting.kappa / clients, "tally": True},
            setting.every,
            {"clients": clients},
        )
        for seed in seeds
        for clients in counts
    ]


def tolerances(setting: PopulationSetting, values: list[float], seeds: range) -> list[Run]:
    """Fig. 7: FedACS with several lambdas in the uniform environment, and the baseline."""
    runs = []
    for seed in seeds:
        runs.append(run(setting, "uniform", "baseline", seed, {"tolerance": np.nan}))
        runs += [run(setting, "uniform", "FedACS", seed, {"tolerance": value}, tolerance=value) for value in values]
    return runs


def early_stop(setting: PopulationSetting, stops: dict[int, range], seeds: range) -> list[Run]:
    """Fig. 10: the baseline, FedACS that asks for insights to the end, and variants that stop, each on its seeds."""
    lines = [("baseline", np.nan, "baseline", {}, seeds), ("FedACS", np.nan, "FedACS", {}, seeds)]
    lines += [(f"stop at {stop}", stop, "FedACS", {"stop": stop}, listed) for stop, listed in stops.items()]
    return [
        run(setting, "uniform", method, seed, {"variant": name, "stop": stop}, **options)
        for name, stop, method, options, listed in lines
        for seed in listed
    ]


WRONG, RIGHT = "wrong labels", "right labels"


def poisoned(setting: PopulationSetting, rounds: int, poisoners: int, seeds: range) -> list[Run]:
    """The two selectors that the paper argues about, in the first rounds of runs in the uniform environment: with some
    wrongly labelled clients, and with the same clients' right labels."""
    selectors = {"FedACS": ("fedacs", {}), "Oort, no ban": ("oort", {"cap": None})}
    labels = {WRONG: federation(setting, "uniform", poisoners=poisoners), RIGHT: federation(setting, "uniform")}
    return [
        Run(
            algorithm,
            arguments,
            rounds,
            seed,
            setting.local() | options | {"tally": True},
            setting.every,
            {"selector": name, "condition": condition},
        )
        for seed in seeds
        for condition, arguments in labels.items()
        for name, (algorithm, options) in selectors.items()
    ]


@computation
def drawn_poisoners(federation: dict, poisoners: int, seed: int) -> pd.DataFrame:
    """The clients whose labels are wrong in a federation with this many poisoners."""
    return pd.DataFrame({"client": draw_poisoners(federate(**federation, seed=seed), poisoners)})


@computation
def pool_images(federation: dict, tolerances: list[float], seed: int) -> pd.DataFrame:
    """How many different images the mildest clients hold together: the share lambda of them with the lowest alpha."""
    built = federate(**federation, seed=seed)
    order = np.argsort(skewness.true_alphas(built), kind="stable")
    rows = []
    for tolerance in tolerances:
        pool = order[: round(tolerance * built.clients)]
        images = np.unique(np.concatenate([built.rows[client].numpy() for client in pool]))
        rows.append({"tolerance": tolerance, "images": len(images), "share": len(images) / len(built.y)})
    return pd.DataFrame(rows)


# CMFL's threshold. With fewer samples per client, updates agree less with one another, so a threshold made for
# M = 2000 is another one at M = 250.


@dataclass(frozen=True)
class Calibration:
    """The local data for which CMFL's threshold was made, and where updates of both kinds are compared."""

    samples: int  # M
    batch: int  # B
    rounds: list[int]  # rounds of the baseline after which clients train
    draws: int  # sets of participants per round


@computation
def relevances(federation: dict, local: dict, calibration: Calibration, seed: int) -> pd.DataFrame:
    """CMFL's relevance of updates from the same weights, of clients with the present data ("here") and with those of
    the calibration ("printed"); the weights are those of the baseline with the present data."""
    sides = {
        "here": (federate(**federation, seed=seed), RandomClients(**local)),
        "printed": (
            federate(**federation | {"client_samples": calibration.samples}, seed=seed),  # pyright: ignore[reportArgumentType]
            RandomClients(**local | {"batch": calibration.batch}),  # pyright: ignore[reportArgumentType]
        ),
    }
    here, baseline = sides["here"]
    state, frames = baseline.init(here), []
    for round in range(1, max(calibration.rounds) + 1):
        state = baseline.round(here, state, round)
        for draw in range(calibration.draws if round in calibration.rounds else 0):
            rng = generator(seed, "calibration", round, draw)
            clients = np.sort(rng.choice(here.clients, baseline.kappa(here), replace=False))
            for name, (built, method) in sides.items():
                agree = _relevance_in_round(built, method, state["weights"], clients, round + 1)
                frames.append(pd.DataFrame({"data": name, "round": round, "client": clients, "relevance": agree}))
    return pd.concat(frames, ignore_index=True)


def _relevance_in_round(
    federation: Federation, method: RandomClients, weights: torch.Tensor, clients: np.ndarray, round: int
) -> np.ndarray:
    """Of each client's update against the mean of all, as in the released CMFL."""
    trained = engine.train(federation, engine.Cohort(clients, weights), method.work(round), round).weights
    return relevance(trained - weights, mean_by_size(federation, clients, trained) - weights).numpy()


def matching_threshold(agree: pd.DataFrame, threshold: float, kappa: int) -> float:
    """The threshold that keeps the share of updates here which `threshold` keeps with the printed data.

    Where that keeps less than one of a round's `kappa` updates there is nothing to match, and it stays as it is: the
    best update of a round is kept in any case.
    """
    here, printed = (agree.loc[agree["data"] == name, "relevance"] for name in ("here", "printed"))
    share = float((printed >= threshold).mean())
    return threshold if share < 1 / kappa else round(float(np.quantile(here, 1 - share)), 3)


def scaled_threshold(setting: PopulationSetting, calibration: Calibration, threshold: float, seed: int) -> float:
    """CMFL's threshold for the present samples per client: `threshold` itself where these are the printed ones.

    A plan computes nothing. There it is a number a little lower: the runs cost the same.
    """
    if (setting.samples, setting.batch) == (calibration.samples, calibration.batch):
        return threshold
    try:
        agree = relevances(federation(setting, "uniform"), setting.local(), calibration, seed)
    except study.NotComputed:
        return 0.9 * threshold
    return matching_threshold(agree, threshold, setting.kappa)


# All clients at a fixed model: what each would report to the server, and whom selectors choose by it.

STARTING, TRAINED = "starting model", "trained model"


@dataclass(frozen=True)
class Schooling:
    """How the trained one of the two fixed models is trained: on pooled images, without clients."""

    images: int
    epochs: int


@dataclass(frozen=True, eq=False)
class Told:
    """What every client would report to the server at a fixed model, one row per client."""

    insights: np.ndarray
    losses: torch.Tensor  # mean loss of its local training


def told(federation: Federation, weights: torch.Tensor, method: RandomClients) -> Told:
    """The answers of all clients: one insight each and, if `hears_losses`, the mean loss of one round's training."""
    everyone = np.arange(federation.clients)
    insights = skewness.insights(federation, weights, everyone, method.lr)
    if not method.hears_losses:
        return Told(insights, torch.full((federation.clients,), torch.nan, dtype=torch.float64))
    trained = method.train_mean(federation, engine.Cohort(everyone, weights), 1, losses=True)
    return Told(insights, trained.losses)


@computation
def clients_at_fixed_models(federation: dict, local: dict, schooling: Schooling, seed: int) -> pd.DataFrame:
    """What every client would report, at the initial and at a trained model; one row per client and model.

    `estimate` is its Q from the last layer (`numbers` weights), `estimate_all` from the whole net; `loss_before` its
    mean loss at the model, `loss_training` the mean loss of one round's training; `relevance` the share of signs in
    which its update agrees with the mean update of all; `bias_0` ... the part of its insight that belongs to the last
    layer's biases, one per class. `accuracy` is the model's.
    """
    built = federate(**federation, seed=seed)
    method = RandomClients(**local)
    trained = _train_in_one_place(federation, schooling, seed)
    models = {STARTING: built.start, TRAINED: trained}
    return pd.concat([_clients_at(built, weights, method).assign(model=name) for name, weights in models.items()])


def _clients_at(federation: Federation, weights: torch.Tensor, method: RandomClients) -> pd.DataFrame:
    everyone, samples = np.arange(federation.clients), sizes(federation, np.arange(federation.clients))
    insights = skewness.insights(federation, weights, everyone, method.lr)
    whole = method.lr * engine.client_gradients(federation, weights, everyone).numpy().astype(np.float64)
    trained = engine.train(federation, engine.Cohort(everyone, weights), method.work(1), 1, losses=True)
    updates = trained.weights - weights
    biases = insights.reshape(federation.clients, federation.classes, -1)[:, :, -1]
    frame = pd.DataFrame(biases, columns=[f"bias_{label}" for label in range(federation.classes)])
    return frame.assign(
        client=everyone,
        estimate=skewness.estimates(insights, samples),
        estimate_all=skewness.estimates(whole, samples),
        numbers=insights.shape[1],
        loss_before=[_loss(federation, weights, int(client)) for client in everyone],
        loss_training=trained.losses.numpy(),
        relevance=relevance(updates, updates.mean(0)).numpy(),
        accuracy=scores_on_test_set(federation, weights)["accuracy"],
    )


def _loss(federation: Federation, weights: torch.Tensor, client: int) -> float:
    rows = federation.rows[client]
    return engine.mean_loss(federation.network, weights, federation.x[rows], federation.y[rows])


def _train_in_one_place(federation: dict[str, Any], schooling: Schooling, seed: int) -> torch.Tensor:
    """Weights of a model trained on pooled images."""
    inputs = {name: federation[name] for name in ("standardise", "crop", "flip") if name in federation}
    kind = {"network": federation["network"], "samples": schooling.images} | inputs
    whole = federate(federation["data_set"], "iid", 1, **kind, seed=seed)
    work = engine.Work(lr=0.05, batch=50, epochs=schooling.epochs, momentum=0.5, weight_decay=5e-4)
    return engine.train(whole, engine.Cohort(np.array([0]), whole.start), work, 1).weights[0]


# Selectors at a fixed model: many rounds of choosing and learning without training. A selector gets exactly the rewards
# of a federation whose model does not change: they still depend on who else takes part, but they do not drift.


def choose_at_fixed_model(
    method: RandomClients, federation: Federation, rounds: int, answers: Told | None = None
) -> np.ndarray:
    """Who takes part, (rounds, kappa); at the initial model, or at the one that these answers belong to."""
    return np.stack([clients for clients, _ in _rounds_at_fixed_model(method, federation, rounds, answers)])


def _rounds_at_fixed_model(
    method: RandomClients, federation: Federation, rounds: int, answers: Told | None = None
) -> Iterator[tuple[np.ndarray, State]]:
    """Round by round, the participants and the selector's state after the round."""
    answers = told(federation, federation.start, method) if answers is None else answers
    method = _with_fixed_insights(method, answers)
    state = method.init(federation)
    for round in range(1, rounds + 1):
        clients = method.choose(federation, state, round)
        learned = method.learn(federation, state, clients, answers.losses[torch.as_tensor(clients)], round)
        times = state["times"] + torch.as_tensor(np.bincount(clients, minlength=federation.clients))
        state = state | learned | {"times": times}
        yield clients, state


def _with_fixed_insights(method: RandomClients, answers: Told) -> RandomClients:
    """The same method with insights looked up instead of computed from data in every round."""

    def insights(self: RandomClients, federation: Federation, state: State, clients: np.ndarray) -> np.ndarray:
        return answers.insights[clients]

    return type(type(method).__name__, (type(method),), {"insights": insights})(**asdict(method))


@computation
def beta_parameters(federation: dict, local: dict, rounds: int, seed: int) -> pd.DataFrame:
    """A and B of FedACS's bandit at the initial model, round by round, for a mild and for a skewed client.

    The mild client is the 5% quantile of all clients by alpha, the skewed one the 95% quantile.
    """
    built = federate(**federation, seed=seed)
    alphas = skewness.true_alphas(built)
    order = np.argsort(alphas, kind="stable")
    place = max(0, len(order) // 20 - 1)
    chosen = {"mild": order[place], "skewed": order[-1 - place]}
    rows = [
        {
            "round": round,
            "client": name,
            "alpha": alphas[index],
            "a": float(state["a"][index]),
            "b": float(state["b"][index]),
        }
        for round, (_, state) in enumerate(_rounds_at_fixed_model(FedACS(**local), built, rounds), start=1)
        for name, index in chosen.items()
    ]
    return pd.DataFrame(rows)


Selectors = list[tuple[str, str, dict[str, Any]]]  # name, algorithm and the options that only it has


@computation
def rehearsal(federation: dict, chosen: Selectors, local: dict, rounds: int, every: int, seed: int) -> pd.DataFrame:
    """How often each selector has chosen each client (`times_0` ...) up to every k-th round, at the initial model."""
    built, frames = federate(**federation, seed=seed), []
    for name, method in _created(chosen, local).items():
        tally = tally_choices(choose_at_fixed_model(method, built, rounds), built.clients, every)
        tally.insert(0, "curve", name)
        frames.append(tally)
    return pd.concat(frames, ignore_index=True)


def _created(chosen: Selectors, local: dict[str, Any]) -> dict[str, Any]:
    return {name: create(algorithm, **options, **local) for name, algorithm, options in chosen}


def tally_choices(chosen: np.ndarray, clients: int, every: int) -> pd.DataFrame:
    """How often each client is among the choices (rounds, kappa) up to every k-th round, in the columns of a run."""
    ends = range(0, len(chosen) + 1, every)
    times = np.stack([np.bincount(chosen[:end].ravel(), minlength=clients) for end in ends])
    tally = pd.DataFrame(times, columns=[f"times_{client}" for client in range(clients)])
    tally.insert(0, "round", ends)
    return tally


@computation
def poisoners_at_fixed_models(
    federation: dict,
    chosen: Selectors,
    local: dict,
    poisoners: int,
    schooling: Schooling,
    rounds: int,
    seed: int,
) -> pd.DataFrame:
    """The poisoners' share of each selector's participations, at the initial and at a trained model.

    `accuracy` is the trained model's.
    """
    honest = federate(**federation, seed=seed)
    wrong = federate(**federation, poisoners=poisoners, seed=seed)
    weights = _train_in_one_place(federation, schooling, seed)
    conditions = {
        "starting model, wrong labels": (wrong, wrong.start),
        "trained model, wrong labels": (wrong, weights),
        "trained model, right labels": (honest, weights),
    }
    shares = shares_at_fixed_models(_created(chosen, local), conditions, wrong.poisoners, rounds)
    return shares.assign(accuracy=scores_on_test_set(honest, weights)["accuracy"])


def shares_at_fixed_models(
    methods: dict[str, RandomClients],
    conditions: dict[str, tuple[Federation, torch.Tensor]],
    clients: tuple[int, ...],
    rounds: int,
) -> pd.DataFrame:
    """These clients' share of the participations in the second half of the rounds.

    A condition is a federation and the weights of its fixed model. Each method chooses under each of them; all have the
    same local training, so clients are asked once.
    """
    hearing = max(methods.values(), key=lambda method: method.hears_losses)  # its answers serve all
    rows = []
    for condition, (federation, weights) in conditions.items():
        answers = told(federation, weights, hearing)
        for selector, method in methods.items():
            late = choose_at_fixed_model(method, federation, rounds, answers)[rounds // 2 :]
            rows.append((selector, condition, float(np.isin(late, clients).mean())))
    return pd.DataFrame(rows, columns=["selector", "condition", "share"])
