// A few threads that share out the pieces of a job and sleep in between.
//
// Not OpenMP: its threads spin while they wait for one another, and here they wait often (a chunk
// takes a few milliseconds, and one more thread than there are cores is at work, the reader). Where
// other programs want the cores too, that took about twice as long as sleeping does. OpenMP can
// sleep as well (OMP_WAIT_POLICY=passive, then both are equal), but only its user can ask for that.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace letor {

class Workers {
 public:
  using Task = std::function<void(std::int64_t piece, int worker)>;

  // The calling thread is one of the n; the others start when they are first needed.
  explicit Workers(int n) : n_(n < 1 ? 1 : n) {}
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  ~Workers() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  int size() const { return n_; }

  // Runs task(0), ..., task(n_pieces - 1), each once; rethrows what one of them threw.
  void run(std::int64_t n_pieces, const Task& task) {
    const bool shared = n_ > 1 && n_pieces > 1;
    if (shared) start();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      task_ = &task;
      n_pieces_ = n_pieces;
      next_ = 0;
      error_ = nullptr;
      if (shared) {
        n_busy_ = threads_.size();
        ++job_;
      }
    }
    if (shared) wake_.notify_all();
    work(0);
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return n_busy_ == 0; });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void start() {
    if (!threads_.empty()) return;
    threads_.reserve(static_cast<std::size_t>(n_ - 1));
    try {
      for (int worker = 1; worker < n_; ++worker) {
        threads_.emplace_back([this, worker] { loop(worker); });
      }
    } catch (const std::system_error&) {
      // The system gives no more threads: those that have started do the work.
    }
  }

  void loop(int worker) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (std::uint64_t seen = 0;;) {
      wake_.wait(lock, [&] { return stop_ || job_ != seen; });
      if (stop_) return;
      seen = job_;
      lock.unlock();
      work(worker);
      lock.lock();
      if (--n_busy_ == 0) done_.notify_one();
    }
  }

  void work(int worker) {
    try {
      for (std::int64_t piece; (piece = next_++) < n_pieces_;) (*task_)(piece, worker);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_ = n_pieces_;
    }
  }

  const int n_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::uint64_t job_ = 0;
  bool stop_ = false;
  std::size_t n_busy_ = 0;
  const Task* task_ = nullptr;
  std::int64_t n_pieces_ = 0;
  std::atomic<std::int64_t> next_{0};
  std::exception_ptr error_;
};

}  // namespace letor
