#pragma once
// A pool of scratch memory for calls from many threads; internal to src/text.
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tessera::text {

/// Lends a T to each caller and keeps some, with their caches, for later calls. Thread-safe.
template <class T>
class ScratchPool {
  public:
    class Lease {
      public:
        Lease(ScratchPool& pool, std::unique_ptr<T> item) : pool_(pool), item_(std::move(item)) {}
        ~Lease() { pool_.give_back(std::move(item_)); }
        Lease(const Lease&) = delete;
        Lease& operator=(const Lease&) = delete;
        T& operator*() { return *item_; }
        T* operator->() { return item_.get(); }

      private:
        ScratchPool& pool_;
        std::unique_ptr<T> item_;
    };

    Lease take() {
        std::unique_ptr<T> item;
        {
            const std::lock_guard lock(mutex_);
            if (!idle_.empty()) {
                item = std::move(idle_.back());
                idle_.pop_back();
            }
        }
        return Lease(*this, item ? std::move(item) : std::make_unique<T>());
    }

  private:
    static constexpr size_t kMaxIdle = 8;

    void give_back(std::unique_ptr<T> item) {
        const std::lock_guard lock(mutex_);
        if (idle_.size() < kMaxIdle) idle_.push_back(std::move(item));
    }

    std::mutex mutex_;
    std::vector<std::unique_ptr<T>> idle_;
};

}  // namespace tessera::text
