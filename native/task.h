// A task of the stratified algorithm: one part of the users on one block of the items.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "arrays.h"
#include "kernels/kernels.h"

namespace robirank {

// Rows of U or V with what row-wise Adagrad keeps for each: the sum of its mean squares, the
// penalty that one of the row's interactions pays, and perhaps the row that the penalty pulls to.
class FactorRows {
 public:
  FactorRows(MutableMatrix<float> rows, MutableVector<float> sums, Vector<float> penalty,
             std::optional<Matrix<float>> centre);

  int64_t n() const { return rows_.shape(0); }
  int64_t width() const { return rows_.shape(1); }
  float* rows() const { return rows_.data(); }
  float* sums() const { return sums_.data(); }
  const float* penalty() const { return penalty_.data(); }
  const float* centre() const { return centre_ ? centre_->data() : nullptr; }  // null: zero

 private:
  MutableMatrix<float> rows_;
  MutableVector<float> sums_;
  Vector<float> penalty_;
  std::optional<Matrix<float>> centre_;
};

// The interactions of a part of the users: user x has items[indptr[x]:indptr[x + 1]], each below
// n_items.
class UserItems {
 public:
  UserItems(Vector<int64_t> indptr, Vector<int32_t> items, std::optional<Vector<float>> weight,
            int64_t n_items);

  int64_t n() const { return items_.shape(0); }
  int64_t n_users() const { return static_cast<int64_t>(indptr_.shape(0)) - 1; }
  int64_t n_items() const { return n_items_; }
  const int64_t* indptr() const { return indptr_.data(); }
  const int32_t* items() const { return items_.data(); }
  const float* weight() const { return weight_ ? weight_->data() : nullptr; }  // null: all 1

 private:
  Vector<int64_t> indptr_;
  Vector<int32_t> items_;
  std::optional<Vector<float>> weight_;
  int64_t n_items_;
};

// The items at places first : first + items of the epoch's order, cut into cells of about
// `cell_items` items: no more, unless that would leave an item alone.
class Block {
 public:
  Block(const Vector<int32_t>& position, int64_t first, int64_t items, int64_t cell_items);

  int64_t items() const { return items_; }
  int64_t cells() const { return cells_; }
  int64_t begin(int64_t cell) const { return items_ * cell / cells_; }

  // Calls visitor(interaction, user, place in the block) for the interactions whose items lie in
  // the block.
  template <class Visitor>
  void visit(const UserItems& user_items, Visitor visitor) const {
    const int64_t *indptr = user_items.indptr(), n_users = user_items.n_users();
    const int32_t* items = user_items.items();
    const uint32_t first = static_cast<uint32_t>(first_), size = static_cast<uint32_t>(items_);
    for (int64_t x = 0; x < n_users; ++x)
      for (int64_t r = indptr[x]; r < indptr[x + 1]; ++r) {
        const uint32_t place = static_cast<uint32_t>(position_[items[r]]) - first;
        if (place < size) visitor(r, static_cast<int32_t>(x), place);
      }
  }

 private:
  const int32_t* position_;  // of every item in the epoch's order
  int64_t first_, items_, cells_;
};

// The interactions of a part that lie in a block, cell by cell, in the order of the users within a
// cell.
class SortedInteractions {
 public:
  SortedInteractions(const UserItems& user_items, const Block& block);

  // What the kernel needs to know of cell c, but for the proposal.
  Cell cell(int64_t c, const Block& block, const FactorRows& users, const FactorRows& items,
            uint64_t key) const;

 private:
  std::vector<int64_t> starts_;
  std::unique_ptr<int32_t[]> user_;
  std::unique_ptr<uint16_t[]> item_;
  std::unique_ptr<float[]> weight_;
};

// The key of a cell's random numbers.
uint64_t cell_key(uint64_t key, int64_t cell);

// The kernels take rows of a whole number of vectors, whatever the instruction set.
void check_row_width(const char* name, int64_t width);

// Rows, interactions and items must fit together.
void check_task(const FactorRows& users, const FactorRows& items, const UserItems& user_items,
                const Vector<int32_t>& position);

}  // namespace robirank
