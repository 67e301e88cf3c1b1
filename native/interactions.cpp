// Tables of interactions: records grouped by user, and random choices within each user's records.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "streams.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

void check_codes(const Vector<int32_t>& codes, int64_t n, const char* message) {
  for (size_t i = 0; i < codes.shape(0); ++i)
    if (codes.data()[i] < 0 || codes.data()[i] >= n) throw std::invalid_argument(message);
}

void check_offsets(const Vector<int64_t>& offsets, int64_t n) {
  const int64_t rows = static_cast<int64_t>(offsets.shape(0)) - 1;
  if (rows < 0 || offsets.data()[0] != 0 || (n >= 0 && offsets.data()[rows] != n))
    throw std::invalid_argument("indptr must go from 0 to the number of records");
  for (int64_t u = 0; u < rows; ++u)
    if (offsets.data()[u] > offsets.data()[u + 1])
      throw std::invalid_argument("indptr must not fall");
}

// Where each user's records begin, when there are none with the same user and item.
std::unique_ptr<int64_t[]> row_offsets(const int32_t* user, int64_t n, int64_t n_users) {
  auto offsets = allocate<int64_t>(n_users + 1);
  std::fill_n(offsets.get(), n_users + 1, 0);
  for (int64_t i = 0; i < n; ++i) ++offsets[user[i] + 1];
  for (int64_t u = 0; u < n_users; ++u) offsets[u + 1] += offsets[u];
  return offsets;
}

// The records' places, user after user, in their order within a user.
template <class Place>
std::unique_ptr<Place[]> order_by_user(const int32_t* user, int64_t n, const int64_t* offsets,
                                       int64_t n_users) {
  auto order = allocate<Place>(n);
  std::vector<int64_t> next(offsets, offsets + n_users);
  for (int64_t i = 0; i < n; ++i) order[next[user[i]]++] = static_cast<Place>(i);
  return order;
}

template <class Time>
struct Records {
  const int32_t* item;
  const float* count;  // or null: each record counts 1
  const Time* time;    // or null
};

template <class Time>
struct Rows {
  int32_t* item;
  float* count;
  Time* time;  // or null

  // Write one user's records from `begin` on, sorted by item, equal ones merged: counts add up and
  // the earliest time stays. Returns where they end.
  template <class Place>
  int64_t write(const Records<Time>& from, Place* places, int64_t begin, int64_t end) const {
    std::sort(places, places + (end - begin), [&](Place a, Place b) {
      return from.item[a] != from.item[b] ? from.item[a] < from.item[b] : a < b;
    });
    int64_t out = begin;
    for (int64_t i = 0; i < end - begin;) {
      const int32_t same = from.item[places[i]];
      double sum = 0.0;
      Time earliest = std::numeric_limits<Time>::max();
      for (; i < end - begin && from.item[places[i]] == same; ++i) {
        sum += from.count ? from.count[places[i]] : 1.0;
        if (from.time) earliest = std::min(earliest, from.time[places[i]]);
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

// Close the gaps that merged records left; the rows' ends become the new offsets.
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

template <class Place, class Time>
int64_t fill_rows(const Records<Time>& from, const int32_t* user, int64_t n, int64_t n_users,
                  int64_t* offsets, const Rows<Time>& rows, int n_threads) {
  auto order = order_by_user<Place>(user, n, offsets, n_users);
  auto ends = allocate<int64_t>(n_users);
  [[maybe_unused]] const int threads = thread_count(n_threads, n_users, 30.0 * n);
#pragma omp parallel for schedule(dynamic, 256) num_threads(threads)
  for (int64_t u = 0; u < n_users; ++u)
    ends[u] = rows.write(from, order.get() + offsets[u], offsets[u], offsets[u + 1]);
  return close_gaps(rows, offsets, ends.get(), n_users);
}

// Records into rows: (indptr, items, counts, times or None). The arrays may be longer than the
// last offset says: what is behind it means nothing.
template <class Time>
nb::tuple group_records(Vector<int32_t> user, Vector<int32_t> item,
                        std::optional<Vector<float>> count, std::optional<Vector<Time>> time,
                        int64_t n_users, int64_t n_items, int n_threads) {
  const size_t size = user.shape(0);
  if (item.shape(0) != size || (count && count->shape(0) != size) ||
      (time && time->shape(0) != size))
    throw std::invalid_argument("user, item, count and time must have the same length");
  check_codes(user, n_users, "user is out of range");
  check_codes(item, n_items, "item is out of range");
  const int64_t n = static_cast<int64_t>(size);
  std::unique_ptr<int64_t[]> offsets;
  auto items = allocate<int32_t>(n);
  auto counts = allocate<float>(n);
  auto times = time ? allocate<Time>(n) : nullptr;
  {
    nb::gil_scoped_release released;
    offsets = row_offsets(user.data(), n, n_users);
    const Records<Time> from{item.data(), count ? count->data() : nullptr,
                             time ? time->data() : nullptr};
    const Rows<Time> rows{items.get(), counts.get(), times.get()};
    if (n <= std::numeric_limits<uint32_t>::max())
      fill_rows<uint32_t>(from, user.data(), n, n_users, offsets.get(), rows, n_threads);
    else
      fill_rows<int64_t>(from, user.data(), n, n_users, offsets.get(), rows, n_threads);
  }
  nb::object no_times = nb::none();
  return nb::make_tuple(hand_over(std::move(offsets), n_users + 1), hand_over(std::move(items), n),
                        hand_over(std::move(counts), n),
                        time ? nb::cast(hand_over(std::move(times), n)) : no_times);
}

// For each row, mark `take` of its records, every set of that size being as likely as any other
// (selection sampling: Knuth, The Art of Computer Programming 2, algorithm 3.4.2S).
Result<uint8_t> sample_rows(Vector<int64_t> indptr, Vector<int64_t> take, uint64_t seed,
                            int n_threads) {
  check_offsets(indptr, -1);
  const int64_t rows = static_cast<int64_t>(indptr.shape(0)) - 1, n = indptr.data()[rows];
  if (static_cast<int64_t>(take.shape(0)) != rows)
    throw std::invalid_argument("take must have one number for each row");
  auto chosen = allocate<uint8_t>(n);
  {
    nb::gil_scoped_release released;
    [[maybe_unused]] const int threads = thread_count(n_threads, rows, 5.0 * n);
#pragma omp parallel for schedule(dynamic, 1024) num_threads(threads)
    for (int64_t u = 0; u < rows; ++u) {
      Stream random(seed, u);
      int64_t left = indptr.data()[u + 1] - indptr.data()[u], wanted = take.data()[u];
      for (int64_t i = indptr.data()[u]; i < indptr.data()[u + 1]; ++i, --left) {
        chosen[i] = random.below(left) < wanted;
        wanted -= chosen[i];
      }
    }
  }
  return hand_over(std::move(chosen), n);
}

}  // namespace

void bind_interactions(nb::module_& m) {
  m.def("group_records", &group_records<int64_t>, nb::arg("user"), nb::arg("item"),
        nb::arg("count").none(), nb::arg("time").none(), nb::arg("n_users"), nb::arg("n_items"),
        nb::arg("n_threads"));
  m.def("group_records", &group_records<double>, nb::arg("user"), nb::arg("item"),
        nb::arg("count").none(), nb::arg("time").none(), nb::arg("n_users"), nb::arg("n_items"),
        nb::arg("n_threads"));
  m.def("sample_rows", &sample_rows, nb::arg("indptr"), nb::arg("take"), nb::arg("seed"),
        nb::arg("n_threads"));
}
