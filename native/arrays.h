// Arrays in from Python and out to it, and how many threads share the work.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>

namespace robirank {

namespace nb = nanobind;

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Result = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T>
std::unique_ptr<T[]> allocate(size_t n) {
  return std::unique_ptr<T[]>(new T[std::max<size_t>(n, 1)]);  // left uninitialised
}

template <class T>
Result<T> hand_over(std::unique_ptr<T[]> memory, size_t n) {
  T* data = memory.release();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return Result<T>(data, {n}, owner);
}

// Uninitialised floats that begin on a cache line.
struct FreeLines {
  void operator()(float* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
using Lines = std::unique_ptr<float[], FreeLines>;
inline Lines allocate_lines(size_t n) {
  return Lines(static_cast<float*>(::operator new[](n * sizeof(float) + 1, std::align_val_t{64})));
}

// Row b of a ragged array with n entries is offsets[b]:offsets[b + 1].
inline void check_offsets(const Vector<int64_t>& offsets, size_t n) {
  const int64_t *begin = offsets.data(), *end = begin + offsets.shape(0);
  if (begin == end || *begin != 0 || end[-1] != static_cast<int64_t>(n) ||
      !std::is_sorted(begin, end))
    throw std::invalid_argument("offsets must rise from 0 to the number of points");
}

inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// How many threads are worth waking: no more than there are tasks, and about a millisecond of work
// for each (`work` counts elementary steps of about a nanosecond).
inline int thread_count(int wanted, int64_t tasks, double work) {
  const int64_t worth = 1 + static_cast<int64_t>(std::min(work / 1e6, 1e6));
  return static_cast<int>(std::max<int64_t>(1, std::min<int64_t>({wanted, tasks, worth})));
}

}  // namespace robirank
