// A batch of lists for the listwise kernel.
#pragma once
#include <cstdint>
#include <type_traits>

#include "arrays.h"
#include "kernels/kernels.h"

namespace robirank {

// List q has the scores offsets[q]:offsets[q + 1] and the relevant items
// relevant[starts[q]:starts[q + 1]], which are places within the list.
class ListBatch {
 public:
  ListBatch(Vector<int64_t> offsets, Vector<int64_t> starts, Vector<int32_t> relevant,
            Vector<double> weight);

  int64_t n_lists() const { return static_cast<int64_t>(offsets_.shape(0)) - 1; }
  int64_t n_items() const { return offsets_.data()[n_lists()]; }  // of all lists
  int64_t n_relevant() const { return relevant_.shape(0); }
  int64_t longest() const { return longest_; }
  int64_t most_relevant() const { return most_relevant_; }
  double work() const { return work_; }  // elementary steps of the direct sum

  int64_t begin(int64_t q) const { return offsets_.data()[q]; }
  int64_t size(int64_t q) const { return begin(q + 1) - begin(q); }
  int64_t relevant_begin(int64_t q) const { return starts_.data()[q]; }
  int64_t relevant_size(int64_t q) const { return relevant_begin(q + 1) - relevant_begin(q); }

  template <class T>
  List<T> list(int64_t q, const T* its_scores) const {
    return {its_scores, size(q), relevant_.data() + relevant_begin(q),
            weight_.data() + relevant_begin(q), relevant_size(q)};
  }

 private:
  Vector<int64_t> offsets_, starts_;
  Vector<int32_t> relevant_;
  Vector<double> weight_;
  int64_t longest_ = 0, most_relevant_ = 0;
  double work_ = 0.0;
};

// The kernels for scores and features of type T.
template <class T>
const LossKernels<T>& loss_kernels() {
  if constexpr (std::is_same_v<T, float>)
    return kernels().lists.f32;
  else
    return kernels().lists.f64;
}

}  // namespace robirank
