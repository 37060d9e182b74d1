"""Direction of metrics that other programs name: right, or not known."""

import pytest

from phmrun.metric import find_direction

HIGHER = (
    "acc acc_norm exact_match,strict-match word_f1 mc2 pass@1 eval_accuracy eval_samples_per_second bleu chrF2++ COMET "
    "metrics/mAP50-95(B) metrics/recall(B) balanced_accuracy roc_auc r2 spearmanr mean_token_accuracy psnr accuracy "
    "neg_log_loss neg_mean_squared_error neg_brier_score bleu_diff loss-reduction wps tokens_per_second"
)
LOWER = (
    "loss eval_loss train_loss nll_loss evalLoss ppl valPPL perplexity word_perplexity bits_per_byte bpc BPB wer "
    "testWER test/bits_per_byte cer TER HTER uer DER EER train/box_loss speed/inference(ms) eval_runtime "
    "step_time seconds fid mean_squared_error rmse MAE mape log_loss hamming_loss davies_bouldin_score "
    "brier_score kl_divergence LPIPS minADE FPR95 ECE peak_memory gpu_bytes num_parameters error_rate top1_error "
    "accuracy-loss accuracy-drop xent Self-BLEU edit_distance cross_entropy time/step"
)
KNOWN = {"bleu": False, "accuracy": False, "loss": True, "perplexity": True, "bits_per_byte": True, "time/step": True}


@pytest.mark.parametrize(("names", "lower"), [(HIGHER, False), (LOWER, True)])
def test_names_of_other_programs_have_their_direction_or_none(names, lower):
    directions = {name: find_direction(name) for name in names.split()}
    assert {name: direction for name, direction in directions.items() if direction not in (lower, None)} == {}
    assert all(directions[name] is lower for name in KNOWN.keys() & directions.keys())
