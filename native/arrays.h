// Arrays from and to Python, and how many threads share the work.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>

namespace robirank {

namespace nb = nanobind;

// Contiguous arrays to read. An array of another type is converted, which makes a copy, unless the
// argument is declared with noconvert().
template <class T>
using Vector = nb::ndarray<nb::numpy, const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<nb::numpy, const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Arrays to write to; always declared with noconvert(), because a copy would be lost.
template <class T>
using MutableVector = nb::ndarray<nb::numpy, T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using MutableMatrix = nb::ndarray<nb::numpy, T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// New arrays for Python.
template <class T>
using Result = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
template <class T>
using Table = nb::ndarray<nb::numpy, T, nb::ndim<2>>;

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

template <class T>
Table<T> hand_over(std::unique_ptr<T[]> memory, size_t rows, size_t columns) {
  T* data = memory.release();
  nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return Table<T>(data, {rows, columns}, owner);
}

// Uninitialised floats that begin on a cache line.
struct FreeLines {
  void operator()(float* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
using Lines = std::unique_ptr<float[], FreeLines>;
inline Lines allocate_lines(size_t n) {
  return Lines(static_cast<float*>(::operator new[](n * sizeof(float) + 1, std::align_val_t{64})));
}

inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// How many threads are worth starting: no more than there are tasks, and about a millisecond of
// work for each (`work` counts elementary steps of about a nanosecond).
inline int thread_count(int wanted, int64_t tasks, double work) {
  const int64_t worth = 1 + static_cast<int64_t>(std::min(work / 1e6, 1e6));
  return static_cast<int>(std::max<int64_t>(1, std::min<int64_t>({wanted, tasks, worth})));
}

}  // namespace robirank
