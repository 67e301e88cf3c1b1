// Random numbers that depend on nothing but a seed and a stream's number, so that every row can
// have its own stream and the number of threads cannot matter.
#pragma once
#include <cstdint>

namespace robirank {

// SplitMix64 (Steele, Lea and Flood, 2014): state += kSplitMixStep, then this.
constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15;
inline uint64_t splitmix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

class Stream {
 public:
  Stream(uint64_t seed, uint64_t number) : state_(splitmix(seed + kSplitMixStep * (number + 1))) {}

  uint64_t bits() { return splitmix(state_ += kSplitMixStep); }

  // Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

  // Uniform in 0, …, n − 1, up to n / 2^53.
  int64_t below(int64_t n) { return static_cast<int64_t>(uniform() * static_cast<double>(n)); }

 private:
  uint64_t state_;
};

}  // namespace robirank
