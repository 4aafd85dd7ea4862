"""Results of torch's AdamW: twenty steps with a schedule and clipping. Importing torch takes 10 s and 1 GB.

python -m tests.training.optimizers.adamw_of_torch: writes them to `adamw_of_torch.json`, for the quick tests.
"""

import json
import pathlib

import numpy as np

from bert_keras.training import WarmupDecay

RECORD = pathlib.Path(__file__).with_suffix(".json")
NUM_STEPS = 20
SHAPES = {"kernel": (7, 5), "embeddings": (11, 3), "bias": (5,), "gamma": (3,), "beta": (3,)}
DECAYED = ("kernel", "embeddings")
NUMBERS = {"beta_1": 0.87, "beta_2": 0.97, "epsilon": 1e-12, "weight_decay": 0.13}  # torch adds epsilon elsewhere
RATE, WARMUP_STEPS, CLIP_NORM = 0.05, 4, 0.7
FACTORS = {"alike": None, "by depth": (0.5, 0.81, 1.0, 0.25, 0.3)}  # of the rates of the variables in SHAPES


def draw() -> tuple[dict, list[dict]]:
    """Draw weights and twenty gradients, keyed by name."""
    rng = np.random.default_rng(3)
    weights = {name: rng.normal(0, 0.5, shape) for name, shape in SHAPES.items()}
    gradients = [{name: rng.normal(0, 1.0, shape) for name, shape in SHAPES.items()} for _ in range(NUM_STEPS)]
    return weights, gradients


def weights_of_torch(factors) -> dict[str, np.ndarray]:
    """Train with a parameter group for each variable."""
    import torch

    weights, gradients = draw()
    parameters = {name: torch.nn.Parameter(torch.tensor(value, dtype=torch.float32)) for name, value in weights.items()}
    groups = [
        {"params": [parameters[name]], "weight_decay": NUMBERS["weight_decay"] if name in DECAYED else 0.0}
        for name in SHAPES
    ]
    betas = NUMBERS["beta_1"], NUMBERS["beta_2"]
    optimizer = torch.optim.AdamW(groups, betas=betas, eps=NUMBERS["epsilon"])
    schedule = WarmupDecay("linear", RATE, NUM_STEPS, WARMUP_STEPS)
    for number, step in enumerate(gradients):
        for name, parameter in parameters.items():
            parameter.grad = torch.tensor(step[name], dtype=torch.float32)
        torch.nn.utils.clip_grad_norm_(parameters.values(), CLIP_NORM)
        for group, factor in zip(optimizer.param_groups, factors or [1.0] * len(groups), strict=True):
            group["lr"] = float(schedule(number)) * factor
        optimizer.step()
    return {name: parameter.detach().numpy() for name, parameter in parameters.items()}


def main() -> None:
    """Write the results to the file."""
    weights = {kind: weights_of_torch(factors) for kind, factors in FACTORS.items()}
    lists = {kind: {name: value.tolist() for name, value in one.items()} for kind, one in weights.items()}
    RECORD.write_text(json.dumps(lists))


if __name__ == "__main__":
    main()
