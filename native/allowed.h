// Which items a search may return: one bit an item, read as many at a time as a tile has.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

namespace robirank {

class Bits {
 public:
  explicit Bits(int64_t n) : words_(n / 64 + 2, 0) {}

  // Bytes as NumPy packs them: bit i of byte k is that of item 8 k + i.
  Bits(const uint8_t* bytes, int64_t n) : Bits(n) {
    for (int64_t i = 0; i < (n + 7) / 8; ++i)
      words_[i / 8] |= static_cast<uint64_t>(bytes[i]) << (i % 8 * 8);
  }

  void set(int64_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
  bool has(int64_t i) const { return words_[i / 64] >> (i % 64) & 1; }
  void clear() { std::fill(words_.begin(), words_.end(), 0); }

  // The bits at : at + 64; those past the end are 0.
  uint64_t from(int64_t at) const {
    const uint64_t* word = words_.data() + at / 64;
    const int64_t shift = at % 64;
    return shift ? word[0] >> shift | word[1] << (64 - shift) : word[0];
  }

 private:
  std::vector<uint64_t> words_;
};

}  // namespace robirank
