// The best items of a list: in which order they come, and how many of a group are enough.
#pragma once
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "arrays.h"

namespace robirank {

struct Entry {
  float score;
  int32_t item;
};

// Larger scores come first; of equal ones the item of the lower rank, which is its number unless
// ranks are given.
struct Order {
  const int32_t* ranks = nullptr;

  int32_t rank(int32_t item) const { return ranks ? ranks[item] : item; }

  bool operator()(const Entry& a, const Entry& b) const {
    return a.score != b.score ? a.score > b.score : rank(a.item) < rank(b.item);
  }

  // What the score of an item must exceed to come before an entry of this score. Items are met in
  // rising order, so that without ranks an equal score comes too late.
  float bound(float score) const {
    return ranks ? std::nextafter(score, -std::numeric_limits<float>::infinity()) : score;
  }
};

// Of each group of items the first `enough` are wanted; the others may be left out.
struct Groups {
  const int32_t* of_item = nullptr;  // −1: in no group
  const int32_t* enough = nullptr;
  int64_t n = 0;
};

// Finds the best of some entries. With groups, what is left out does not depend on the pieces in
// which entries come: an item that has enough of its group before it in a part has them in the
// whole.
class Selection {
 public:
  Selection(const Order& order, const Groups& groups)
      : order_(order), groups_(groups), count_(groups.n, 0) {}

  const Order& order() const { return order_; }
  const Groups& groups() const { return groups_; }

  // Moves the best `wanted` entries to the front, in order, and returns how many there are. `full`
  // is told the group and the score of an entry with which a group has enough.
  template <class Full>
  int64_t keep(Entry* entries, int64_t n, int64_t wanted, Full full) {
    if (!groups_.n) {
      const int64_t found = std::min(n, wanted);
      std::partial_sort(entries, entries + found, entries + n, order_);
      return found;
    }
    std::sort(entries, entries + n, order_);
    int64_t kept = 0;
    for (int64_t i = 0; i < n && kept < wanted; ++i)
      if (counts(entries[i], full)) entries[kept++] = entries[i];
    for (int64_t i = 0; i < kept; ++i) uncount(entries[i]);
    return kept;
  }

  int64_t keep(Entry* entries, int64_t n, int64_t wanted) {
    return keep(entries, n, wanted, [](int32_t, float) {});
  }

  // Writes the best, in order, and fills up with item −1.
  void write(Entry* entries, int64_t n, int64_t wanted, int32_t* items, float* scores) {
    const int64_t found = keep(entries, n, wanted);
    for (int64_t i = 0; i < wanted; ++i) {
      items[i] = i < found ? entries[i].item : -1;
      scores[i] = i < found ? entries[i].score : -FLT_MAX;
    }
  }

 private:
  template <class Full>
  bool counts(const Entry& entry, Full& full) {
    const int32_t group = groups_.of_item[entry.item];
    if (group < 0) return true;
    if (count_[group] == groups_.enough[group]) return false;
    if (++count_[group] == groups_.enough[group]) full(group, entry.score);
    return true;
  }

  void uncount(const Entry& entry) {
    const int32_t group = groups_.of_item[entry.item];
    if (group >= 0) count_[group] = 0;
  }

  Order order_;
  Groups groups_;
  std::vector<int32_t> count_;  // of each group among the entries kept; zeros between calls
};

// The best so far of each user of a batch: a buffer of about twice as many entries as are wanted.
// When it is full it is cut back, and the worst that stays is the threshold for what follows.
class Best {
 public:
  Best(int64_t users, int64_t padded, int64_t wanted, int64_t items, const Order& order,
       const Groups& groups)
      : selection_(order, groups),
        wanted_(wanted),
        room_(capacity(wanted, items)),
        entries_(allocate<Entry>(users * room_)),
        count_(users, 0),
        threshold_(padded, std::numeric_limits<float>::infinity()),
        floors_(groups.n <= kMostFloors ? users * groups.n : 0, kLowest) {
    std::fill_n(threshold_.begin(), users, kLowest);
  }

  // How much memory the entries and floors of one user take.
  static int64_t bytes(int64_t wanted, int64_t items, const Groups& groups) {
    const int64_t floors = groups.n <= kMostFloors ? groups.n : 0;
    return capacity(wanted, items) * sizeof(Entry) + floors * sizeof(float);
  }

  const float* threshold(int64_t user) const { return threshold_.data() + user; }

  // Whether a score is good enough for `add`, as far as the user's entries tell.
  bool may_come(int64_t user, const Entry& entry) const {
    return entry.score > threshold_[user] && (floors_.empty() || is_above_floor(user, entry));
  }

  void add(int64_t user, const Entry& entry) {
    if (count_[user] == room_) cut(user);  // only where there are more items than room
    entries_[user * room_ + count_[user]++] = entry;
  }

  void finish(int64_t user, int32_t* items, float* scores) {
    selection_.write(entries_.get() + user * room_, count_[user], wanted_, items, scores);
  }

 private:
  static constexpr float kLowest = -std::numeric_limits<float>::infinity();
  // Lists of fewer entries than there are groups fill up, and then have a threshold; where there
  // are few groups, each has a floor, the threshold for its own items.
  static constexpr int64_t kMostFloors = 1024;

  static int64_t capacity(int64_t wanted, int64_t items) {
    return std::min(std::max<int64_t>(2 * wanted, 64), std::max<int64_t>(items, 1));
  }

  bool is_above_floor(int64_t user, const Entry& entry) const {
    const Groups& groups = selection_.groups();
    const int32_t group = groups.of_item[entry.item];
    return group < 0 || entry.score > floors_[user * groups.n + group];
  }

  void cut(int64_t user) {
    Entry* own = entries_.get() + user * room_;
    const Order& order = selection_.order();
    if (!selection_.groups().n) {
      std::nth_element(own, own + wanted_ - 1, own + room_, order);
      count_[user] = wanted_;
    } else {
      count_[user] = selection_.keep(own, room_, wanted_, [&](int32_t group, float score) {
        if (!floors_.empty()) floors_[user * selection_.groups().n + group] = order.bound(score);
      });
    }
    if (count_[user] == wanted_) threshold_[user] = order.bound(own[wanted_ - 1].score);
  }

  Selection selection_;
  int64_t wanted_, room_;
  std::unique_ptr<Entry[]> entries_;
  std::vector<int64_t> count_;
  std::vector<float> threshold_, floors_;
};

}  // namespace robirank
