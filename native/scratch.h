// Memory that one thread of the listwise kernel works in.
#pragma once
#include <memory>

#include "arrays.h"
#include "kernels/kernels.h"

namespace robirank {

class ThreadScratch {
 public:
  explicit ThreadScratch(int64_t most_relevant)
      : items_(allocate<double>(3 * kShortList + kKept)),
        relevant_(allocate<double>(6 * most_relevant)),
        grid_(allocate<double>(size_t{kGridRows} * kMaxCells)),
        counts_(allocate<uint64_t>(kMaxFine)),
        table_(allocate<float>(2 * kMaxFine)) {}
  Scratch view() const {
    return {items_.get(), relevant_.get(), grid_.get(), counts_.get(), table_.get()};
  }

 private:
  std::unique_ptr<double[]> items_, relevant_, grid_;
  std::unique_ptr<uint64_t[]> counts_;
  std::unique_ptr<float[]> table_;
};

}  // namespace robirank
