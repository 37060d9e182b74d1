"""Record a small parser of tdozat/Parser-v2, transcribed equation by equation, since TensorFlow 1 no longer runs.

python tests/reference/make_parser_v2.py

Nothing is dropped, all sentences have the same length and every spelling is read by itself, so that padding, which the
original attends to in its softmax over heads and over characters, plays no part. Line numbers are of the commit below.
"""

import torch
from recording import Source, record
from torch import Tensor
from torch.nn import functional as F

SOURCE = Source(
    repository="https://github.com/tdozat/Parser-v2",
    commit="304c638aa780a5591648ef27060cfa7e4bee2bd0",
    license="Apache-2.0 (stated in the head of parser/neural/models/nn.py; the repository has no license file)",
    files=(
        "parser/neural/linalg.py",
        "parser/neural/functions.py",
        "parser/neural/rnn.py",
        "parser/neural/recur_cells/lstm_cell.py",
        "parser/neural/recur_cells/base_cell.py",
        "parser/vocabs/pretrained_vocab.py",
        "parser/neural/models/nn.py",
        "parser/neural/models/embeds/rnn_embed.py",
        "parser/neural/models/nlp/parsers/parser.py",
        "parser/neural/optimizers/base_optimizer.py",
        "parser/neural/optimizers/radam_optimizer.py",
    ),
    how="transcribed",
)
WORDS, TAGS, CHARACTERS, LABELS = 9, 6, 8, 4
WIDTH, LETTERS, HIDDEN, LAYERS, ARC, LABEL = 6, 4, 4, 2, 5, 3
PRETRAINED = 5
RATE, DECAY, EPSILON, CLIP = 0.002, 0.9, 1e-12, 0.01
"""Learning rate, mu = nu, and epsilon of config/defaults.cfg; a clip that is small enough to be reached."""

Weights = dict[str, Tensor]


def variables() -> Weights:
    """All variables, drawn at random."""
    torch.manual_seed(1)
    shapes = {
        "words": (WORDS, WIDTH),
        "tags": (TAGS, WIDTH),
        "chars": (CHARACTERS, LETTERS),
        "attention": (HIDDEN, 1),
        "char_map": (2 * HIDDEN, WIDTH),
        "char_map_bias": (WIDTH,),
        "mlp": (2 * HIDDEN, 2 * (ARC + LABEL)),
        "mlp_bias": (2 * (ARC + LABEL),),
        "arc": (ARC + 1, 1, ARC),
        "rel": (LABEL + 1, LABELS, LABEL + 1),
    }
    inputs = {
        "char": LETTERS,
        **{f"{way}{n}": 2 * (WIDTH if n == 0 else HIDDEN) for n in range(LAYERS) for way in "fb"},
    }
    for name, size in inputs.items():
        shapes |= {f"{name}/weights": (size + HIDDEN, 4 * HIDDEN), f"{name}/biases": (4 * HIDDEN,)}
        shapes[f"{name}/zero_state"] = (2 * HIDDEN,)
    shapes |= {"pretrained": (WORDS, PRETRAINED), "linear": (PRETRAINED, WIDTH), "linear_bias": (WIDTH,)}
    return {name: torch.randn(shape, dtype=torch.float64).mul(0.5).requires_grad_() for name, shape in shapes.items()}


def rnn(weights: Weights, name: str, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs ``[batch, length, hidden]`` and the last state; ``neural/rnn.py:46-142``."""
    state = weights[f"{name}/zero_state"].expand(len(inputs), -1)  # base_cell.py:50-54
    messages = []
    for step in inputs.unbind(1):
        cell, hidden = state.chunk(2, dim=1)  # lstm_cell.py:37
        both = torch.cat([step, hidden], dim=1) @ weights[f"{name}/weights"] + weights[f"{name}/biases"]  # linalg.py:81
        cell_act, input_act, forget_act, output_act = both.chunk(4, dim=1)  # lstm_cell.py:44
        gates = [
            torch.sigmoid(2 * act) for act in (input_act, forget_act, output_act)
        ]  # functions.py:16, forget_bias 0
        cell = gates[0] * torch.tanh(cell_act) + (1 - gates[1]) * cell  # lstm_cell.py:50
        hidden = torch.tanh(cell) * gates[2]  # lstm_cell.py:51-52
        state = torch.cat([cell, hidden], dim=1)  # lstm_cell.py:54
        messages.append(hidden)
    return torch.stack(messages, dim=1), state


def scores(weights: Weights, words: Tensor, tags: Tensor, spellings: list[list[list[int]]]) -> tuple[Tensor, Tensor]:
    """Logits of arcs ``[batch, length, length]`` and of labels ``[batch, length, labels, length]``; parser.py:35-67."""
    spelt = torch.stack([torch.stack([read_characters(weights, word) for word in line]) for line in spellings])
    pretrained = weights["pretrained"][words] @ weights["linear"] + weights["linear_bias"]  # pretrained_vocab.py:61
    summed = weights["words"][words] + pretrained + spelt  # multivocab.py:58
    vectors = torch.cat([summed, weights["tags"][tags]], dim=2)  # nn.py:86
    for layer in range(LAYERS):
        forwards, _ = rnn(weights, f"f{layer}", vectors)
        backwards, _ = rnn(weights, f"b{layer}", vectors.flip(1))  # rnn.py:36-41
        vectors = torch.cat([forwards, backwards.flip(1)], dim=2)
    mlp = vectors @ weights["mlp"] + weights["mlp_bias"]  # parser.py:39, nn.py:178
    mlp = torch.maximum(0.1 * mlp, mlp)  # functions.py:44
    dependent, head = mlp.chunk(2, dim=2)
    arc_dependent, rel_dependent = dependent.split([ARC, LABEL], dim=2)  # parser.py:41-42
    arc_head, rel_head = head.split([ARC, LABEL], dim=2)
    arcs = torch.einsum("bnx,xry,bmy->bnrm", one(arc_dependent), weights["arc"], arc_head).squeeze(2)  # parser.py:46
    labels = torch.einsum("bnx,xry,bmy->bnrm", one(rel_dependent), weights["rel"], one(rel_head))  # parser.py:60
    return arcs, labels


def read_characters(weights: Weights, word: list[int]) -> Tensor:
    """The vector of a spelling; ``rnn_embed.py:33-53``."""
    recur, state = rnn(weights, "char", weights["chars"][torch.tensor([word])])
    state = state.chunk(2, dim=1)[0]  # rnn_embed.py:47: the first half of the state is the cell
    attention = (recur @ weights["attention"]).squeeze(2).softmax(dim=1)  # nn.py:255-257
    attended = (recur.transpose(1, 2) @ attention.unsqueeze(2)).squeeze(2)
    return (torch.cat([attended, state], dim=1) @ weights["char_map"] + weights["char_map_bias"])[0]  # rnn_embed.py:52


def one(vectors: Tensor) -> Tensor:
    """With a 1 behind; ``linalg.py:117-126``."""
    return torch.cat([vectors, torch.ones_like(vectors[..., :1])], dim=-1)


def orthogonality(weights: Weights) -> Tensor:
    """Loss of the map of pretrained vectors; pretrained_vocab.py:65."""
    matrix = weights["linear"]
    return ((matrix.t() @ matrix - torch.eye(WIDTH)) ** 2).sum() / 2


def loss_of(arcs: Tensor, labels: Tensor, heads: Tensor, wanted: Tensor) -> Tensor:
    """Mean over the words, the root left out; parser.py:56 and 78."""
    chosen = labels.gather(3, heads[:, :, None, None].expand(-1, -1, LABELS, 1)).squeeze(3)
    arc_loss = F.cross_entropy(arcs[:, 1:].flatten(0, 1), heads[:, 1:].flatten())
    return arc_loss + F.cross_entropy(chosen[:, 1:].flatten(0, 1), wanted[:, 1:].flatten())


def update(weights: Weights, state: dict[str, list[Tensor]], rows: dict[str, Tensor]) -> None:
    """Optimizer step of ``radam_optimizer.py:51-107`` with ``base_optimizer.py:161-193`` and the clip of line 201."""
    steps = {}
    for name, value in weights.items():
        at = rows.get(name, torch.arange(len(value)))
        gradient = value.grad[at]
        mean, square, count = state.setdefault(
            name, [torch.zeros_like(value), torch.zeros_like(value), torch.zeros(len(value), *[1] * (value.dim() - 1))]
        )
        before, after = count[at], count[at] + 1
        kept = DECAY * (1 - DECAY**before) / (1 - DECAY**after)  # base_optimizer.py:168 and 188
        mean[at] = kept * mean[at] + (1 - kept) * gradient
        square[at] = kept * square[at] + (1 - kept) * gradient**2
        count[at] = after
        steps[name] = RATE * mean[at] / torch.sqrt(square[at] + EPSILON)  # radam_optimizer.py:73 and 102
    norm = torch.sqrt(sum((step**2).sum() for step in steps.values()))
    with torch.no_grad():
        for name, step in steps.items():
            at = rows.get(name, torch.arange(len(weights[name])))
            weights[name][at] -= step * min(1.0, CLIP / float(norm))


def ours(weights: Weights) -> Weights:
    """The variables under our names; what is kept of c is 1 - σ(2z) = σ(2·(-z)), so that signs turn."""
    named = {
        "embedding.structure.matrix": weights["words"],
        "tags.structure.matrix": weights["tags"],
        "letters.structure.matrix": weights["chars"],
        "letter_attention.structure.matrix": weights["attention"].t(),
        "letter_map.structure.matrix": weights["char_map"].t(),
        "letter_map.bias": weights["char_map_bias"],
        "fixed_map.structure.matrix": weights["linear"].t(),
        "fixed_map.bias": weights["linear_bias"],
        "arc_classifier.maps.0.matrix": weights["arc"][:ARC, 0],
        "arc_classifier.v": weights["arc"][ARC],
        "label_classifier.u": weights["rel"][:LABEL, :, LABEL].t(),
        "label_classifier.v": weights["rel"][LABEL, :, :LABEL],
        "label_classifier.c": weights["rel"][LABEL, :, LABEL],
    }
    named |= {f"label_classifier.maps.{n}.matrix": weights["rel"][:LABEL, n, :LABEL] for n in range(LABELS)}
    for side, columns in enumerate(weights["mlp"].t().split(ARC + LABEL)):
        bias = weights["mlp_bias"].split(ARC + LABEL)[side]
        named |= {f"arc_mlp.{side}.structure.matrix": columns[:ARC], f"arc_mlp.{side}.bias": bias[:ARC]}
        named |= {f"label_mlp.{side}.structure.matrix": columns[ARC:], f"label_mlp.{side}.bias": bias[ARC:]}
    cells = {
        "char": "letter_lstm.cells.0",
        **{f"{way}{n}": f"lstm.cells.{2 * n + int(way == 'b')}" for n in range(LAYERS) for way in "fb"},
    }
    for theirs, name in cells.items():
        cell, i, f, o = weights[f"{theirs}/weights"].t().split(HIDDEN)
        rows = [i, -f, cell, o]
        named |= {f"{name}.input.{n}.matrix": part[:, :-HIDDEN] for n, part in enumerate(rows)}
        named |= {f"{name}.recurrent.{n}.matrix": part[:, -HIDDEN:] for n, part in enumerate(rows)}
        cell, i, f, o = weights[f"{theirs}/biases"].split(HIDDEN)
        named[f"{name}.bias"] = torch.cat([i, -f, cell, o])[None]
        named[f"{name}.state"] = weights[f"{theirs}/zero_state"].view(2, HIDDEN).flip(0)
    return {name: value.detach().clone().contiguous() for name, value in named.items()}


def main() -> None:
    """Scores and gradient of a batch, and the weights after a step on it and another on a second one."""
    torch.set_default_dtype(torch.float64)
    weights, state = variables(), {}
    numbers = {f"before/{name}": value for name, value in ours(weights).items()}
    numbers["before/fixed"] = weights["pretrained"]
    learned = {name: value for name, value in weights.items() if name != "pretrained"}  # pretrained_vocab.py:76
    spelled = [[[3], [4, 5, 6], [7, 3], [4, 5, 6]], [[3], [5, 7], [6, 6, 4, 7], [7]]]
    batches = [(torch.tensor([[3, 4, 5, 6], [3, 7, 5, 4]]), torch.tensor([[3, 4, 5, 4], [3, 5, 4, 5]]), spelled)]
    batches.append((torch.tensor([[3, 8, 4, 4]]), torch.tensor([[3, 4, 4, 4]]), [[[3], [5, 5], [4, 3], [4, 3]]]))
    heads = [torch.tensor([[0, 2, 0, 1], [0, 0, 3, 1]]), torch.tensor([[0, 0, 1, 1]])]
    labels = [torch.tensor([[0, 1, 2, 3], [0, 3, 2, 1]]), torch.tensor([[0, 2, 0, 1]])]
    for number, (words, tags, spellings) in enumerate(batches):
        for value in weights.values():
            value.grad = None
        arcs, rels = scores(weights, words, tags, spellings)
        loss = loss_of(arcs, rels, heads[number], labels[number]) + orthogonality(weights)
        loss.backward()
        if number == 0:
            numbers |= {"arcs": arcs, "labels": rels, "loss": loss}
            numbers |= {f"gradient/{k}": v for k, v in ours({k: v.grad for k, v in weights.items()}).items()}
        read = sorted({character for line in spellings for word in line for character in word})
        update(learned, state, {"words": words.unique(), "tags": tags.unique(), "chars": torch.tensor(read)})
        numbers |= {f"after{number + 1}/{name}": value for name, value in ours(weights).items()}
        numbers |= {f"batch{number}/words": words, f"batch{number}/tags": tags, f"batch{number}/heads": heads[number]}
        numbers[f"batch{number}/labels"] = labels[number]
        longest = max(len(word) for line in spellings for word in line)
        padded = [[word + [0] * (longest - len(word)) for word in line] for line in spellings]
        numbers[f"batch{number}/spellings"] = torch.tensor(padded)
    record("parser-v2", SOURCE, numbers)


if __name__ == "__main__":
    main()
