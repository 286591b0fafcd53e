"""Train models of four widths, each with as many operations as the others.

Small models read many openings, large ones few: parameters × steps is the same for all.
Models, data, training and losses are those of `nb17_scaling.py`.

`make record NB=17` runs every point and writes `nb17_optimum.json`.
"""

from course_utils.records import load_script

scaling = load_script("nb17_scaling")

# Of each width; parameters × steps is nearly equal.
STEPS = {8: 2317, 16: 800, 32: 247, 64: 70}
# Of each width; the best one stands between two others.
RATES = {
    8: (0.01, 0.02, 0.04, 0.08),
    16: (0.01, 0.02, 0.04),
    32: (0.02, 0.04, 0.08),
    64: (0.02, 0.04, 0.08),
}
SEEDS = (0, 1, 2, 3, 4)
POINTS = [
    {"width": width, "rate": rate, "seed": seed}
    for width in STEPS
    for rate in RATES[width]
    for seed in SEEDS
]


def run(width, rate, seed):
    """Train one model; its loss in nats per word on two held-out splits."""
    return scaling.run(width, STEPS[width], rate, seed)
