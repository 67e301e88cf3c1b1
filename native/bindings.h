// One function a concern: each registers what its file offers.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

void bind_instruction_sets(nanobind::module_& m);
void bind_listwise(nanobind::module_& m);
void bind_letor(nanobind::module_& m);
void bind_ranksvm(nanobind::module_& m);
void bind_rankboost(nanobind::module_& m);
void bind_ranking_measure(nanobind::module_& m);
void bind_exact(nanobind::module_& m);
void bind_topk(nanobind::module_& m);
void bind_points(nanobind::module_& m);
void bind_inner_sums(nanobind::module_& m);
void bind_interactions(nanobind::module_& m);
void bind_mixture(nanobind::module_& m);
void bind_sgd(nanobind::module_& m);
