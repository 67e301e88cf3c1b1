// Checks of arguments, made before native code relies on them. The errors (ValueError in Python)
// name the argument, what was given and what would be right.
#pragma once
#include <cstdint>

#include "arrays.h"

namespace robirank {

// low ≤ value ≤ high
void check_between(const char* name, int64_t value, int64_t low, int64_t high);

void check_length(const char* name, size_t length, int64_t expected);
void check_columns(const char* name, size_t columns, int64_t expected);

// Row b of a ragged array of n entries is offsets[b]:offsets[b + 1].
void check_offsets(const char* name, const Vector<int64_t>& offsets, int64_t n);
void check_offsets(const char* name, const Vector<int64_t>& offsets);  // any n

// low ≤ value ≤ high for each of n values.
void check_all_between(const char* name, const int32_t* values, int64_t n, int64_t low,
                       int64_t high);

// Every value is an index below `limit`.
void check_indices(const char* name, const Vector<int32_t>& values, int64_t limit);
void check_indices(const char* name, const Vector<int64_t>& values, int64_t limit);

}  // namespace robirank
