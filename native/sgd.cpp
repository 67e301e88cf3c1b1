// Tasks of the stratified algorithm for Python: sampled updates of RoBiRank and of WARP.
//
// The interactions of the part that lie in the block are sorted by cell (a few items whose rows
// stay in the cache); then the kernel walks cell after cell. A task is a pure function of its
// arguments.
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "checks.h"
#include "kernels/kernels.h"
#include "task.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

// Settings of RoBiRank's updates.
struct SgdSteps {
  SgdSteps(int factors, int negatives, float rate_u, float rate_v, int64_t cell_items)
      : factors(factors),
        negatives(negatives),
        rate_u(rate_u),
        rate_v(rate_v),
        cell_items(cell_items) {
    check_between("factors", factors, 1, kMaxWidth);
    check_between("negatives", negatives, 1, kMaxNegatives);
    check_between("cell_items", cell_items, 2, kMaxCell);
  }
  int factors, negatives;
  float rate_u, rate_v;
  int64_t cell_items;
};

// Settings of WARP's updates; weight_after[n] is Φ(rank) where the n-th trial found a violator.
struct WarpSteps {
  WarpSteps(int factors, Vector<float> weight_after, float margin, float rate_u, float rate_v,
            int64_t cell_items)
      : factors(factors),
        weight_after(weight_after),
        margin(margin),
        rate_u(rate_u),
        rate_v(rate_v),
        cell_items(cell_items) {
    check_between("factors", factors, 1, kMaxWidth);
    check_between("the length of weight_after", weight_after.shape(0), 2, kMaxTrials + 1);
    check_between("cell_items", cell_items, 2, kMaxCell);
  }
  int factors;
  Vector<float> weight_after;
  float margin, rate_u, rate_v;
  int64_t cell_items;
};

// Half of an interaction's draws are uniform, half are taken from a table in which an item occurs
// in proportion to its popularity. The number of its entries is known, hence so is the expected
// number of its draws, and dividing by it keeps the estimate unbiased.
class Proposal {
 public:
  Proposal(const float* popularity, int64_t n, int uniform, int popular)
      : table(allocate<uint16_t>(n)), inverse(allocate<float>(n)) {
    double total = 0.0;
    for (int64_t j = 0; j < n; ++j) total += popularity[j];
    const bool flat = !(total > 0.0);  // nobody has any of these items
    const double share = flat ? 1.0 : total / static_cast<double>(n);
    std::vector<int64_t> entries(n, 0);
    int64_t item = 0;
    double reached = flat ? 1.0 : popularity[0];
    for (int64_t e = 0; e < n; ++e) {
      const double target = (static_cast<double>(e) + 0.5) * share;
      while (reached < target && item + 1 < n) {
        ++item;
        reached += flat ? 1.0 : popularity[item];
      }
      table[e] = static_cast<uint16_t>(item);
      ++entries[item];
    }
    for (int64_t j = 0; j < n; ++j)
      inverse[j] = static_cast<float>(static_cast<double>(n) /
                                      (uniform + static_cast<double>(popular) * entries[j]));
  }

  std::unique_ptr<uint16_t[]> table;
  std::unique_ptr<float[]> inverse;
};

// (sampled items, loss, interactions whose step was left out because it was not finite)
using TaskReport = std::tuple<int64_t, double, int64_t>;

// Calls update(cell, its first item's place in the block) for every cell that has interactions and
// adds up the reports.
template <class Update>
TaskReport for_each_cell(const FactorRows& users, const FactorRows& items,
                         const UserItems& user_items, const Block& block, uint64_t key,
                         Update update) {
  nb::gil_scoped_release released;
  const SortedInteractions sorted(user_items, block);
  CellReport total = {0, 0, 0.0};
  for (int64_t c = 0; c < block.cells(); ++c) {
    Cell cell = sorted.cell(c, block, users, items, key);
    if (cell.items < 2 || cell.interactions == 0) continue;
    const CellReport report = update(cell, block.begin(c));
    total.draws += report.draws;
    total.not_finite += report.not_finite;
    total.loss += report.loss;
  }
  return {total.draws, total.loss, total.not_finite};
}

TaskReport sgd_task(const FactorRows& users, const FactorRows& items, const UserItems& user_items,
                    Vector<float> popularity, Vector<int32_t> position, int64_t first,
                    const SgdSteps& steps, uint64_t key) {
  check_task(users, items, user_items, position);
  check_between("factors", steps.factors, 1, users.width());
  check_length("popularity", popularity.shape(0), items.n());
  const Block block(position, first, items.n(), steps.cell_items);
  const int uniform = (steps.negatives + 1) / 2;
  return for_each_cell(users, items, user_items, block, key, [&](Cell& cell, int64_t begin) {
    const Proposal proposal(popularity.data() + begin, cell.items, uniform,
                            steps.negatives - uniform);
    cell.table = proposal.table.get();
    cell.inverse = proposal.inverse.get();
    const float scale = static_cast<float>(static_cast<double>(user_items.n_items() - 1) /
                                           static_cast<double>(cell.items - 1));
    const RobirankRule rule = {
        steps.rate_u, steps.rate_v,    1.0f / static_cast<float>(steps.factors),
        scale,        steps.negatives, uniform};
    return kernels().sgd.robirank(cell, rule);
  });
}

TaskReport warp_task(const FactorRows& users, const FactorRows& items, const UserItems& user_items,
                     Vector<int32_t> position, int64_t first, const WarpSteps& steps,
                     uint64_t key) {
  check_task(users, items, user_items, position);
  check_between("factors", steps.factors, 1, users.width());
  const Block block(position, first, items.n(), steps.cell_items);
  const WarpRule rule = {steps.rate_u,
                         steps.rate_v,
                         1.0f / static_cast<float>(steps.factors),
                         steps.margin,
                         static_cast<int>(steps.weight_after.shape(0)) - 1,
                         steps.weight_after.data()};
  return for_each_cell(users, items, user_items, block, key,
                       [&](const Cell& cell, int64_t) { return kernels().sgd.warp(cell, rule); });
}

// The random numbers of one interaction: what a reference implementation needs to take the same
// steps.
Result<uint32_t> sgd_draws(uint64_t key, int64_t cell, int64_t interaction, int n, uint32_t bound) {
  check_between("n", n, 0, kMaxNegatives);
  auto drawn = allocate<uint32_t>(n);
  kernels().sgd.draw(cell_key(key, cell), interaction, 0, n, bound, drawn.get());
  return hand_over(std::move(drawn), n);
}

}  // namespace

void bind_sgd(nb::module_& m) {
  nb::class_<SgdSteps>(m, "SgdSteps", "Settings of the sampled updates of RoBiRank.")
      .def(nb::init<int, int, float, float, int64_t>(), nb::kw_only(), nb::arg("factors"),
           nb::arg("negatives"), nb::arg("rate_u"), nb::arg("rate_v"), nb::arg("cell_items"));
  nb::class_<WarpSteps>(
      m, "WarpSteps",
      "Settings of the sampled updates of WARP; weight_after[n] is the weight of a violator that "
      "the n-th trial found.")
      .def(nb::init<int, Vector<float>, float, float, float, int64_t>(), nb::kw_only(),
           nb::arg("factors"), nb::arg("weight_after"), nb::arg("margin"), nb::arg("rate_u"),
           nb::arg("rate_v"), nb::arg("cell_items"));
  m.def(
      "sgd_task", &sgd_task, nb::kw_only(), nb::arg("users"), nb::arg("items"),
      nb::arg("user_items"), nb::arg("popularity"), nb::arg("position"), nb::arg("first"),
      nb::arg("steps"), nb::arg("key"),
      "Visit once every interaction whose item lies in the block (RoBiRank): (sampled items, loss, "
      "interactions left out because their step was not finite).");
  m.def("warp_task", &warp_task, nb::kw_only(), nb::arg("users"), nb::arg("items"),
        nb::arg("user_items"), nb::arg("position"), nb::arg("first"), nb::arg("steps"),
        nb::arg("key"), "The same for WARP.");
  m.def("sgd_draws", &sgd_draws, nb::kw_only(), nb::arg("key"), nb::arg("cell"),
        nb::arg("interaction"), nb::arg("n"), nb::arg("bound"),
        "The random numbers of an interaction in a cell of a task, each below bound.");
}
