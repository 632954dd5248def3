#pragma once
// Importance matrices: mean squares of the inputs of each weight column, collected over a text.
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "ggml-like/gguf/file.h"

namespace tessera::convert {

/// From a GGUF file: tensors NAME.in_sum2 [n_expert, n_in] or [n_in], sums of squares, and NAME.counts
/// [n_expert, 1] or [1]: how many rows were summed. For an expert without rows all inputs have equal
/// importance.
class Importance {
  public:
    /// Errors: no importance matrix, inconsistent shapes, sums or counts that are negative or not finite.
    static Result<Importance> read(const gguf::File& file);

    /// Mean squares [n_expert * n_in], experts outermost; empty for a tensor that was not collected.
    std::span<const float> find(std::string_view tensor) const;
    size_t size() const { return values_.size(); }

    /// Its origin, for the keys of a file quantized with it.
    struct Source {
        std::string file, datasets;  ///< the file's name without folders; names of texts, separated by commas
        int64_t n_chunks = 0;
    };
    const Source& source() const { return source_; }

  private:
    Source source_;
    std::map<std::string, std::vector<float>, std::less<>> values_;
};

}  // namespace tessera::convert
