// Loops on several threads: those of OpenMP where the build has it, otherwise the standard
// library's.
//
// On macOS and Windows the package is built without OpenMP. There each package that uses it brings
// a copy of its runtime, and two of them in one process (scikit-learn has one) can end the process.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace robirank {

// body() on so many threads, the calling one among them. It must not throw.
template <class Body>
void on_threads(int threads, const Body& body) {
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
  body();
#else
  std::vector<std::thread> others;
  try {
    for (int i = 1; i < threads; ++i) others.emplace_back(body);
  } catch (const std::system_error&) {
    // The system gives no more threads: those that have started do the work.
  }
  body();
  for (std::thread& thread : others) thread.join();
#endif
}

// body(i, memory) for i = 0 … n − 1, `chunk` of them at a time, on so many threads. Each thread has
// a memory of its own, which make_memory() gives. What a thread throws, such as bad_alloc, ends the
// loop and is thrown to the caller: an exception must not leave a thread by itself.
template <class Make, class Body>
void parallel_for(int threads, int64_t n, int64_t chunk, const Make& make_memory,
                  const Body& body) {
  std::atomic<int64_t> next{0};
  std::exception_ptr error;
  std::mutex mutex;
  on_threads(threads, [&] {
    try {
      auto memory = make_memory();
      for (int64_t first; (first = next.fetch_add(chunk, std::memory_order_relaxed)) < n;)
        for (int64_t i = first; i < std::min(n, first + chunk); ++i) body(i, memory);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!error) error = std::current_exception();
      next = n;
    }
  });
  if (error) std::rethrow_exception(error);
}

// body(i) for i = 0 … n − 1, where threads need no memory of their own.
template <class Body>
void parallel_for(int threads, int64_t n, int64_t chunk, const Body& body) {
  parallel_for(threads, n, chunk, [] { return 0; }, [&](int64_t i, int) { body(i); });
}

}  // namespace robirank
