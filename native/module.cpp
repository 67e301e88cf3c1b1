// The native core: nothing here but the list of what it offers.
#include "bindings.h"

NB_MODULE(_core, m) {
  m.doc() = "The native core of robirank.";
  bind_instruction_sets(m);
  bind_listwise(m);
  bind_letor(m);
  bind_ranksvm(m);
  bind_rankboost(m);
  bind_ranking_measure(m);
  bind_exact(m);
  bind_topk(m);
  bind_points(m);
  bind_inner_sums(m);
  bind_interactions(m);
  bind_mixture(m);
  bind_sgd(m);
}
