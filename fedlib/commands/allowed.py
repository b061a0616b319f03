"""The allowed values of each setting: every parameter of every notebook has its limit here, checked before anything
runs.

`ALLOWED` goes by the name of the parameter, or by `<paper>.<notebook>.<name>` if a notebook means something else by it.
If the notebook's own value is a list, the limit is that of each element. `RULES` says what must hold between the
parameters of a notebook. A test fails for a parameter without a limit.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, isfinite
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from fedlib import surroundings
from fedlib.report.notebooks import Notebook, discover, parameters, values_of
from fedlib.report.usage import UsageError, typed, valid_names
from fedlib.runs.backends import BACKENDS


@dataclass(frozen=True)
class Allowed:
    """What a value may be, or each element of a list."""

    kind: type  # int: a whole number; float: any finite number; str: a text
    least: float = -inf
    above: float = -inf
    most: float = inf
    below: float = inf
    names: tuple[str, ...] = ()  # a text is one of these; empty: any text
    pattern: str = ""  # or a text that matches this; `names` then describes it in words
    drop_ins: bool = False  # the user's own data sets are allowed, too
    optional: bool = False  # null is allowed, too
    lengths: tuple[int, float] = (1, inf)  # of a list
    including: tuple[Any, ...] = ()  # what a list must contain, because the notebook shows it

    def fits(self, value: object, drop_ins: tuple[str, ...] = ()) -> bool:
        """Whether a single value is allowed."""
        if value is None:
            return self.optional
        if self.kind is str:
            return isinstance(value, str) and self._allows(value, drop_ins)
        if isinstance(value, bool) or not isinstance(value, int | float) or not isinstance(value, int | self.kind):
            return False
        whole = isinstance(value, int)  # finite, even if no float is as large
        return (whole or isfinite(value)) and self.least <= value <= self.most and self.above < value < self.below

    def _allows(self, text: str, drop_ins: tuple[str, ...]) -> bool:
        if self.pattern:
            return re.fullmatch(self.pattern, text) is not None
        return not self.names or text in self.names or (self.drop_ins and text in drop_ins)

    def expected(self, wrong: object) -> str:
        """What would be right; for names, with the nearest."""
        noun = {int: "a whole number", float: "a finite number", str: "a name" if self.names else "a text"}[self.kind]
        others = ["or null"] * self.optional + ["or that of a file in the data folder"] * self.drop_ins
        names = f" {valid_names(self.names, wrong)}" if self.names else ""
        return f"expected {', '.join([noun, *self._range(), *others])}.{names}"

    def _range(self) -> list[str]:
        bounds = {"above {}": self.above, "{} or more": self.least, "below {}": self.below, "at most {}": self.most}
        return [words.format(f"{bound:.10g}") for words, bound in bounds.items() if isfinite(bound)]


COUNT = Allowed(int, least=1)
OPTIONAL_COUNT = replace(COUNT, optional=True)
POSITIVE = Allowed(float, above=0)
NOT_NEGATIVE = Allowed(float, least=0)
SHARE = Allowed(float, above=0, most=1)
PERCENT = Allowed(float, above=0, most=100)
ACCURACY = Allowed(float, above=0, below=1)
DECAY = Allowed(float, least=0, below=1)
IMAGES = Allowed(str, names=("mnist", "fashion_mnist", "cifar10", "cifar100", "femnist", "handwriting"), drop_ins=True)
WRITERS = Allowed(str, names=("femnist", "handwriting"), drop_ins=True)
PARTITION = Allowed(
    str,
    names=("iid", "xi=<shards per device>", "alpha=<concentration>"),
    pattern=r"iid|xi=[1-9]\d*|alpha=(?=.*[1-9])\d+(\.\d+)?",
)
FEDSR_METHODS = ("Centralized", "FedAvg", "FedProx", "MOON", "HierFAVG", "ring-optimization", "FedSR")
FEDSR_DATA = ("mnist", "fashion_mnist", "cifar10", "cifar100")
FEDSR_VARIANTS = (
    *("FedAvg, E = 1", "FedProx, E = 1", "MOON, E = 1", "ring-optimization, E = 1"),
    *("FedSR, R = 1", "FedSR as printed"),
)
FEDGS_RIVALS = (
    *("FedProx", "IDA", "IDA+INTRAC", "IDA+FedAvg", "CGAU", "CGAU 2x", "FedMMD"),
    *("FedFusion+Conv", "FedFusion+Multi", "FedFusion+Single", "FedAvgM", "FedAdagrad", "FedAdam", "FedYogi"),
)
CELL = r"n = [1-9]\d*, T = [1-9]\d*"  # of FedGS's Fig. 5a
SKEWED_ENVIRONMENTS = ("uniform", "inverse Pareto", "Dirichlet", "few-class")

COUNTS = (
    *("seeds", "cnn_seeds", "crowd_seeds", "share_seeds", "race_seeds", "long_seeds", "rehearsal_seeds"),
    *("tuning_seeds", "count_seeds", "variant_seeds", "full_seeds", "lambda_seeds", "poison_seeds", "rival_seeds"),
    *("second_seeds", "gradient_seeds", "stop_seeds", "control_seeds"),
    *("printed_samples", "printed_batch", "calibration_rounds", "calibration_draws"),
    *("rounds", "tuning_rounds", "fedl_rounds", "cnn_rounds", "share_rounds", "crowd_rounds"),
    *("race_rounds", "long_rounds", "schedule", "check_epochs", "watch_rounds", "early"),
    *("second_rounds", "wide_rounds", "printed_rounds", "rate_rounds", "rate_every", "rate_participants"),
    *("poison_rounds", "fixed_rounds", "rehearsal_rounds", "reward_round", "stops", "restart", "ban"),
    *("final_rounds", "full_rounds", "fastest_rounds", "further_rounds"),
    *("every", "cnn_every", "last", "final_last", "full_last"),
    *("devices", "share_devices", "crowd_devices", "device_counts", "clients", "client_counts", "kappa", "poisoners"),
    *("participants",),
    *("factories", "groups", "selected", "ring", "draws", "map_draws", "known_images", "known_epochs"),
    *("steps", "batch", "batches", "groups_batch", "epochs", "local_epochs", "ring_epochs"),
    *("iterations", "iteration_counts", "width", "hidden", "wide_width", "wide_hidden", "units"),
    *("groups_iterations", "tuning_iterations", "round_length", "watched"),
)
SAMPLES = (  # null: all
    *("samples", "test_samples", "cnn_samples", "share_samples", "crowd_samples"),
    *("race_samples", "check_samples"),
)
POSITIVES = (
    *("lr", "rates", "wide_rate", "paired_rates", "server_rates", "client_rates", "momentum_rates", "adaptive_rates"),
    *("fedl_lr", "fedl_rates", "fedl_etas", "full_etas", "fedl_full_etas"),
    *("alpha", "betas", "etas", "sigma", "sigmas", "radius", "radii", "deadline", "deadlines"),
    *("ratio", "bandwidth", "snr", "step", "selecting"),
)
ALLOWED: dict[str, Allowed] = {
    **dict.fromkeys(("seed", "race_seed"), Allowed(int, least=0, most=2**32 - 1)),
    **dict.fromkeys(COUNTS, COUNT),
    **dict.fromkeys(
        (
            "head_start",
            "presampled",
            "polished",
            "gradient_rounds",
            "later",
            "other_seeds",
            "chosen_splits",
            "further_seeds",
            "check_seeds",
        ),
        Allowed(int, least=0),
    ),
    **dict.fromkeys(SAMPLES, OPTIONAL_COUNT),
    **dict.fromkeys(POSITIVES, POSITIVE),
    **dict.fromkeys(("l2", "mu", "mus", "prox_mus", "moon_mus"), NOT_NEGATIVE),
    **dict.fromkeys(("participations", "shares", "decay", "lambdas"), SHARE),
    **dict.fromkeys(("participation", "pixel_levels", "unequal_levels"), PERCENT),
    "threshold": Allowed(float, least=0, most=1),
    "target": ACCURACY,
    "targets": replace(ACCURACY, lengths=(0, 3)),
    "pixel_targets": ACCURACY,
    "beta1": replace(DECAY, including=(0.6, 0.9)),
    "beta2": replace(DECAY, including=(0.99, 0.999)),
    "data_set": IMAGES,
    "cnn_data": IMAGES,
    "race_data": replace(IMAGES, names=FEDSR_DATA, drop_ins=False, including=("mnist",)),
    "check_data": replace(IMAGES, names=FEDSR_DATA[:3], drop_ins=False),
    "check_again": replace(IMAGES, names=FEDSR_DATA[:3], drop_ins=False, lengths=(0, inf)),
    "transfer_epochs": NOT_NEGATIVE,
    **dict.fromkeys(("partitions", "cnn_partitions", "moon_partitions"), PARTITION),
    "few_partitions": replace(PARTITION, lengths=(0, inf)),
    "few_methods": Allowed(str, names=FEDSR_METHODS[1:]),
    "control_data": replace(IMAGES, names=FEDSR_DATA[1:], drop_ins=False, lengths=(0, inf)),
    "cnn_methods": Allowed(str, names=FEDSR_METHODS, including=("FedAvg", "FedSR")),
    "crowd_methods": Allowed(str, names=FEDSR_METHODS[1:]),
    "crowd_control": Allowed(str, names=FEDSR_METHODS[1:], lengths=(0, inf)),
    "long_methods": Allowed(str, names=(*FEDSR_METHODS, *FEDSR_VARIANTS)),
    "standardised_methods": Allowed(str, names=(*FEDSR_METHODS[1:], *FEDSR_VARIANTS)),
    "race_methods": Allowed(str, names=(*FEDSR_METHODS[1:], *FEDSR_VARIANTS), including=("FedSR", "ring-optimization")),
    "methods": Allowed(str, names=FEDGS_RIVALS, lengths=(0, inf)),  # none: all
    "close_rows": Allowed(str, names=FEDGS_RIVALS, lengths=(0, inf)),
    "left_out": Allowed(str, names=("n = <batch>, T = <iterations>",), pattern=CELL, lengths=(0, inf)),
    "start": Allowed(str, names=("xavier", "he", "default")),
    "rivals_in": Allowed(str, names=SKEWED_ENVIRONMENTS),
    # where a notebook means something else, or needs more
    "start.here.samples": Allowed(int, least=1, most=60000),
    **dict.fromkeys(("acfmo.mnist.targets", "acfmo.cifar10.targets"), ACCURACY),
    "acfmo.momentum.l2": POSITIVE,
    "fcbafl.learning.samples": Allowed(int, least=1, most=60000, optional=True),
    **{f"fcbafl.energy.{name}": Allowed(float, least=1, most=2) for name in ("fixed_ghz", "fixed_frequencies")},
    **{f"fcbafl.energy.{name}": POSITIVE for name in ("map_deadlines", "held")},
    "fcbafl.energy.in_time": Allowed(float, least=0, most=1),
    **{f"fedacs.{name}.samples": COUNT for name in ("skewness", "comparison", "bandit")},
    "fedacs.skewness.clients": Allowed(int, least=60),  # the groups that Fig. 4 observes
    "fedacs.skewness.betas": replace(POSITIVE, lengths=(2, 2)),
    "fedacs.bandit.lambdas": replace(SHARE, including=(0.2, 0.4)),
    "fedacs.bandit.clients": Allowed(int, least=5),
    **{f"fedacs.{name}.known_images": Allowed(int, least=1, most=50000) for name in ("skewness", "comparison")},
    **{f"fedgs.{name}.data_set": WRITERS for name in ("selection", "comparison", "hyperparameters", "time")},
    "fedgs.hyperparameters.devices": Allowed(int, least=100),
    "fedgs.hyperparameters.selected": Allowed(int, least=2),
    "fedgs.time.selected": Allowed(int, least=2, most=35),
    "fedsr.ring_idea.cnn_data": replace(IMAGES, lengths=(0, inf)),  # none: MNIST only
    "fedsr.comparison.partitions": replace(PARTITION, including=("iid", "xi=2")),
    "fedsr.sensitivity.devices": Allowed(int, least=4),
    "fedsr.sensitivity.crowd_rounds": Allowed(int, least=2),
}
RULES: dict[str, tuple[str, ...]] = {
    "start.here": ("clients <= samples",),
    "fcbafl.learning": ("40 * devices <= (samples or 60000)", "participants <= devices"),
    "fedacs.skewness": ("kappa <= min(clients, *client_counts)", "reward_round <= watch_rounds"),
    "fedacs.comparison": (
        "kappa <= 0.4 * clients",
        "poisoners <= clients",
        "poison_rounds <= rounds",
        "clients <= 2 * fixed_rounds * kappa",
        "every <= min(last, full_last)",  # a target is a mean of measured rounds
    ),
    "fedacs.bandit": ("kappa <= min(0.05, *lambdas) * clients",),
    "fedgs.selection": ("presampled <= selected", "selected <= devices", "later < watched"),
    "fedgs.comparison": (
        "presampled <= selected",
        "factories * selected <= devices",
        "max(wide_rounds, printed_rounds) <= rounds",
        "control_seeds <= seeds",
    ),
    "fedgs.hyperparameters": ("rate_participants <= devices",),
    "fedsr.ring_idea": ("2 * devices <= min(samples or 60000, cnn_samples or 50000)",),
    "fedsr.comparison": (
        "2 * devices <= min(samples or 60000, race_samples or 50000)",
        "race_rounds <= schedule",
        "set(moon_partitions) <= set(partitions)",
        "not set(few_partitions) & set(partitions)",
    ),
    "fedsr.images": (
        "2 * devices <= (samples or 50000)",
        "devices <= (check_samples or 50000)",
        "set(control_data) <= set(cnn_data)",
    ),
    "fedsr.sensitivity": (
        "4 * devices <= (samples or 60000)",
        "4 * share_devices <= (share_samples or 60000)",
        "2 * crowd_devices <= (crowd_samples or 60000)",
        "0.5 < min(shares) * share_devices",
    ),
}
SETTINGS: dict[str, Allowed] = {  # settings that belong to no notebook
    "seed": ALLOWED["seed"],
    "report": Allowed(str),
    "record": Allowed(str, names=("stale", "use", "ignore", "only")),
    "data.folder": Allowed(str, optional=True),
    "data.cache": Allowed(str, optional=True),
    "backend.name": Allowed(str, names=tuple(BACKENDS)),
    "backend.workers": OPTIONAL_COUNT,
    "backend.address": Allowed(str, optional=True),
    "backend.leg": POSITIVE,
    "backend.slurm.cores": COUNT,
}


def check(config: DictConfig, root: Path) -> None:
    """Refuse the first value beyond its limit, with what would be right."""
    for setting, limit in SETTINGS.items():
        node, _, name = setting.rpartition(".")
        values = OmegaConf.select(config, node) if node else config
        if values is not None and name in values:  # a backend has only some of them
            check_value(setting, values[name], limit)
    if config.backend.name == "slurm":  # it cannot count the cores of a cluster
        check_value("backend.workers", config.backend.workers, COUNT)
    drop_ins = tuple(surroundings.drop_ins(_data_folder(config)))
    for notebook in discover(root):
        if notebook.paper in config:
            _check_notebook(notebook, values_of(notebook, config), drop_ins)


def _check_notebook(notebook: Notebook, values: dict[str, Any], drop_ins: tuple[str, ...]) -> None:
    defaults = parameters(notebook.path)
    for name, value in values.items():
        limit = allowed_for(notebook.label, name)
        check_parameter(f"{notebook.label}.{name}", value, limit, isinstance(defaults[name], list), drop_ins)
    check_rules(notebook.label, defaults | values)


def _data_folder(config: DictConfig) -> Path:
    """Where notebooks will look for the user's own data sets."""
    return Path(config.data.folder).expanduser() if config.data.folder else surroundings.data_folder()


def allowed_for(label: str, name: str) -> Allowed | None:
    """The limit of a notebook's parameter; None if it has none."""
    return ALLOWED.get(f"{label}.{name}", ALLOWED.get(name))


def check_parameter(
    setting: str, value: object, limit: Allowed | None, is_list: bool, drop_ins: tuple[str, ...] = ()
) -> None:
    """Check a single value, or each of a list if the notebook has a list."""
    if limit is None:
        _check_finite(setting, value)
    elif is_list:
        _check_list(setting, value, limit, drop_ins)
    else:
        check_value(setting, value, limit, drop_ins)


def check_value(setting: str, value: object, limit: Allowed, drop_ins: tuple[str, ...] = ()) -> None:
    """Check a single value."""
    if not limit.fits(value, drop_ins):
        raise UsageError(f"{setting}={typed(value)}: {limit.expected(value)}")


def _check_list(setting: str, value: object, limit: Allowed, drop_ins: tuple[str, ...]) -> None:
    if not isinstance(value, list):
        raise UsageError(f"{setting}={typed(value)}: expected a list, such as [{typed(value)}].")
    least, most = limit.lengths
    if not least <= len(value) <= most:
        length = f"{least}" if least == most else f"at least {least}" if len(value) < least else f"at most {most:g}"
        raise UsageError(f"{setting}={typed(value)}: expected {length} in the list, not {len(value)}.")
    for element in value:
        if not limit.fits(element, drop_ins):
            raise UsageError(f"{setting}={typed(value)}: {typed(element)} in it is wrong; {limit.expected(element)}")
    if missing := [required for required in limit.including if value and required not in value]:
        raise UsageError(
            f"{setting}={typed(value)}: {typed(missing)[1:-1]} must be in it, the notebook compares with it."
        )


def _check_finite(setting: str, value: object) -> None:
    if any(isinstance(item, float) and not isfinite(item) for item in (value if isinstance(value, list) else [value])):
        raise UsageError(f"{setting}={typed(value)}: expected a finite number.")


def check_rules(label: str, values: Mapping[str, Any]) -> None:
    """Check what must hold between the parameters of a notebook."""
    for rule in RULES.get(label, ()):
        if not eval(rule, {"min": min, "set": set}, dict(values)):
            names = [name for name in dict.fromkeys(re.findall(r"[a-z_]+\d*", rule)) if name in values]
            given = ", ".join(f"{name}={typed(values[name])}" for name in names)
            raise UsageError(f"{label}: {given}, but {rule} must hold.")
