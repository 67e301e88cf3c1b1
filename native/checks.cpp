#include "checks.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace robirank {

namespace {

std::string element(const char* name, size_t i, int64_t value) {
  return std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(value);
}

// One pass without branches, so that it vectorises; the culprit is looked for only if there is one.
template <class T>
void check_all_below(const char* name, const T* values, size_t n, int64_t limit) {
  using Unsigned = std::make_unsigned_t<T>;  // negative values become large ones
  const Unsigned bound = static_cast<Unsigned>(std::min<uint64_t>(
      static_cast<uint64_t>(limit), uint64_t{std::numeric_limits<T>::max()} + 1));
  Unsigned bad = 0;
  for (size_t i = 0; i < n; ++i) bad |= static_cast<Unsigned>(values[i]) >= bound;
  if (!bad) return;
  const T* culprit =
      std::find_if(values, values + n, [=](T v) { return static_cast<Unsigned>(v) >= bound; });
  throw std::invalid_argument(std::string(name) + " must be at least 0 and less than " +
                              std::to_string(limit) + "; " +
                              element(name, culprit - values, *culprit));
}

}  // namespace

void check_between(const char* name, int64_t value, int64_t low, int64_t high) {
  if (low <= value && value <= high) return;
  throw std::invalid_argument(std::string(name) + " must be between " + std::to_string(low) +
                              " and " + std::to_string(high) + "; got " + std::to_string(value));
}

void check_all_between(const char* name, const int32_t* values, int64_t n, int64_t low,
                       int64_t high) {
  if (!n) return;
  int32_t least = values[0], most = values[0];
  for (int64_t i = 1; i < n; ++i) {  // a loop that compilers vectorise
    least = values[i] < least ? values[i] : least;
    most = values[i] > most ? values[i] : most;
  }
  check_between(name, least, low, high);
  check_between(name, most, low, high);
}

void check_length(const char* name, size_t length, int64_t expected) {
  if (static_cast<int64_t>(length) == expected) return;
  throw std::invalid_argument(std::string(name) + " must have length " + std::to_string(expected) +
                              "; got " + std::to_string(length));
}

void check_columns(const char* name, size_t columns, int64_t expected) {
  if (static_cast<int64_t>(columns) == expected) return;
  throw std::invalid_argument(std::string(name) + " must have " + std::to_string(expected) +
                              " columns; got " + std::to_string(columns));
}

void check_offsets(const char* name, const Vector<int64_t>& offsets) {
  const int64_t *begin = offsets.data(), *end = begin + offsets.shape(0);
  const int64_t* fall = std::is_sorted_until(begin, end);
  if (begin != end && *begin == 0 && fall == end) return;
  const std::string rule = std::string(name) + " must begin with 0 and never fall; ";
  if (begin == end) throw std::invalid_argument(rule + "it is empty");
  if (*begin != 0) throw std::invalid_argument(rule + element(name, 0, *begin));
  throw std::invalid_argument(rule + element(name, fall - begin, *fall) + " after " +
                              std::to_string(fall[-1]));
}

void check_offsets(const char* name, const Vector<int64_t>& offsets, int64_t n) {
  check_offsets(name, offsets);
  const int64_t last = offsets.data()[offsets.shape(0) - 1];
  if (last != n)
    throw std::invalid_argument(std::string(name) + " must end with " + std::to_string(n) +
                                "; it ends with " + std::to_string(last));
}

void check_indices(const char* name, const Vector<int32_t>& values, int64_t limit) {
  check_all_below(name, values.data(), values.shape(0), limit);
}

void check_indices(const char* name, const Vector<int64_t>& values, int64_t limit) {
  check_all_below(name, values.data(), values.shape(0), limit);
}

}  // namespace robirank
