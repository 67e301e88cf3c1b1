#include "task.h"

#include <nanobind/stl/optional.h>

#include <limits>
#include <stdexcept>
#include <string>

#include "bindings.h"
#include "checks.h"
#include "streams.h"

namespace nb = nanobind;

namespace robirank {

FactorRows::FactorRows(MutableMatrix<float> rows, MutableVector<float> sums, Vector<float> penalty,
                       std::optional<Matrix<float>> centre)
    : rows_(rows), sums_(sums), penalty_(penalty), centre_(centre) {
  check_row_width("rows", width());
  check_length("sums", sums.shape(0), n());
  check_length("penalty", penalty.shape(0), n());
  if (centre) {
    check_length("centre", centre->shape(0), n());
    check_columns("centre", centre->shape(1), width());
  }
}

UserItems::UserItems(Vector<int64_t> indptr, Vector<int32_t> items,
                     std::optional<Vector<float>> weight, int64_t n_items)
    : indptr_(indptr), items_(items), weight_(weight), n_items_(n_items) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  check_between("n_items", n_items, 0, kMost);
  nb::gil_scoped_release released;
  check_offsets("indptr", indptr, n());
  check_between("the number of users", n_users(), 0, kMost);
  check_indices("items", items, n_items);
  if (weight) check_length("weight", weight->shape(0), n());
}

Block::Block(const Vector<int32_t>& position, int64_t first, int64_t items, int64_t cell_items)
    : position_(position.data()),
      first_(first),
      items_(items),
      cells_(std::max<int64_t>(1, std::min((items + cell_items - 1) / cell_items, items / 2))) {
  const int64_t n_items = position.shape(0);
  check_between("the number of rows of items", items, 0, n_items);
  check_between("first", first, 0, n_items - items);
}

SortedInteractions::SortedInteractions(const UserItems& user_items, const Block& block) {
  struct Found {
    int32_t user;
    uint32_t place;
    float weight;
  };
  std::vector<int32_t> cell_of(block.items());
  for (int64_t c = 0; c < block.cells(); ++c)
    std::fill(cell_of.begin() + block.begin(c), cell_of.begin() + block.begin(c + 1), c);
  std::vector<Found> found;
  found.reserve(user_items.n() * block.items() / std::max<int64_t>(1, user_items.n_items()) * 9 /
                8);
  starts_.assign(block.cells() + 1, 0);
  const float* weight = user_items.weight();
  block.visit(user_items, [&](int64_t r, int32_t x, uint32_t place) {
    found.push_back({x, place, weight ? weight[r] : 1.0f});
    ++starts_[cell_of[place] + 1];
  });
  for (int64_t c = 0; c < block.cells(); ++c) starts_[c + 1] += starts_[c];
  user_ = allocate<int32_t>(found.size());
  item_ = allocate<uint16_t>(found.size());
  weight_ = allocate<float>(found.size());
  std::vector<int64_t> next(starts_.begin(), starts_.end() - 1);
  for (const Found& f : found) {
    const int32_t c = cell_of[f.place];
    const int64_t at = next[c]++;
    user_[at] = f.user;
    item_[at] = static_cast<uint16_t>(f.place - block.begin(c));
    weight_[at] = f.weight;
  }
}

Cell SortedInteractions::cell(int64_t c, const Block& block, const FactorRows& users,
                              const FactorRows& items, uint64_t key) const {
  if (!users.centre() != !items.centre())
    throw std::invalid_argument("users and items must both have centres, or neither");
  const int64_t begin = block.begin(c), at = starts_[c];
  return {users.rows(),
          users.sums(),
          items.rows() + begin * items.width(),
          items.sums() + begin,
          users.penalty(),
          items.penalty() + begin,
          users.centre(),
          items.centre() ? items.centre() + begin * items.width() : nullptr,
          users.width(),
          static_cast<int32_t>(block.begin(c + 1) - begin),
          user_.get() + at,
          item_.get() + at,
          weight_.get() + at,
          starts_[c + 1] - at,
          nullptr,
          nullptr,
          cell_key(key, c)};
}

uint64_t cell_key(uint64_t key, int64_t cell) {
  return splitmix(key + static_cast<uint64_t>(cell) + kSplitMixStep);
}

void check_row_width(const char* name, int64_t width) {
  if (width >= kRowUnit && width <= kMaxWidth && width % kRowUnit == 0) return;
  throw std::invalid_argument(std::string(name) + " must have a multiple of " +
                              std::to_string(kRowUnit) + " columns, up to " +
                              std::to_string(kMaxWidth) + "; got " + std::to_string(width));
}

void check_task(const FactorRows& users, const FactorRows& items, const UserItems& user_items,
                const Vector<int32_t>& position) {
  check_columns("items", items.width(), users.width());
  check_length("users", users.n(), user_items.n_users());
  check_length("position", position.shape(0), user_items.n_items());
}

}  // namespace robirank

using namespace robirank;

void bind_task(nb::module_& m) {
  nb::class_<FactorRows>(m, "FactorRows",
                         "Rows of factors, padded with zeros to a multiple of 16, with Adagrad's "
                         "sum of each, the penalty that one interaction of each pays, and perhaps "
                         "the row that the penalty pulls to.")
      .def(nb::init<MutableMatrix<float>, MutableVector<float>, Vector<float>,
                    std::optional<Matrix<float>>>(),
           nb::arg("rows").noconvert(), nb::arg("sums").noconvert(), nb::arg("penalty"),
           nb::arg("centre") = nb::none());
  nb::class_<UserItems>(m, "UserItems",
                        "UserItems by user: user x has items[indptr[x]:indptr[x + 1]], each below "
                        "n_items, with weights (None: all 1). All is checked here, so indptr and "
                        "items must not change afterwards.")
      .def(nb::init<Vector<int64_t>, Vector<int32_t>, std::optional<Vector<float>>, int64_t>(),
           nb::kw_only(), nb::arg("indptr"), nb::arg("items"), nb::arg("weight") = nb::none(),
           nb::arg("n_items"));
}
