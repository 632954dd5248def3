#pragma once
// Programs of test models, and a sequence's cache for running them.
#include <string>
#include <string_view>

#include "src/engine/session.h"
#include "src/forward/record.h"
#include "tests/model/support.h"

namespace tessera::test {

inline const TestModel kTinyModel = {"tessera-tiny", false};

inline std::string path_of(const TestModel& model) {
    if (std::string_view(model.name) == kTinyModel.name)
        return std::string(TSR_SOURCE_DIR) + "/models/tessera-tiny.gguf";
    return model.path();
}

/// The tokens of one sequence that programs run over, one after the other.
class CachedText {
  public:
    explicit CachedText(const kv::Layout& layout, int64_t n_tok)
        : pool_(std::move(*kv::PagePool::create(layout, layout.pages_of(n_tok)))), sequence_(pool_) {}

    const kv::Layout& layout() const { return pool_.layout(); }
    int64_t n_tok() const { return sequence_.n_tok(); }
    /// Reserves n more tokens; returns the pages of each layer group.
    std::vector<std::byte* const*> reserve(int64_t n) {
        EXPECT_TRUE(sequence_.reserve(n));
        std::vector<std::byte* const*> pages;
        for (int32_t group = 0; group < layout().n_layer_groups; ++group)
            pages.push_back(sequence_.pages(group));
        return pages;
    }
    void advance(int64_t n) {
        sequence_.advance(n);
        sequence_.evict_out_of_window();
    }

  private:
    kv::PagePool pool_;
    kv::Sequence sequence_;
};

}  // namespace tessera::test
