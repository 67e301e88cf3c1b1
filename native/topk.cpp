// The N best items of each user, exactly, without a matrix of scores.
//
// Each thread takes a batch of users; items are packed a few at a time (or were packed before, once
// for many calls) and multiplied with each user of the batch while they are in the first-level
// cache. Scores above the threshold of a user go to the user's buffer (see best_entries.h).
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "allowed.h"
#include "arrays.h"
#include "best_entries.h"
#include "bindings.h"
#include "checks.h"
#include "kernels/kernels.h"
#include "parallel.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

// Items of each user asked for: the rows of a CSR matrix, each sorted. Null where there is none.
struct ItemsOfUsers {
  const int64_t* starts = nullptr;
  const int32_t* items = nullptr;

  const int32_t* begin(int64_t user) const { return items + starts[user]; }
  const int32_t* end(int64_t user) const { return items + starts[user + 1]; }
  bool has(int64_t user, int32_t item) const {
    return starts && std::binary_search(begin(user), end(user), item);
  }
};

// Rows of items in the order in which the kernels read them, tile after tile.
class PackedItems {
 public:
  explicit PackedItems(Matrix<float> items)
      : tiles_(kernels().tiles),
        n_(items.shape(0)),
        d_(items.shape(1)),
        memory_(allocate_lines(round_up(n_, tiles_.items) * d_)),
        begin_(memory_.get()) {
    nb::gil_scoped_release released;
    if (n_) tiles_.pack(items.data(), nullptr, nullptr, n_, d_, tiles_.items, memory_.get());
  }

  // n rows of d columns that were packed before: `tiles` is what tiles() of such an object gave,
  // and is kept, not copied.
  PackedItems(Matrix<float> tiles, int64_t n, int64_t d)
      : tiles_(kernels().tiles), n_(n), d_(d), kept_(tiles), begin_(tiles.data()) {
    check_between("n", n, 0, std::numeric_limits<int32_t>::max());
    check_between("d", d, 0, std::numeric_limits<int32_t>::max());
    check_length("tiles", tiles.shape(0), n_tiles());
    check_columns("tiles", tiles.shape(1), tiles_.items * d);
  }

  int64_t n() const { return n_; }
  int64_t d() const { return d_; }
  int64_t n_tiles() const { return round_up(n_, tiles_.items) / tiles_.items; }
  const TileKernels& kernel() const { return tiles_; }  // for which the rows were packed
  const float* tile(int64_t first) const { return begin_ + first * d_; }

 private:
  const TileKernels& tiles_;
  int64_t n_, d_;
  Lines memory_;  // one of the two holds the rows
  std::optional<Matrix<float>> kept_;
  const float* begin_;
};

// The memory of packed items, a row for each tile; it lives as long as the object does.
Table<const float> tiles_of(nb::handle_t<PackedItems> self) {
  const auto& packed = nb::cast<const PackedItems&>(self);
  const size_t width = packed.kernel().items * packed.d();
  return Table<const float>(packed.tile(0), {static_cast<size_t>(packed.n_tiles()), width}, self);
}

struct Request {
  const float* users;  // factors, and which rows of them are asked for
  const int32_t* user_rows;
  const float* items;
  const int32_t* item_rows;   // in rising order, or null for all
  const float* item_scale;    // or null
  const PackedItems* packed;  // all items, or null
  int64_t n_users, n_items, d;
  const Bits* allowed;    // for everyone, or null
  ItemsOfUsers excluded;  // what each user must not get
  ItemsOfUsers only;      // what each user may get alone, or null
  const float* added;     // added[q · all_items + item] is added to a score, or null
  int64_t all_items;
  Order order;
  Groups groups;
  int64_t wanted;
};

// Thresholds that every score of a tile exceeds.
constexpr int kMostTileUsers = 64;
const std::array<float, kMostTileUsers> kNoThreshold = [] {
  std::array<float, kMostTileUsers> lowest;
  lowest.fill(-std::numeric_limits<float>::infinity());
  return lowest;
}();

// The factors of a batch stay in the second-level cache; its buffers are bounded.
constexpr int64_t kUserBytes = 1 << 17, kBufferBytes = 1 << 24;

// How the work is cut up; the result does not depend on it.
struct Plan {
  int64_t batch_users, n_batches, split_items, n_splits;

  Plan(const Request& request, const TileKernels& tiles, int threads) {
    const int64_t row = std::max<int64_t>(request.d, 1) * static_cast<int64_t>(sizeof(float));
    const int64_t marks = request.only.starts ? request.all_items / 8 : 0;
    const int64_t buffer = Best::bytes(request.wanted, request.n_items, request.groups) + marks;
    const int64_t most = std::max<int64_t>(1, std::min(kUserBytes / row, kBufferBytes / buffer));
    const int64_t rounds = (request.n_users + most * threads - 1) / (most * threads);
    batch_users = std::max<int64_t>(
        1, (request.n_users + rounds * threads - 1) / std::max<int64_t>(1, rounds * threads));
    batch_users = round_up(batch_users, tiles.users);
    n_batches = (request.n_users + batch_users - 1) / batch_users;
    n_splits = n_batches > 0 ? std::max<int64_t>(1, threads / n_batches) : 1;
    split_items = round_up((request.n_items + n_splits - 1) / n_splits, tiles.items);
  }
};

// The best of items begin:end for users first:first + n.
class Batch {
 public:
  Batch(const Request& request, const TileKernels& tiles, const Plan& plan)
      : request_(request),
        tiles_(tiles),
        users_(allocate<float>(plan.batch_users * request.d)),
        items_(allocate<float>(tiles.items * request.d)),
        only_(request.only.starts ? plan.batch_users : 0, Bits(request.all_items)) {}

  void run(int64_t first, int64_t n, int64_t begin, int64_t end, int32_t* ids, float* scores) {
    Best best(n, round_up(n, tiles_.users), request_.wanted, end - begin, request_.order,
              request_.groups);
    if (request_.only.starts)
      for (int64_t i = 0; i < n; ++i) mark_only(first + i, only_[i]);
    tiles_.pack(request_.users, request_.user_rows + first, nullptr, n, request_.d, tiles_.users,
                users_.get());
    for (int64_t at = begin; at < end; at += tiles_.items) {
      const int64_t count = std::min<int64_t>(tiles_.items, end - at);
      const uint64_t real = allowed_at(at, count);
      if (!real) continue;
      const float* tile = tile_at(at, count);
      for (int64_t i = 0; i < n; i += tiles_.users) score(first, i, n, tile, at, real, best);
    }
    for (int64_t i = 0; i < n; ++i)
      best.finish(i, ids + i * request_.wanted, scores + i * request_.wanted);
  }

 private:
  void mark_only(int64_t user, Bits& bits) {
    bits.clear();
    const ItemsOfUsers& only = request_.only;
    std::for_each(only.begin(user), only.end(user), [&](int32_t item) { bits.set(item); });
  }

  // Bit j: the item at + j, of at : at + count, is allowed.
  uint64_t allowed_at(int64_t at, int64_t count) const {
    const uint64_t real = count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
    return request_.allowed ? real & request_.allowed->from(at) : real;
  }

  // The items at : at + count, packed.
  const float* tile_at(int64_t at, int64_t count) {
    if (request_.packed) return request_.packed->tile(at);
    if (request_.item_rows)
      tiles_.pack(request_.items, request_.item_rows + at, request_.item_scale, count, request_.d,
                  tiles_.items, items_.get());
    else
      tiles_.pack(request_.items + at * request_.d, nullptr,
                  request_.item_scale ? request_.item_scale + at : nullptr, count, request_.d,
                  tiles_.items, items_.get());
    return items_.get();
  }

  void score(int64_t first, int64_t user, int64_t n, const float* tile, int64_t at, uint64_t real,
             Best& best) {
    const auto scores = n - user == 1 ? tiles_.find_one : tiles_.find;
    // What is added to a score is not in the tile: all of its scores are looked at then.
    const float* threshold = request_.added ? kNoThreshold.data() : best.threshold(user);
    if (!scores(users_.get() + user * request_.d, tile, request_.d, threshold, &hits_)) return;
    for (int64_t i = user; i < std::min(n, user + tiles_.users); ++i) {
      const uint64_t own = only_.empty() ? real : real & only_[i].from(at);
      for (uint64_t left = hits_.mask[i - user] & own; left; left &= left - 1) {
        const int j = __builtin_ctzll(left);
        const int32_t item =
            request_.item_rows ? request_.item_rows[at + j] : static_cast<int32_t>(at + j);
        Entry entry = {hits_.scores[i - user][j], item};
        if (request_.added) entry.score += request_.added[(first + i) * request_.all_items + item];
        if (best.may_come(i, entry) && !request_.excluded.has(first + i, item)) best.add(i, entry);
      }
    }
  }

  const Request& request_;
  const TileKernels& tiles_;
  std::unique_ptr<float[]> users_, items_;
  std::vector<Bits> only_;  // of each user of the batch, or none
  TileHits hits_;
};

// Merges the results of several ranges of items for one user.
void merge(const Request& request, const int32_t* ids, const float* scores, int64_t splits,
           int64_t stride, int32_t* out_ids, float* out_scores) {
  std::vector<Entry> entries;
  for (int64_t s = 0; s < splits; ++s)
    for (int64_t i = 0; i < request.wanted && ids[s * stride + i] >= 0; ++i)
      entries.push_back({scores[s * stride + i], ids[s * stride + i]});
  Selection(request.order, request.groups)
      .write(entries.data(), entries.size(), request.wanted, out_ids, out_scores);
}

void search(const Request& request, int num_threads, int32_t* ids, float* scores) {
  const TileKernels& tiles = request.packed ? request.packed->kernel() : kernels().tiles;
  // Items are packed once per batch of users (of 512 where d = 64), then multiplied with each user.
  const double users = request.n_users, batches = 1.0 + users / 512.0;
  const double work =
      request.n_items * (0.3 * batches * request.d + 0.03 * users * (request.d + 8.0));
  const int threads = thread_count(num_threads, std::numeric_limits<int32_t>::max(), work);
  const Plan plan(request, tiles, threads);
  const int64_t splits = plan.n_splits, stride = request.n_users * request.wanted;
  std::vector<int32_t> split_ids(splits > 1 ? splits * stride : 0);
  std::vector<float> split_scores(split_ids.size());
  int32_t* to_ids = splits > 1 ? split_ids.data() : ids;
  float* to_scores = splits > 1 ? split_scores.data() : scores;
  const auto make = [&] { return Batch(request, tiles, plan); };
  parallel_for(threads, plan.n_batches * splits, 1, make, [&](int64_t task, Batch& batch) {
    const int64_t b = task / splits, s = task % splits;
    const int64_t first = b * plan.batch_users;
    const int64_t n = std::min(plan.batch_users, request.n_users - first);
    const int64_t begin = std::min(s * plan.split_items, request.n_items);
    const int64_t end = std::min(begin + plan.split_items, request.n_items);
    const int64_t at = s * stride + first * request.wanted;
    batch.run(first, n, begin, end, to_ids + at, to_scores + at);
  });
  for (int64_t q = 0; splits > 1 && q < request.n_users; ++q) {
    const int64_t at = q * request.wanted;
    merge(request, to_ids + at, to_scores + at, splits, stride, ids + at, scores + at);
  }
}

// The values begin:end are sorted; where asked, without equal ones.
void check_sorted(const char* name, const Vector<int32_t>& values, int64_t begin, int64_t end,
                  bool distinct) {
  const int32_t* at = values.data();
  for (int64_t i = begin + 1; i < end; ++i)
    if (at[i] < at[i - 1] || (distinct && at[i] == at[i - 1]))
      throw std::invalid_argument(std::string(name) + " must be " +
                                  (distinct ? "distinct and " : "") + "sorted; " + name + "[" +
                                  std::to_string(i) + "] is " + std::to_string(at[i]) + " after " +
                                  std::to_string(at[i - 1]));
}

// Where the items of each user begin, and the items, sorted for each user.
using RaggedItems = std::optional<std::pair<Vector<int64_t>, Vector<int32_t>>>;

ItemsOfUsers checked_rows(const char* name, const RaggedItems& rows, int64_t n_users) {
  if (!rows) return {};
  const auto& [starts, items] = *rows;
  const std::string first = std::string(name) + "[0]", second = std::string(name) + "[1]";
  check_length(first.c_str(), starts.shape(0), n_users + 1);
  check_offsets(first.c_str(), starts, items.shape(0));
  for (int64_t q = 0; q < n_users; ++q)
    check_sorted(second.c_str(), items, starts.data()[q], starts.data()[q + 1], false);
  return {starts.data(), items.data()};
}

// The group of each item, −1 for none, and how many of each group are enough.
using GroupArrays = std::optional<std::pair<Vector<int32_t>, Vector<int32_t>>>;

Groups checked_groups(const GroupArrays& groups, int64_t n_items) {
  if (!groups) return {};
  const auto& [of_item, enough] = *groups;
  const int64_t n = enough.shape(0);
  check_length("groups[0]", of_item.shape(0), n_items);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  check_all_between("groups[0]", of_item.data(), n_items, -1, n - 1);
  check_all_between("groups[1]", enough.data(), n, 1, kMost);
  return {of_item.data(), enough.data(), n};
}

std::pair<Table<int32_t>, Table<float>> topk(
    Matrix<float> users, Vector<int32_t> user_rows, Matrix<float> items, int64_t wanted,
    std::optional<Vector<int32_t>> item_rows, std::optional<Vector<float>> item_scale,
    std::optional<Vector<uint8_t>> allowed, RaggedItems excluded, RaggedItems only,
    std::optional<Matrix<float>> added, std::optional<Vector<int32_t>> ranks, GroupArrays groups,
    const PackedItems* packed, int num_threads) {
  const int64_t n_users = user_rows.shape(0), n_rows = items.shape(0);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  check_between("the number of rows of items", n_rows, 0, kMost);
  check_columns("items", items.shape(1), users.shape(1));
  check_between("wanted", wanted, 1, kMost);
  check_indices("user_rows", user_rows, users.shape(0));
  if (item_rows) {
    if (allowed || only)
      throw std::invalid_argument("item_rows cannot be given with allowed or only");
    check_indices("item_rows", *item_rows, n_rows);
    check_sorted("item_rows", *item_rows, 0, item_rows->shape(0), true);
  }
  if (item_scale) check_length("item_scale", item_scale->shape(0), n_rows);
  if (allowed) check_length("allowed", allowed->shape(0), (n_rows + 7) / 8);
  if (ranks) check_length("ranks", ranks->shape(0), n_rows);
  if (only) check_indices("only[1]", only->second, n_rows);
  if (added) {
    check_length("added", added->shape(0), n_users);
    check_columns("added", added->shape(1), n_rows);
  }
  if (packed) {
    check_length("packed", packed->n(), n_rows);
    check_columns("packed", packed->d(), users.shape(1));
  }
  const bool use_packed = packed && !item_rows && !item_scale;
  const auto bits = allowed ? std::make_unique<Bits>(allowed->data(), n_rows) : nullptr;
  const Request request = {users.data(),
                           user_rows.data(),
                           items.data(),
                           item_rows ? item_rows->data() : nullptr,
                           item_scale ? item_scale->data() : nullptr,
                           use_packed ? packed : nullptr,
                           n_users,
                           item_rows ? static_cast<int64_t>(item_rows->shape(0)) : n_rows,
                           static_cast<int64_t>(items.shape(1)),
                           bits.get(),
                           checked_rows("excluded", excluded, n_users),
                           checked_rows("only", only, n_users),
                           added ? added->data() : nullptr,
                           n_rows,
                           {ranks ? ranks->data() : nullptr},
                           checked_groups(groups, n_rows),
                           wanted};
  auto ids = allocate<int32_t>(n_users * wanted);
  auto scores = allocate<float>(n_users * wanted);
  {
    nb::gil_scoped_release released;
    search(request, num_threads, ids.get(), scores.get());
  }
  return {hand_over(std::move(ids), n_users, wanted),
          hand_over(std::move(scores), n_users, wanted)};
}

}  // namespace

void bind_topk(nb::module_& m) {
  nb::class_<PackedItems>(m, "PackedItems",
                          "Rows of items laid out for topk: made once, used by any number of calls "
                          "from any thread.")
      .def(nb::init<Matrix<float>>(), nb::arg("items"))
      .def(nb::init<Matrix<float>, int64_t, int64_t>(), nb::arg("tiles").noconvert(), nb::arg("n"),
           nb::arg("d"), "The n rows of d columns whose tiles these are; they are not copied.")
      .def_prop_ro("tiles", &tiles_of, "The memory, a row for each tile of some items.");
  m.def("topk", &topk, nb::kw_only(), nb::arg("users"), nb::arg("user_rows"), nb::arg("items"),
        nb::arg("wanted"), nb::arg("item_rows") = nb::none(), nb::arg("item_scale") = nb::none(),
        nb::arg("allowed") = nb::none(), nb::arg("excluded") = nb::none(),
        nb::arg("only") = nb::none(), nb::arg("added") = nb::none(), nb::arg("ranks") = nb::none(),
        nb::arg("groups") = nb::none(), nb::arg("packed") = nb::none(), nb::arg("num_threads"),
        "The best items of each user and their scores, -1 where nothing is left. Bit i of allowed, "
        "as numpy.packbits(bitorder='little') makes it: everyone may get item i. The user of row q "
        "must not get excluded[1][excluded[0][q]:excluded[0][q + 1]], and may get those of only "
        "alone; added[q, i] is added to the score of item i. Of equal scores the lower of ranks "
        "comes first, or the lower item. An item of group g = groups[0][i] is left out if "
        "groups[1][g] better ones of its group may come. packed has the same rows as items, and is "
        "used where all of them are searched.");
}
