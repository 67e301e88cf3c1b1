// Which items of ranked lists are taken where groups of items have caps.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "checks.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

// How many items of each group a list has. An item is in at most one group of each column.
class Counts {
 public:
  Counts(const Matrix<int32_t>& groups, const Vector<int32_t>& caps)
      : groups_(groups.data()),
        columns_(groups.shape(0)),
        items_(groups.shape(1)),
        caps_(caps.data()),
        counts_(caps.shape(0), 0) {}

  bool has_room(int32_t item) const {
    for (int64_t c = 0; c < columns_; ++c) {
      const int32_t group = groups_[c * items_ + item];
      if (group >= 0 && counts_[group] >= caps_[group]) return false;
    }
    return true;
  }

  void add(int32_t item, int32_t number) {
    for (int64_t c = 0; c < columns_; ++c) {
      const int32_t group = groups_[c * items_ + item];
      if (group >= 0) counts_[group] += number;
    }
  }

 private:
  const int32_t* groups_;
  int64_t columns_, items_;
  const int32_t* caps_;
  std::vector<int32_t> counts_;  // zeros between lists
};

Table<bool> take_within_caps(Matrix<int32_t> lists, Matrix<int32_t> before, Vector<int32_t> room,
                             Matrix<int32_t> groups, Vector<int32_t> caps) {
  const int64_t n = lists.shape(0), length = lists.shape(1), n_before = before.shape(1);
  const int64_t n_items = groups.shape(1), n_groups = caps.shape(0);
  check_length("before", before.shape(0), n);
  check_length("room", room.shape(0), n);
  check_all_between("lists", lists.data(), lists.size(), -1, n_items - 1);
  check_all_between("before", before.data(), before.size(), -1, n_items - 1);
  check_all_between("groups", groups.data(), groups.size(), -1, n_groups - 1);
  auto taken = allocate<bool>(n * length);
  std::fill_n(taken.get(), n * length, false);
  {
    nb::gil_scoped_release released;
    Counts counts(groups, caps);
    for (int64_t q = 0; q < n; ++q) {
      const int32_t *list = lists.data() + q * length, *had = before.data() + q * n_before;
      bool* is_taken = taken.get() + q * length;
      for (int64_t i = 0; i < n_before; ++i)
        if (had[i] >= 0) counts.add(had[i], 1);
      int32_t left = room.data()[q];
      for (int64_t i = 0; i < length && list[i] >= 0 && left > 0; ++i) {
        if (!counts.has_room(list[i])) continue;
        is_taken[i] = true;
        counts.add(list[i], 1);
        --left;
      }
      for (int64_t i = 0; i < n_before; ++i)
        if (had[i] >= 0) counts.add(had[i], -1);
      for (int64_t i = 0; i < length; ++i)
        if (is_taken[i]) counts.add(list[i], -1);
    }
  }
  return hand_over(std::move(taken), n, length);
}

}  // namespace

void bind_take_within_caps(nb::module_& m) {
  m.def("take_within_caps", &take_within_caps, nb::kw_only(), nb::arg("lists"), nb::arg("before"),
        nb::arg("room"), nb::arg("groups"), nb::arg("caps"),
        "Which items of each list are taken: from the first on, as many as there is room for, "
        "unless as many as its cap of one of an item's groups are there already, those of before "
        "among them. groups[c, i] is the group of item i in column c, -1 for none, and so is an "
        "item of a list where it ends.");
}
