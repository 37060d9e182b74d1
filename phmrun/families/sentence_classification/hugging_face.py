"""Classifiers of Hugging Face's transformers as networks of the tasks that classify sentences."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from phmrun.layers.network import Structures
from phmrun.models.hugging_face import HuggingFaceNetwork, fresh_settings
from phmrun.models.model_folder import folder_tokenizer, read_settings
from phmrun.models.sentences import Sentences
from phmrun.text.tokenizer import Joining
from phmrun.text.vocabulary import BOS, EOS, PAD

WORDS = Joining(((BOS,), (EOS,), (EOS,)), 1, PAD)
"""Joining of sentences of words, for networks with fresh weights."""


class HuggingFaceClassifier(HuggingFaceNetwork):
    """Network of transformers that reads a sentence or a pair, as its tokenizer joins them, and predicts a class.

    Args:
        options: Section of the configuration, with the folder or the sizes of the network.
        sizes: Entries of the vocabulary, and names of the classes.
        structures: Options of ``layer``, the maps of the blocks; of ``embedding``; of ``output``, the classifier.
        sentences: Sentences per item, 1 or 2.

    Raises:
        PhmrunError: The folder cannot be read, or sizes and structures do not match.
    """

    def __init__(self, options: Any, sizes: Any, structures: Structures, *, sentences: int) -> None:
        words, labels = sizes
        if options.path is None:
            shape = (options.width, options.feedforward, options.layers, options.heads)
            settings = fresh_settings(options.family, words, shape, dropout=options.dropout)
            joining = WORDS
        else:
            settings = read_settings(options.path, options.path_dropout)
            tokenizer = folder_tokenizer(options.path, words)
            if settings.pad_token_id in range(words):  # positions of RoBERTa and its kin begin behind this one
                tokenizer.roles.setdefault("pad", settings.pad_token_id)
            joining = tokenizer.joining(sentences)
        settings.id2label = dict(enumerate(labels))
        settings.label2id = {label: number for number, label in settings.id2label.items()}
        settings.pad_token_id = joining.pad
        super().__init__(settings, structures, options.only, options.path, "SequenceClassification")
        self.around, self.kind, self.pad = joining
        self.has_kinds = joining.kind < getattr(settings, "type_vocab_size", 0)
        self.longest = (self.positions - sum(map(len, self.around[: sentences + 1]))) // sentences

    def forward(self, *sentences: Sentences) -> Tensor:
        """Return the logits of the classes, ``[batch, classes]``.

        Of a sentence, at most its share of the network's positions is read, from its beginning.
        """
        tokens, lengths, second = self.joined(sentences)
        place = torch.arange(tokens.shape[1], device=tokens.device)
        inside = place < lengths[:, None]
        kinds = {"token_type_ids": self.kind * (inside & (place >= second[:, None])).long()} if self.has_kinds else {}
        logits: Tensor = self.model(input_ids=tokens, attention_mask=inside.long(), **kinds).logits
        return logits

    def joined(self, sentences: Sequence[Sentences]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the inputs ``[batch, length]``, their lengths ``[batch]``, and where the second sentence begins.

        Sentences end with an end token, which is replaced by the tokens of the joining. If there are none, an
        empty one keeps its end token.
        """
        device = sentences[0].tokens.device
        around = [torch.tensor(tokens, dtype=torch.long, device=device) for tokens in self.around]
        least = int(not any(self.around))
        counts = [(part.lengths - 1).clamp(least, self.longest) for part in sentences]
        rows = []
        # One wait for a GPU, not one for each sentence.
        for row, kept in enumerate(torch.stack(counts, dim=1).tolist()):
            pieces = [around[0]]
            for part, count, behind in zip(sentences, kept, around[1:], strict=False):
                pieces += [part.tokens[row, :count], behind]
            rows.append(torch.cat(pieces))
        lengths = torch.tensor([len(row) for row in rows], device=device)
        second = counts[0] + len(around[0]) + len(around[1]) if len(counts) > 1 else lengths
        return pad_sequence(rows, batch_first=True, padding_value=self.pad), lengths, second
