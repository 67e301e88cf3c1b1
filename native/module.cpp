// The native core: the list of what it offers.
#include "bindings.h"

NB_MODULE(_core, m) {
  nanobind::set_leak_warnings(false);  // what a program still holds when it ends is no leak
  m.doc() = "The native core of robirank.";
  bind_instruction_sets(m);
  bind_list_batch(m);
  bind_listwise(m);
  bind_linear(m);
  bind_exact(m);
  bind_point_sums(m);
  bind_inner_sums(m);
  bind_topk(m);
  bind_choose_from_lists(m);
  bind_quadratic_forms(m);
  bind_task(m);
  bind_sgd(m);
  bind_interaction_scores(m);
  bind_letor(m);
  bind_letor_writer(m);
  bind_ranksvm(m);
  bind_rankboost(m);
  bind_list_metric(m);
  bind_group_interactions(m);
  bind_sample_rows(m);
  bind_sparse_matrix(m);
  bind_draw_lists(m);
}
