// Which items of ranked lists are taken where groups of items have caps and lists are to be varied.
//
// Items are taken one by one: each time the one with the largest value
//   (1 − variety) · scale · score − variety · its largest cosine with those taken before, at least
//   0
// whose groups have room; of equal values the first of the list. Values only fall while items are
// taken, and (1 − variety) · scale · score, the bound of a value, falls along the list. So a pass
// over the list ends at the first item whose bound is no larger than the best value so far, and an
// item that was no better when its value was last computed is not compared with what was taken
// since.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "checks.h"
#include "dot.h"
#include "parallel.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

struct Request {
  const int32_t* lists;  // best first, −1 behind the end
  const float* scores;
  const int32_t* before;  // what each list has already, or −1
  const int32_t* room;
  const bool* is_whole;  // whether a list has all items that may come, not only the best
  int64_t length, n_before, n_items;
  const int64_t* starts;  // the groups of item i are groups[starts[i] : starts[i + 1]]
  const int32_t* groups;
  const int32_t* caps;
  int64_t n_groups;
  double variety;
  const double* scales;
  const float* rows;  // of items; not read where variety is 0
  int64_t d;
};

// How many items of each group a list has.
class Counts {
 public:
  explicit Counts(const Request& request) : request_(request), counts_(request.n_groups, 0) {}

  bool has_room(int32_t item) const {
    const int32_t *group = begin(item), *last = end(item);
    return std::all_of(group, last, [&](int32_t g) { return counts_[g] < request_.caps[g]; });
  }

  void add(int32_t item, int32_t number) {
    std::for_each(begin(item), end(item), [&](int32_t g) { counts_[g] += number; });
  }

 private:
  const int32_t* begin(int32_t item) const { return request_.groups + request_.starts[item]; }
  const int32_t* end(int32_t item) const { return request_.groups + request_.starts[item + 1]; }

  const Request& request_;
  std::vector<int32_t> counts_;  // zeros between lists
};

// Chooses from one list after the other.
class Chooser {
 public:
  explicit Chooser(const Request& request)
      : request_(request), counts_(request), visits_(request.length) {}

  // Writes places of the list, in the order in which they are taken, until there is no room, no
  // item, or no certainty that an item behind the end of the list is not to be taken first.
  void run(int64_t list, int32_t* chosen) {
    items_ = request_.lists + list * request_.length;
    scores_ = request_.scores + list * request_.length;
    n_ = std::find_if(items_, items_ + request_.length, [](int32_t i) { return i < 0; }) - items_;
    weight_ = (1.0 - request_.variety) * (request_.variety > 0 ? request_.scales[list] : 1.0);
    std::fill_n(visits_.begin(), n_, Visit());
    first_ = 0;
    const int32_t* before = request_.before + list * request_.n_before;
    std::for_each(before, before + request_.n_before, [&](int32_t item) {
      if (item >= 0) take(item);
    });
    for (int32_t k = 0; k < request_.room[list]; ++k) {
      const int64_t best = best_place(request_.is_whole[list]);
      if (best < 0) break;
      visits_[best].is_gone = true;
      take(items_[best]);
      chosen[k] = static_cast<int32_t>(best);
    }
    for (const Taken& taken : taken_) counts_.add(taken.item, -1);
    taken_.clear();
  }

 private:
  struct Visit {
    double similarity = 0.0;  // the largest with those taken that it was compared with
    double square = -1.0;     // of the length of the item's row, once it is known
    size_t compared = 0;      // with so many
    bool is_gone = false;
  };

  struct Taken {
    int32_t item;
    double square;
  };

  const float* row(int32_t item) const { return request_.rows + item * request_.d; }
  double square(int32_t item) const { return dot(row(item), row(item), request_.d); }
  double bound(int64_t place) const { return weight_ * scores_[place]; }

  void take(int32_t item) {
    counts_.add(item, 1);
    taken_.push_back({item, request_.variety > 0 ? square(item) : 0.0});
  }

  // The item that is to be taken; −1 where there is none, or none for certain.
  int64_t best_place(bool is_whole) {
    int64_t best = -1;
    double most = 0.0;
    while (first_ < n_ && visits_[first_].is_gone) ++first_;
    for (int64_t i = first_; i < n_; ++i) {
      if (visits_[i].is_gone) continue;
      if (best >= 0 && bound(i) <= most) return best;
      if (!counts_.has_room(items_[i])) {
        visits_[i].is_gone = true;  // a group that is full stays full
        continue;
      }
      if (best >= 0 && bound(i) - request_.variety * visits_[i].similarity <= most) continue;
      const double value = bound(i) - request_.variety * similarity(i);
      if (best < 0 || value > most) best = i, most = value;
    }
    return is_whole || (best >= 0 && most >= bound(n_ - 1)) ? best : -1;
  }

  double similarity(int64_t place) {
    if (request_.variety == 0) return 0.0;
    Visit& visit = visits_[place];
    const int32_t item = items_[place];
    if (visit.square < 0) visit.square = square(item);
    for (; visit.compared < taken_.size(); ++visit.compared) {
      const Taken& other = taken_[visit.compared];
      const double squares = visit.square * other.square;
      if (squares > 0)
        visit.similarity = std::max(
            visit.similarity, dot(row(item), row(other.item), request_.d) / std::sqrt(squares));
    }
    return visit.similarity;
  }

  const Request& request_;
  Counts counts_;
  std::vector<Visit> visits_;
  std::vector<Taken> taken_;
  const int32_t* items_ = nullptr;
  const float* scores_ = nullptr;
  int64_t n_ = 0, first_ = 0;
  double weight_ = 0.0;
};

// Checks what is read of the groups of some items, and no more: a catalogue may have far more than
// the lists of one user.
void check_groups(const Matrix<int32_t>& items, const Vector<int64_t>& starts,
                  const Vector<int32_t>& groups, int64_t n_groups) {
  const int64_t n = groups.shape(0);
  for (size_t k = 0; k < items.size(); ++k) {
    const int32_t item = items.data()[k];
    if (item < 0) continue;
    const int64_t begin = starts.data()[item], end = starts.data()[item + 1];
    if (begin < 0 || begin > end || end > n)
      throw std::invalid_argument("starts must rise from 0 to " + std::to_string(n) + "; item " +
                                  std::to_string(item) + " has " + std::to_string(begin) + " to " +
                                  std::to_string(end));
    check_all_between("groups", groups.data() + begin, end - begin, 0, n_groups - 1);
  }
}

using Varied = std::optional<std::pair<Vector<double>, Matrix<float>>>;

Table<int32_t> choose_from_lists(Matrix<int32_t> lists, Matrix<float> scores,
                                 Matrix<int32_t> before, Vector<int32_t> room,
                                 Vector<bool> is_whole, Vector<int64_t> starts,
                                 Vector<int32_t> groups, Vector<int32_t> caps, double variety,
                                 Varied varied, int num_threads) {
  const int64_t n = lists.shape(0), length = lists.shape(1);
  const int64_t n_items = static_cast<int64_t>(starts.shape(0)) - 1, n_groups = caps.shape(0);
  check_length("scores", scores.shape(0), n);
  check_columns("scores", scores.shape(1), length);
  check_length("before", before.shape(0), n);
  check_length("room", room.shape(0), n);
  check_length("is_whole", is_whole.shape(0), n);
  check_all_between("lists", lists.data(), lists.size(), -1, n_items - 1);
  check_all_between("before", before.data(), before.size(), -1, n_items - 1);
  for (const auto& items : {lists, before}) check_groups(items, starts, groups, n_groups);
  if (!(variety >= 0 && variety <= 1) || (variety > 0 && !varied))
    throw std::invalid_argument("variety must lie between 0 and 1, and needs varied above 0");
  if (varied) {
    check_length("varied[0]", varied->first.shape(0), n);
    check_length("varied[1]", varied->second.shape(0), n_items);
  }
  const Request request = {lists.data(),
                           scores.data(),
                           before.data(),
                           room.data(),
                           is_whole.data(),
                           length,
                           static_cast<int64_t>(before.shape(1)),
                           n_items,
                           starts.data(),
                           groups.data(),
                           caps.data(),
                           n_groups,
                           variety,
                           varied ? varied->first.data() : nullptr,
                           varied ? varied->second.data() : nullptr,
                           varied ? static_cast<int64_t>(varied->second.shape(1)) : 0};
  auto chosen = allocate<int32_t>(n * length);
  std::fill_n(chosen.get(), n * length, -1);
  {
    nb::gil_scoped_release released;
    const double work = static_cast<double>(n) * length * (2.0 + 2.0 * request.d);
    const int threads = thread_count(num_threads, n, work);
    const auto make = [&] { return Chooser(request); };
    parallel_for(threads, n, 16, make,
                 [&](int64_t i, Chooser& chooser) { chooser.run(i, chosen.get() + i * length); });
  }
  return hand_over(std::move(chosen), n, length);
}

}  // namespace

void bind_choose_from_lists(nb::module_& m) {
  m.def("choose_from_lists", &choose_from_lists, nb::kw_only(), nb::arg("lists"), nb::arg("scores"),
        nb::arg("before"), nb::arg("room"), nb::arg("is_whole"), nb::arg("starts"),
        nb::arg("groups"), nb::arg("caps"), nb::arg("variety") = 0.0,
        nb::arg("varied") = nb::none(), nb::arg("num_threads"),
        "The places of each list that are taken, in this order, then -1: as many as there is room "
        "for. An item is passed over if as many as its cap of one of its groups, "
        "groups[starts[i]:starts[i + 1]], are there already, those of before among them. With "
        "variety, varied is what scores are multiplied with and the rows of items: each time the "
        "item is taken for which (1 - variety) * scale * score, less variety times its largest "
        "cosine with those that are there, is largest. A list that is not whole ends where "
        "another item might be better.");
}
