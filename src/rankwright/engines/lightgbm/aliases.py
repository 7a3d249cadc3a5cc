"""Aliases of LightGBM's parameters, for example the names of its scikit-learn classes, and why some are refused."""

from __future__ import annotations

# Aliases of the parameters that the estimator sets or that engine_params may have.
_ALIASES = {
    "bagging_fraction": "bagging sub_row subsample",
    "bagging_freq": "subsample_freq",
    "bagging_seed": "bagging_fraction_seed",
    "bin_construct_sample_cnt": "subsample_for_bin",
    "categorical_feature": "cat_column cat_feature categorical_column categorical_features",
    "data_random_seed": "data_seed",
    "early_stopping_round": "early_stopping early_stopping_rounds n_iter_no_change",
    "enable_bundle": "bundle is_enable_bundle",
    "extra_trees": "extra_tree",
    "feature_contri": "fc feature_contrib feature_penalty fp",
    "feature_fraction": "colsample_bytree sub_feature",
    "feature_fraction_bynode": "colsample_bynode sub_feature_bynode",
    "forcedsplits_filename": "forced_splits forced_splits_file forced_splits_filename fs",
    "histogram_pool_size": "hist_pool_size",
    "is_enable_sparse": "enable_sparse is_sparse sparse",
    "lambda_l1": "l1_regularization reg_alpha",
    "lambda_l2": "l2_regularization lambda reg_lambda",
    "learning_rate": "eta shrinkage_rate",
    "max_bin": "max_bins",
    "max_delta_step": "max_leaf_output max_tree_output",
    "metric": "metric_types metrics",
    "min_data_in_leaf": "min_child_samples min_data min_data_per_leaf min_samples_leaf",
    "min_gain_to_split": "min_split_gain",
    "min_sum_hessian_in_leaf": "min_child_weight min_hessian min_sum_hessian min_sum_hessian_per_leaf",
    "monotone_constraints": "mc monotone_constraint monotonic_cst",
    "monotone_constraints_method": "mc_method monotone_constraining_method",
    "monotone_penalty": "mc_penalty monotone_splits_penalty ms_penalty",
    "num_iterations": (
        "max_iter n_estimators n_iter nrounds num_boost_round num_iteration num_round num_rounds num_tree num_trees"
    ),
    "num_leaves": "max_leaf max_leaf_nodes max_leaves num_leaf",
    "num_threads": "n_jobs nthread nthreads num_thread",
    "objective": "app application loss objective_type",
    "seed": "random_seed random_state",
    "verbosity": "verbose",
}
MAIN_NAMES = {alias: name for name, aliases in _ALIASES.items() for alias in aliases.split()}

# Parameters that people know from LightGBM, and why they cannot be used.
_REASONS = {
    "boosting boosting_type boost data_sample_strategy top_rate other_rate drop_rate rate_drop "
    "max_drop skip_drop uniform_drop pos_bagging_fraction neg_bagging_fraction": (
        "the boosting is rankwright's own; for samples use subsample=, subsample_queries= or "
        "bagging_temperature= of the estimator"
    ),
    "linear_tree linear_trees linear_lambda": "trees have constant leaves",
    "device device_type gpu_device_id gpu_platform_id gpu_use_dp num_gpu tree_learner "
    "num_machines num_machine machines": "trees are grown on the processor by this process",
    "lambdarank_truncation_level lambdarank_norm lambdarank_position_bias_regularization "
    "sigmoid scale_pos_weight is_unbalance class_weight": (
        "gradients come from the estimator's objective=, which has options of its own"
    ),
    "label_gain": (
        "labels and their gains belong to the metric, such as metric='ndcg(gain=linear)@10'"
    ),
    "eval_at ndcg_at ndcg_eval_at map_at": "cutoffs belong to metric=, such as 'ndcg@10'",
    "use_quantized_grad num_grad_quant_bins": "gradients are rounded to an exact grid already",
    "deterministic force_row_wise force_col_wise": "the same seed gives the same model without it",
    "cegb_penalty_feature_lazy cegb_penalty_feature_coupled": (
        "it looks back at earlier trees, which a resumed training does not have"
    ),
    "importance_type": "feature_importances_ are shares of the total gain",
}
REFUSED = {name: reason for names, reason in _REASONS.items() for name in names.split()}
