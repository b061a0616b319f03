"""ACFMO as Section IV of the paper writes it: one client, one sample, one feature at a time, in double precision.

Weights are a list of rows, one a class; a row has one number a feature, and the last feature, the bias, is always one.
Participants and minibatches are the library's own draws; everything else is written out again from Eqs. (3) to (20).
"""

from math import exp, sqrt

from fedlib.engine import Work
from fedlib.engine.minibatches import client_minibatches


class ReadableACFMO:
    """The method with the hyper-parameters of `fedlib.algorithms.acfmo.ACFMO`, on softmax regression."""

    def __init__(self, options, federation):
        self.options, self.federation = options, federation
        self.samples = [[value.item() for value in sample] for sample in federation.x]
        self.labels = [label.item() for label in federation.y]
        self.rows = [[row.item() for row in rows] for rows in federation.rows]
        self.features, self.classes = len(self.samples[0]), federation.classes
        self.w, self.m, self.v = self.zeros(), self.zeros(), self.zeros()

    def zeros(self):
        return [[0.0] * self.features for _ in range(self.classes)]

    def each(self, formula):
        """A weight-shaped list of formula(class c, feature j)."""
        return [[formula(c, j) for j in range(self.features)] for c in range(self.classes)]

    def sample_gradient(self, w, row):
        """Gradient of F_k, cross-entropy plus l2/2 |w|^2."""
        x, l2 = self.samples[row], self.federation.l2
        logits = [sum(w[c][j] * x[j] for j in range(self.features)) for c in range(self.classes)]
        powers = [exp(logit - max(logits)) for logit in logits]
        share = [power / sum(powers) for power in powers]
        truth = [1.0 if c == self.labels[row] else 0.0 for c in range(self.classes)]
        return self.each(lambda c, j: (share[c] - truth[c]) * x[j] + l2 * w[c][j])

    def mean_gradient(self, w, rows):
        """Gradient of f_i, Eq. (2), or of a batch: the mean over these rows."""
        found = [self.sample_gradient(w, row) for row in rows]
        return self.each(lambda c, j: sum(gradient[c][j] for gradient in found) / len(rows))

    def count(self, client, feature):
        """n_i^j."""
        return sum(1 for row in self.rows[client] if self.samples[row][feature] != 0)

    def anchor(self, participants):
        """g(w^{r-1}), Eq. (3)."""
        total = sum(len(self.rows[i]) for i in participants)
        parts = [(len(self.rows[i]) / total, self.mean_gradient(self.w, self.rows[i])) for i in participants]
        return self.each(lambda c, j: sum(share * gradient[c][j] for share, gradient in parts))

    def rate(self, index):
        """alpha_g^index, Eq. (7)."""
        beta1, beta2 = self.options.beta1, self.options.beta2
        return self.options.server_lr * (1 - beta1) * sqrt((1 - beta2**index) / (1 - beta2))

    def scale(self, client, feature):
        """The feature's entry of Lambda_i, Eqs. (11) and (13); 0 where the client never sees the feature."""
        everywhere = sum(self.count(i, feature) for i in range(len(self.rows)))
        samples = sum(len(rows) for rows in self.rows)
        own = self.count(client, feature)
        return everywhere * len(self.rows[client]) / (samples * own) if own else 0.0

    def local(self, client, accelerated, anchor, round):
        """w_{i,K}, Eqs. (12) to (16), with the local step alpha_l / n_i."""
        work = Work(lr=0.0, batch=self.options.batch, steps=self.options.steps)
        scale = [self.scale(client, j) for j in range(self.features)]
        step = self.options.lr / len(self.rows[client])
        w = accelerated
        for positions in client_minibatches(self.federation, client, work, round):
            rows = [self.rows[client][position] for position in positions]
            here, there = self.mean_gradient(w, rows), self.mean_gradient(accelerated, rows)
            direction = self.each(lambda c, j, h=here, t=there: -(scale[j] * (h[c][j] - t[c][j]) + anchor[c][j]))
            w = self.each(lambda c, j, w=w, d=direction: w[c][j] + step * d[c][j])
        return w

    def holders(self, feature):
        """omega^j, Eq. (19); at least one, for features nobody has."""
        return max(1, sum(1 for i in range(len(self.rows)) if self.count(i, feature) != 0))

    def drift(self, participants, accelerated, anchor, round):
        """xi_r, Eq. (17)."""
        total = sum(len(self.rows[i]) for i in participants)
        trained = [(len(self.rows[i]) / total, self.local(i, accelerated, anchor, round)) for i in participants]
        return self.each(lambda c, j: sum(share * (w[c][j] - accelerated[c][j]) for share, w in trained))

    def round(self, participants, round):
        """One round, Eqs. (3), (4), (8), (9) and (20)."""
        beta1, beta2, epsilon = self.options.beta1, self.options.beta2, self.options.epsilon
        g = self.anchor(participants)
        fresh1, fresh2 = (1, 1) if self.options.variant == "unnormalised" else (1 - beta1, 1 - beta2)
        m = self.each(lambda c, j: beta1 * self.m[c][j] + fresh1 * g[c][j])
        v = self.each(lambda c, j: beta2 * self.v[c][j] + fresh2 * g[c][j] ** 2)
        lagging = self.options.variant == "printed"
        rate = self.rate(round - 1 if lagging else round)
        step_m, step_v = (self.m, self.v) if lagging else (m, v)
        accelerated = self.each(lambda c, j: self.w[c][j] - rate * step_m[c][j] / sqrt(step_v[c][j] + epsilon))
        xi = self.drift(participants, accelerated, g, round)
        spread = len(participants) * self.options.steps
        rarity = [len(participants) / self.holders(j) for j in range(self.features)]  # A_r, Eq. (18)
        self.w = self.each(lambda c, j: accelerated[c][j] + rate / spread * rarity[j] * xi[c][j])
        self.m, self.v = m, v
