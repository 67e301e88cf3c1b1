"""Settings of a latent model, searched with Optuna: bad trials end early, through the callbacks.

pip install robirank optuna
"""

import optuna

import robirank as rr

data = rr.make_interactions(600, 300, 12_000, random_state=0)
rest, test = rr.split_ratio(data, test=0.2, random_state=0)
train, valid = rr.split_ratio(rest, test=0.1, random_state=1)


def objective(trial: optuna.Trial) -> float:
    """The best validation NDCG@20 of a fit; an unpromising one is pruned."""
    model = rr.LatentRoBiRank(
        factors=trial.suggest_categorical("factors", [8, 16, 32]),
        regularization=trial.suggest_float("regularization", 0.05, 0.6, log=True),
        item_exponent=trial.suggest_float("item_exponent", 0.5, 1.0),
        random_state=0,
    )

    def report(epoch: rr.EpochReport) -> bool:
        if epoch.validation is not None:
            trial.report(epoch.validation, epoch.epoch)
        return epoch.validation is not None and trial.should_prune()  # True ends the fit

    model.fit(train, show_progress=False, validation=valid, callbacks=[report])
    if model.stopped_ == "by callback":
        raise optuna.TrialPruned
    return max(entry["ndcg@20"] for entry in model.history_ if "ndcg@20" in entry)


optuna.logging.set_verbosity(optuna.logging.WARNING)
# Short fits prefer too small a penalty: leave every trial some epochs before it is judged.
study = optuna.create_study(
    direction="maximize",
    sampler=optuna.samplers.TPESampler(seed=0),
    pruner=optuna.pruners.MedianPruner(n_warmup_steps=12),
)
study.optimize(objective, n_trials=12)
pruned = sum(trial.state == optuna.trial.TrialState.PRUNED for trial in study.trials)
print(f"best of {len(study.trials)} trials ({pruned} pruned): {study.best_params}")

best = rr.LatentRoBiRank(**study.best_params, random_state=0).fit(rest, show_progress=False)
plain = rr.LatentRoBiRank(factors=study.best_params["factors"], random_state=0)
plain.fit(rest, show_progress=False)
for name, model in (("Optuna", best), ("default", plain)):
    found = rr.evaluate(model, train=rest, test=test, k=20)
    print(f"{name:8s} test NDCG@20 {found['ndcg@20']:.4f}")
