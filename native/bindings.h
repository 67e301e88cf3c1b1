// Each function registers what its file offers.
#pragma once
#include <nanobind/nanobind.h>

void bind_instruction_sets(nanobind::module_& m);
void bind_list_batch(nanobind::module_& m);
void bind_listwise(nanobind::module_& m);
void bind_linear(nanobind::module_& m);
void bind_exact(nanobind::module_& m);
void bind_point_sums(nanobind::module_& m);
void bind_inner_sums(nanobind::module_& m);
void bind_topk(nanobind::module_& m);
void bind_choose_from_lists(nanobind::module_& m);
void bind_quadratic_forms(nanobind::module_& m);
void bind_task(nanobind::module_& m);
void bind_sgd(nanobind::module_& m);
void bind_interaction_scores(nanobind::module_& m);
void bind_letor(nanobind::module_& m);
void bind_letor_writer(nanobind::module_& m);
void bind_ranksvm(nanobind::module_& m);
void bind_rankboost(nanobind::module_& m);
void bind_list_metric(nanobind::module_& m);
void bind_group_interactions(nanobind::module_& m);
void bind_sample_rows(nanobind::module_& m);
void bind_sparse_matrix(nanobind::module_& m);
void bind_draw_lists(nanobind::module_& m);
