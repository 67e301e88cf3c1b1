// Tasks of the stratified algorithm for Python: one part of the users on one block of the items.
//
// The records of the part that lie in the block are sorted by cell (a few items whose rows stay in
// the cache); then the kernel walks cell after cell. A task is a pure function of its arguments.
#include <nanobind/stl/optional.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "kernels/kernels.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

template <class T>
using Writable = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Factors = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

uint64_t splitmix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// ---------------------------------------------------------------------------------- records

// The records of a part of the users: user x has items[indptr[x] : indptr[x + 1]].
struct PartRecords {
  const int64_t* indptr;
  const int32_t* items;
  int64_t n_users;
};

PartRecords check_records(const Vector<int64_t>& indptr, const Vector<int32_t>& items) {
  const int64_t n = static_cast<int64_t>(indptr.shape(0)) - 1;
  if (n < 0 || indptr.data()[0] != 0 || indptr.data()[n] != static_cast<int64_t>(items.shape(0)))
    throw std::invalid_argument("indptr must run from 0 to the number of records");
  return {indptr.data(), items.data(), n};
}

// Items first : first + items of the epoch's order, cut into cells of about `cell` items: no more,
// unless that would leave an item alone.
struct Block {
  const int32_t* position;  // of every item in the epoch's order
  int64_t n_items;
  int64_t first;
  int64_t items;
  int64_t cell;

  int64_t cells() const {
    return std::max<int64_t>(1, std::min((items + cell - 1) / cell, items / 2));
  }
  int64_t begin(int64_t c) const { return items * c / cells(); }
};

Block check_block(const Vector<int32_t>& position, int64_t first, int64_t items, int64_t cell) {
  const int64_t n = position.shape(0);
  if (first < 0 || first + items > n)
    throw std::invalid_argument("the block must lie within the items");
  if (cell < 2 || cell > kMaxCell)
    throw std::invalid_argument("cell must be between 2 and " + std::to_string(kMaxCell));
  return {position.data(), n, first, items, cell};
}

// Calls see(record, user, place in the block) for the records of the part that lie in the block.
template <class See>
void visit(const PartRecords& records, const Block& block, See see) {
  const uint32_t first = static_cast<uint32_t>(block.first);
  const uint32_t items = static_cast<uint32_t>(block.items);
  for (int64_t x = 0; x < records.n_users; ++x)
    for (int64_t r = records.indptr[x]; r < records.indptr[x + 1]; ++r) {
      const uint32_t place = static_cast<uint32_t>(block.position[records.items[r]]) - first;
      if (place < items) see(r, static_cast<int32_t>(x), place);
    }
}

// The records of a task, cell by cell, in the order of the users within a cell.
class SortedRecords {
 public:
  SortedRecords(const PartRecords& records, const Block& block, const float* slope) {
    std::vector<int32_t> cell_of(block.items);
    for (int64_t c = 0; c < block.cells(); ++c)
      std::fill(cell_of.begin() + block.begin(c), cell_of.begin() + block.begin(c + 1), c);
    std::vector<Found> found;
    found.reserve(records.indptr[records.n_users] * block.items / block.n_items * 9 / 8);
    starts.assign(block.cells() + 1, 0);
    visit(records, block, [&](int64_t r, int32_t x, uint32_t place) {
      found.push_back({x, place, slope ? slope[r] : 1.0f});
      ++starts[cell_of[place] + 1];
    });
    for (int64_t c = 0; c < block.cells(); ++c) starts[c + 1] += starts[c];
    user = allocate<int32_t>(found.size());
    item = allocate<uint16_t>(found.size());
    weight = allocate<float>(found.size());
    std::vector<int64_t> next(starts.begin(), starts.end() - 1);
    for (const Found& f : found) {
      const int32_t c = cell_of[f.place];
      const int64_t at = next[c]++;
      user[at] = f.user;
      item[at] = static_cast<uint16_t>(f.place - block.begin(c));
      weight[at] = f.weight;
    }
  }

  std::vector<int64_t> starts;
  std::unique_ptr<int32_t[]> user;
  std::unique_ptr<uint16_t[]> item;
  std::unique_ptr<float[]> weight;

 private:
  struct Found {
    int32_t user;
    uint32_t place;
    float weight;
  };
};

// ---------------------------------------------------------------------------------- sampling

// Half of a record's draws are uniform, half are taken from a table in which an item stands in
// proportion to its popularity. The number of its entries is known, hence so is the expected
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

// ------------------------------------------------------------------------------------ tasks

// The factors a task works on: all users of the part, all items of the block.
struct TaskFactors {
  float *U, *acc_u, *V, *acc_v;
  const float *decay_u, *decay_v;
  int64_t width;
};

TaskFactors check_factors(Factors& U, Writable<float>& acc_u, const Vector<float>& decay_u,
                          Factors& V, Writable<float>& acc_v, const Vector<float>& decay_v,
                          int64_t n_users, int factors) {
  const int64_t width = U.shape(1);
  if (static_cast<int64_t>(V.shape(1)) != width || width % kRowUnit != 0 || width < kRowUnit ||
      width > kMaxWidth)
    throw std::invalid_argument("rows of U and V must have one width, a multiple of " +
                                std::to_string(kRowUnit) + " up to " + std::to_string(kMaxWidth));
  if (factors < 1 || factors > width)
    throw std::invalid_argument("factors must be between 1 and the width of the rows");
  if (static_cast<int64_t>(U.shape(0)) != n_users ||
      static_cast<int64_t>(acc_u.shape(0)) != n_users || acc_v.shape(0) != V.shape(0) ||
      static_cast<int64_t>(decay_u.shape(0)) != n_users || decay_v.shape(0) != V.shape(0))
    throw std::invalid_argument(
        "U, V, their sums and their decay must have one row a user and one an item");
  return {U.data(), acc_u.data(), V.data(), acc_v.data(), decay_u.data(), decay_v.data(), width};
}

Cell cell_at(const TaskFactors& factors, const Block& block, const SortedRecords& sorted, int64_t c,
             uint64_t key) {
  const int64_t begin = block.begin(c), at = sorted.starts[c];
  return {factors.U,
          factors.acc_u,
          factors.V + begin * factors.width,
          factors.acc_v + begin,
          factors.decay_u,
          factors.decay_v + begin,
          factors.width,
          static_cast<int32_t>(block.begin(c + 1) - begin),
          sorted.user.get() + at,
          sorted.item.get() + at,
          sorted.weight.get() + at,
          sorted.starts[c + 1] - at,
          nullptr,
          nullptr,
          splitmix(key + static_cast<uint64_t>(c))};
}

void add(CellReport& total, const CellReport& report) {
  total.draws += report.draws;
  total.not_finite += report.not_finite;
  total.loss += report.loss;
}

nb::tuple as_tuple(const CellReport& report) {
  return nb::make_tuple(report.draws, report.loss, report.not_finite);
}

nb::tuple sgd_task(Factors U, Writable<float> acc_u, Vector<int64_t> indptr, Vector<int32_t> items,
                   Vector<float> slope, Vector<float> decay_u, Factors V, Writable<float> acc_v,
                   Vector<float> decay_v, Vector<int32_t> position, int64_t first,
                   Vector<float> popularity, int64_t cell_items, int factors, int negatives,
                   float rate_u, float rate_v, uint64_t key) {
  const PartRecords records = check_records(indptr, items);
  const TaskFactors rows =
      check_factors(U, acc_u, decay_u, V, acc_v, decay_v, records.n_users, factors);
  const Block block = check_block(position, first, V.shape(0), cell_items);
  if (slope.shape(0) != items.shape(0))
    throw std::invalid_argument("slope must have one entry a record");
  if (popularity.shape(0) != V.shape(0))
    throw std::invalid_argument("popularity must have one entry an item of the block");
  if (negatives < 1 || negatives > kMaxNegatives)
    throw std::invalid_argument("negatives must be between 1 and " + std::to_string(kMaxNegatives));
  CellReport total = {0, 0, 0.0};
  {
    nb::gil_scoped_release released;
    const SortedRecords sorted(records, block, slope.data());
    const int uniform = (negatives + 1) / 2;
    for (int64_t c = 0; c < block.cells(); ++c) {
      Cell cell = cell_at(rows, block, sorted, c, key);
      if (cell.items < 2 || cell.records == 0) continue;
      const Proposal proposal(popularity.data() + block.begin(c), cell.items, uniform,
                              negatives - uniform);
      cell.table = proposal.table.get();
      cell.inverse = proposal.inverse.get();
      const float scale = static_cast<float>(static_cast<double>(block.n_items - 1) /
                                             static_cast<double>(cell.items - 1));
      const RobirankRule rule = {rate_u, rate_v,    1.0f / static_cast<float>(factors),
                                 scale,  negatives, uniform};
      add(total, kernels().sgd.robirank(cell, rule));
    }
  }
  return as_tuple(total);
}

nb::tuple warp_task(Factors U, Writable<float> acc_u, Vector<int64_t> indptr, Vector<int32_t> items,
                    std::optional<Vector<float>> weight, Vector<float> decay_u, Factors V,
                    Writable<float> acc_v, Vector<float> decay_v, Vector<int32_t> position,
                    int64_t first, Vector<float> weight_after, int64_t cell_items, int factors,
                    float margin, float rate_u, float rate_v, uint64_t key) {
  const PartRecords records = check_records(indptr, items);
  const TaskFactors rows =
      check_factors(U, acc_u, decay_u, V, acc_v, decay_v, records.n_users, factors);
  const Block block = check_block(position, first, V.shape(0), cell_items);
  if (weight && weight->shape(0) != items.shape(0))
    throw std::invalid_argument("weight must have one entry a record");
  const int max_trials = static_cast<int>(weight_after.shape(0)) - 1;
  if (max_trials < 1 || max_trials > kMaxNegatives)
    throw std::invalid_argument("max_trials must be between 1 and " +
                                std::to_string(kMaxNegatives));
  CellReport total = {0, 0, 0.0};
  {
    nb::gil_scoped_release released;
    const SortedRecords sorted(records, block, weight ? weight->data() : nullptr);
    const WarpRule rule = {rate_u, rate_v,     1.0f / static_cast<float>(factors),
                           margin, max_trials, weight_after.data()};
    for (int64_t c = 0; c < block.cells(); ++c) {
      const Cell cell = cell_at(rows, block, sorted, c, key);
      if (cell.items >= 2 && cell.records > 0) add(total, kernels().sgd.warp(cell, rule));
    }
  }
  return as_tuple(total);
}

// scores[r] = <U_x, V_y> for the records of the part that lie in the block.
void record_scores(Matrix<float> U, Vector<int64_t> indptr, Vector<int32_t> items, Matrix<float> V,
                   Vector<int32_t> position, int64_t first, Writable<float> scores) {
  const PartRecords records = check_records(indptr, items);
  const Block block = check_block(position, first, V.shape(0), kMaxCell);
  const int64_t width = U.shape(1);
  if (static_cast<int64_t>(V.shape(1)) != width || width % kRowUnit != 0)
    throw std::invalid_argument("rows of U and V must have one width, a multiple of " +
                                std::to_string(kRowUnit));
  if (static_cast<int64_t>(U.shape(0)) != records.n_users || scores.shape(0) != items.shape(0))
    throw std::invalid_argument("U and scores must have one row a user and one entry a record");
  nb::gil_scoped_release released;
  visit(records, block, [&](int64_t r, int32_t x, uint32_t place) {
    scores.data()[r] = kernels().sgd.dot(U.data() + x * width, V.data() + place * width, width);
  });
}

// The random numbers of one record: what a reference implementation needs to take the same steps.
Result<uint32_t> sgd_draws(uint64_t key, int64_t cell, int64_t record, int n, uint32_t bound) {
  auto drawn = allocate<uint32_t>(n);
  kernels().sgd.draw(splitmix(key + static_cast<uint64_t>(cell)), record, 0, n, bound, drawn.get());
  return hand_over(std::move(drawn), n);
}

}  // namespace

void bind_sgd(nb::module_& m) {
  m.def("sgd_task", &sgd_task, nb::arg("U").noconvert(), nb::arg("acc_u").noconvert(),
        nb::arg("indptr"), nb::arg("items"), nb::arg("slope"), nb::arg("decay_u"),
        nb::arg("V").noconvert(), nb::arg("acc_v").noconvert(), nb::arg("decay_v"),
        nb::arg("position"), nb::arg("first"), nb::arg("popularity"), nb::arg("cell_items"),
        nb::arg("factors"), nb::arg("negatives"), nb::arg("rate_u"), nb::arg("rate_v"),
        nb::arg("key"));
  m.def("warp_task", &warp_task, nb::arg("U").noconvert(), nb::arg("acc_u").noconvert(),
        nb::arg("indptr"), nb::arg("items"), nb::arg("weight").none(), nb::arg("decay_u"),
        nb::arg("V").noconvert(), nb::arg("acc_v").noconvert(), nb::arg("decay_v"),
        nb::arg("position"), nb::arg("first"), nb::arg("weight_after"), nb::arg("cell_items"),
        nb::arg("factors"), nb::arg("margin"), nb::arg("rate_u"), nb::arg("rate_v"),
        nb::arg("key"));
  m.def("record_scores", &record_scores, nb::arg("U"), nb::arg("indptr"), nb::arg("items"),
        nb::arg("V"), nb::arg("position"), nb::arg("first"), nb::arg("scores").noconvert());
  m.def("sgd_draws", &sgd_draws, nb::arg("key"), nb::arg("cell"), nb::arg("record"), nb::arg("n"),
        nb::arg("bound"));
}
