"""What the kernels should give, without rounding: exact fractions, and for TreeSHAP decimals of 60 digits.

Slow, recursive, obviously right; nothing here calls a kernel. Ensembles of one output with one tree per round, squared
error. Floats are taken as the exact numbers that they are.
"""

from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from math import comb

from . import oracle

DIGITS = 60  # of a decimal; the sums that TreeSHAP needs have no cancellation but between leaves


# -- attribution ---------------------------------------------------------------------------------------------------
def margin(e, row):
    """Base score and the leaves that a row reaches, added up."""
    leaves = (e.value[oracle.path(e, tree, row)[-1], 0] for tree in range(e.n_trees))
    return Fraction(e.base_score[0]) + sum(map(Fraction, leaves))


def path_attribution(e, node_value, row):
    """Steps between these values, exact or of 60 digits, along the paths of a row: one number per column."""
    with localcontext(Context(prec=DIGITS)):
        out = [type(node_value[0])(0)] * e.schema.n_columns
        for tree in range(e.n_trees):
            for parent, child in pairwise(oracle.path(e, tree, row)):
                out[e.feature[parent]] += node_value[child] - node_value[parent]
        return out


def mean_values(e, of=Decimal, number=Decimal):
    """Cover-weighted mean of the leaves below every node, or of their sizes; halves where no child has any cover."""
    out = [number(0)] * e.n_nodes
    with localcontext(Context(prec=DIGITS)):
        for node in reversed(range(e.n_nodes)):  # children have larger numbers
            if e.feature[node] < 0:
                out[node] = of(number(float(e.value[node, 0])))
            else:
                left, right = shares(e, node, number)
                out[node] = left * out[e.left[node]] + right * out[e.right[node]]
    return out


def shares(e, node, number):
    """Parts of a split's cover that go left and right."""
    left, right = (number(float(e.cover[child])) for child in (e.left[node], e.right[node]))
    total = left + right
    return (left / total, right / total) if total else (number(1) / 2, number(1) / 2)


def shapley(e, row, number=Decimal):
    """Shapley values of the game of path-dependent TreeSHAP: one number per column.

    Leaf by leaf. The game of a leaf is its value times, for every player on its path, 1 or 0 (whether the row satisfies
    the player's splits) if the player is in the coalition, and the product of its cover shares if not.
    """
    with localcontext(Context(prec=DIGITS)):
        out = [number(0)] * e.schema.n_columns
        for tree in range(e.n_trees):
            for value, players in _leaves(e, int(e.tree_start[tree]), row, {}, number):
                for j, (z, o) in players.items():
                    others = [pair for i, pair in players.items() if i != j]
                    out[j] += value * (o - z) * _mean_over_orders(others, number)
        return out


def _leaves(e, root, row, players, number):
    """Value and players, {column: (share, satisfied)}, of every leaf below a node. No recursion: chains are deep."""
    waiting = [(root, players)]
    while waiting:
        node, players = waiting.pop()
        if e.feature[node] < 0:
            yield number(float(e.value[node, 0])), players
            continue
        column = int(e.feature[node])
        left = oracle.goes_left(e, node, row[column])
        sides = (e.left[node], e.right[node]), shares(e, node, number), (left, not left)
        for child, share, goes in zip(*sides, strict=True):
            z, o = players.get(column, (number(1), True))
            waiting.append((int(child), {**players, column: (z * share, o and goes)}))


def _mean_over_orders(others, number):
    """Mean over all orders of the players of the product of 1 or 0 (those before) and of shares (those after)."""
    sums = [number(1)]  # by the size of the coalition: sums over all coalitions of that size
    for z, o in others:
        before = [number(0), *(sums if o else [number(0)] * len(sums))]
        sums = [without * z + with_it for without, with_it in zip([*sums, number(0)], before, strict=True)]
    n = len(others)
    return sum(a / (comb(n, size) * (n + 1)) for size, a in enumerate(sums))


# -- scores ----------------------------------------------------------------------------------------------------------
class Centred:
    """The centred score of squared error, its row shares, and the sums in the leaves; rows of weight 1."""

    def __init__(self, e, X, y):
        self.e, self.n_rows = e, len(X)
        self.paths = [[oracle.path(e, tree, row) for tree in range(e.n_trees)] for row in X]
        self.leaf_value = [Fraction(v) for v in e.value[:, 0].tolist()]
        self.residual = [
            self._residuals(Fraction(float(target)), way) for target, way in zip(y, self.paths, strict=True)
        ]
        n, zero = e.n_nodes, Fraction(0)
        self.count, self.value, self.push = [0] * n, [zero] * n, [zero] * n  # sums over the rows in a node
        for way, residual in zip(self.paths, self.residual, strict=True):
            for nodes, g in zip(way, residual, strict=True):
                for node in nodes:
                    self.count[node] += 1
                    self.value[node] += self.leaf_value[nodes[-1]]
                    self.push[node] += g
        reached = [max(count, 1) for count in self.count]
        self.mean = [total / count for total, count in zip(self.value, reached, strict=True)]
        self.mean_push = [total / count for total, count in zip(self.push, reached, strict=True)]

    def _residuals(self, target, way):
        """Target less the margin before every round."""
        at, out = Fraction(self.e.base_score[0]), []
        for nodes in way:
            out.append(target - at)
            at += self.leaf_value[nodes[-1]]
        return out

    def scores(self):
        """Sum over the splits of (c_l - c_r)(g_l - g_r) W_l W_r / W, per row: one number per column."""
        e, out = self.e, [Fraction(0)] * self.e.schema.n_columns
        for node in range(e.n_nodes):
            if e.feature[node] < 0 or not self.count[node]:
                continue
            left, right = int(e.left[node]), int(e.right[node])
            both = Fraction(self.count[left] * self.count[right], self.count[node])
            gain = (self.mean[left] - self.mean[right]) * (self.mean_push[left] - self.mean_push[right]) * both
            out[e.feature[node]] += gain / self.n_rows
        return out

    def shares(self, row):
        """(c' - c)(g - m) + (m' - m)(l - c') over a row's steps: one number per column."""
        out = [Fraction(0)] * self.e.schema.n_columns
        for nodes, g in zip(self.paths[row], self.residual[row], strict=True):
            leaf = self.leaf_value[nodes[-1]]
            for v, u in pairwise(nodes):
                first = (self.mean[u] - self.mean[v]) * (g - self.mean_push[v])
                out[self.e.feature[v]] += first + (self.mean_push[u] - self.mean_push[v]) * (leaf - self.mean[u])
        return out


# -- residuals -------------------------------------------------------------------------------------------------------
def probability(margin):
    """1 / (1 + e^-margin)."""
    with localcontext(Context(prec=DIGITS)):
        return 1 / (1 + (-Decimal(margin)).exp())


def exponential(margin):
    """e^margin."""
    with localcontext(Context(prec=DIGITS)):
        return Decimal(margin).exp()


def softmax(margins):
    """Probabilities of the classes."""
    with localcontext(Context(prec=DIGITS)):
        parts = [Decimal(float(m)).exp() for m in margins]
        return [part / sum(parts) for part in parts]
