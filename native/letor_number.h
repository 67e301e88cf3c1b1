// Numbers in text, fast where that is exact.
//
// The common number has few digits: its digits fit into 53 bits and its power of ten into a double,
// so that one correctly rounded division or multiplication gives the nearest double (Clinger's fast
// path). Everything else goes to the standard library. Either way the result is the double that
// Python's float() gives.
#pragma once
#include <locale.h>
#include <stdlib.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#include <cfloat>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>

namespace letor {

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

inline constexpr double kPowersOfTen[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                          1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                          1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// The nearest double to an unsigned decimal number that is known to be well formed; infinity where
// it is too large. The C locale is asked for by name: a program may have chosen a decimal comma.
inline double slow_number(const char* first, const char* last) {
#ifdef __cpp_lib_to_chars
  double value = 0;
  if (std::from_chars(first, last, value).ec == std::errc()) return value;
#endif
  static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
  return strtod_l(std::string(first, last).c_str(), nullptr, c_locale);
}

// Appends the digits at p to *mantissa and returns the place after them. Most numbers have at most
// seven digits behind the point: those are read at once, eight bytes of text in one register.
inline const char* read_digits(const char* p, const char* end, std::uint64_t* mantissa) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  static constexpr std::uint64_t kScale[] = {1,      10,      100,      1000,     10000,
                                             100000, 1000000, 10000000, 100000000};
  if (end - p >= 8) {
    std::uint64_t text;
    std::memcpy(&text, p, 8);
    text ^= 0x3030303030303030;  // a digit becomes its value, anything else 10 or more
    const std::uint64_t others = ((text + 0x7676767676767676) | text) & 0x8080808080808080;
    const int n = others ? __builtin_ctzll(others) >> 3 : 8;
    if (n == 0) return p;
    text <<= 64 - 8 * n;
    text = (text * (1 + (10 << 8))) >> 8;
    text = ((text & 0x00FF00FF00FF00FF) * (1 + (100 << 16))) >> 16;
    text = ((text & 0x0000FFFF0000FFFF) * (1 + (10000ULL << 32))) >> 32;
    *mantissa = *mantissa * kScale[n] + text;
    p += n;
    if (n < 8) return p;
  }
#endif
  (void)end;
  while (is_digit(*p)) *mantissa = *mantissa * 10 + static_cast<std::uint64_t>(*p++ - '0');
  return p;
}

// Reads a decimal number at p: sign, digits, point, digits, exponent. Returns the place after it,
// or nullptr where there is none. The text up to `end` must end with something that is no digit.
inline const char* parse_number(const char* p, const char* end, double* value) {
  const bool negative = *p == '-';
  if (negative || *p == '+') ++p;
  const char* const first = p;
  std::uint64_t mantissa = 0;
  while (is_digit(*p)) mantissa = mantissa * 10 + static_cast<std::uint64_t>(*p++ - '0');
  std::int64_t n_digits = p - first;
  std::int64_t exponent = 0;
  if (*p == '.') {
    const char* const fraction = ++p;
    p = read_digits(p, end, &mantissa);
    exponent = fraction - p;
    n_digits -= exponent;
  }
  if (n_digits == 0) return nullptr;
  if (*p == 'e' || *p == 'E') {
    ++p;
    const bool down = *p == '-';
    if (down || *p == '+') ++p;
    if (!is_digit(*p)) return nullptr;
    std::int64_t shift = 0;
    for (; is_digit(*p); ++p) {
      if (shift < 1'000'000) shift = shift * 10 + (*p - '0');
    }
    exponent += down ? -shift : shift;
  }
  double magnitude;
  // 19 digits cannot have overflowed the mantissa; beyond 2^53 it would not be exact as a double.
  if (FLT_EVAL_METHOD == 0 && n_digits <= 19 && mantissa <= (1ULL << 53) && exponent >= -22 &&
      exponent <= 22) {
    magnitude = static_cast<double>(mantissa);
    magnitude =
        exponent < 0 ? magnitude / kPowersOfTen[-exponent] : magnitude * kPowersOfTen[exponent];
  } else {
    magnitude = slow_number(first, p);
  }
  *value = negative ? -magnitude : magnitude;
  return p;
}

// Appends the shortest text that reads back, by way of a double, as the same number.
template <typename T>
void append_number(std::string* text, T value) {
  char buffer[64];
  int size = 0;
#ifdef __cpp_lib_to_chars
  char* const end = std::to_chars(buffer, buffer + sizeof buffer - 1, value).ptr;
  *end = '\n';
  double back = 0;
  if (parse_number(buffer, end + 1, &back) == end && static_cast<T>(back) == value) {
    size = static_cast<int>(end - buffer);
  }
#endif
  if (size == 0) {
    const int digits = sizeof(T) == sizeof(float) ? 9 : 17;
    size = snprintf(buffer, sizeof buffer, "%.*g", digits, static_cast<double>(value));
    for (int i = 0; i < size; ++i) {
      if (buffer[i] == ',') buffer[i] = '.';  // a decimal comma of the program's locale
    }
  }
  text->append(buffer, static_cast<std::size_t>(size));
}

}  // namespace letor
