// Interactions grouped by user; those with the same user and item are merged.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "checks.h"
#include "parallel.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

// Where each user's interactions begin, before any are merged.
std::unique_ptr<int64_t[]> row_offsets(const int32_t* user, int64_t n, int64_t n_users) {
  auto offsets = allocate<int64_t>(n_users + 1);
  std::fill_n(offsets.get(), n_users + 1, 0);
  for (int64_t i = 0; i < n; ++i) ++offsets[user[i] + 1];
  for (int64_t u = 0; u < n_users; ++u) offsets[u + 1] += offsets[u];
  return offsets;
}

// The indices of the interactions, user after user, in their order within a user.
template <class Index>
std::unique_ptr<Index[]> order_by_user(const int32_t* user, int64_t n, const int64_t* offsets,
                                       int64_t n_users) {
  auto order = allocate<Index>(n);
  std::vector<int64_t> next(offsets, offsets + n_users);
  for (int64_t i = 0; i < n; ++i) order[next[user[i]]++] = static_cast<Index>(i);
  return order;
}

template <class Time>
struct Interactions {
  const int32_t* item;
  const float* count;  // or null: each interaction counts 1
  const Time* time;    // or null
};

template <class Time>
struct Rows {
  int32_t* item;
  float* count;
  Time* time;  // or null

  // Write one user's interactions from `begin` on, sorted by item, equal ones merged: counts add up
  // and the earliest time stays. Returns where they end.
  template <class Index>
  int64_t write(const Interactions<Time>& from, Index* indices, int64_t begin, int64_t end) const {
    std::sort(indices, indices + (end - begin), [&](Index a, Index b) {
      return from.item[a] != from.item[b] ? from.item[a] < from.item[b] : a < b;
    });
    int64_t out = begin;
    for (int64_t i = 0; i < end - begin;) {
      const int32_t same = from.item[indices[i]];
      double sum = 0.0;
      Time earliest = std::numeric_limits<Time>::max();
      for (; i < end - begin && from.item[indices[i]] == same; ++i) {
        sum += from.count ? from.count[indices[i]] : 1.0;
        if (from.time) earliest = std::min(earliest, from.time[indices[i]]);
      }
      item[out] = same;
      count[out] = static_cast<float>(sum);
      if (time) time[out] = earliest;
      ++out;
    }
    return out;
  }

  void move(int64_t from, int64_t to, int64_t n) const {
    std::copy(item + from, item + from + n, item + to);
    std::copy(count + from, count + from + n, count + to);
    if (time) std::copy(time + from, time + from + n, time + to);
  }
};

// Close the gaps that merged interactions left; the rows' ends become the new offsets.
template <class Time>
int64_t close_gaps(const Rows<Time>& rows, int64_t* offsets, const int64_t* ends, int64_t n_users) {
  int64_t size = 0;
  for (int64_t u = 0; u < n_users; ++u) {
    const int64_t begin = offsets[u], n = ends[u] - begin;
    if (begin != size) rows.move(begin, size, n);
    offsets[u] = size;
    size += n;
  }
  offsets[n_users] = size;
  return size;
}

template <class Index, class Time>
int64_t fill_rows(const Interactions<Time>& from, const int32_t* user, int64_t n, int64_t n_users,
                  int64_t* offsets, const Rows<Time>& rows, int num_threads) {
  auto order = order_by_user<Index>(user, n, offsets, n_users);
  auto ends = allocate<int64_t>(n_users);
  const int threads = thread_count(num_threads, n_users, 30.0 * n);
  parallel_for(threads, n_users, 256, [&](int64_t u) {
    ends[u] = rows.write(from, order.get() + offsets[u], offsets[u], offsets[u + 1]);
  });
  return close_gaps(rows, offsets, ends.get(), n_users);
}

// Interactions into rows: (indptr, items, counts, times or None). The arrays may be longer than the
// last offset; what follows it has no meaning.
template <class Time>
std::tuple<Result<int64_t>, Result<int32_t>, Result<float>, std::optional<Result<Time>>>
group_interactions(Vector<int32_t> user, Vector<int32_t> item, std::optional<Vector<float>> count,
                   std::optional<Vector<Time>> time, int64_t n_users, int64_t n_items,
                   int num_threads) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t n = user.shape(0);
  check_length("item", item.shape(0), n);
  if (count) check_length("count", count->shape(0), n);
  if (time) check_length("time", time->shape(0), n);
  check_between("n_users", n_users, 0, kMost);
  check_between("n_items", n_items, 0, kMost);
  check_indices("user", user, n_users);
  check_indices("item", item, n_items);
  std::unique_ptr<int64_t[]> offsets;
  auto items = allocate<int32_t>(n);
  auto counts = allocate<float>(n);
  auto times = time ? allocate<Time>(n) : nullptr;
  {
    nb::gil_scoped_release released;
    offsets = row_offsets(user.data(), n, n_users);
    const Interactions<Time> from{item.data(), count ? count->data() : nullptr,
                                  time ? time->data() : nullptr};
    const Rows<Time> rows{items.get(), counts.get(), times.get()};
    if (n <= std::numeric_limits<uint32_t>::max())
      fill_rows<uint32_t>(from, user.data(), n, n_users, offsets.get(), rows, num_threads);
    else
      fill_rows<int64_t>(from, user.data(), n, n_users, offsets.get(), rows, num_threads);
  }
  std::optional<Result<Time>> merged_times;
  if (time) merged_times = hand_over(std::move(times), n);
  return {hand_over(std::move(offsets), n_users + 1), hand_over(std::move(items), n),
          hand_over(std::move(counts), n), merged_times};
}

template <class Time>
void bind(nb::module_& m) {
  m.def("group_interactions", &group_interactions<Time>, nb::arg("user"), nb::arg("item"),
        nb::kw_only(), nb::arg("count").none(), nb::arg("time").none(), nb::arg("n_users"),
        nb::arg("n_items"), nb::arg("num_threads"),
        "Interactions by user, equal ones merged: (indptr, items, counts, times or None). The "
        "arrays may be longer than indptr says.");
}

}  // namespace

void bind_group_interactions(nb::module_& m) {
  bind<int64_t>(m);
  bind<double>(m);
}
