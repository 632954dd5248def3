#pragma once
// A model's predictions over a text, in a file, for another model to be measured against. The format is that
// of llama.cpp's perplexity tool: "_logits_", then int32 n_ctx, n_vocab, n_windows, then the tokens
// [n_windows, n_ctx], then for each judged token float scale, float least, uint16 steps[n_vocab rounded up to
// even] (BaseRow). Little endian.
#include <memory>
#include <string>

#include "common/mapped_file.h"
#include "ggml-like/gguf/output_file.h"
#include "src/engine/perplexity.h"

namespace tessera::engine {

/// Reads. Rows are views into the mapped file.
class KlBase {
  public:
    /// Errors name the file: no such format, numbers out of range, a size that is not what they say, tokens
    /// outside the vocabulary.
    static Result<KlBase> open(const std::string& path);

    /// The text as it was cut; `bos` is not kept there.
    const Windows& windows() const { return windows_; }
    int64_t n_vocab() const { return n_vocab_; }

    /// Judged token j of window w. Errors: a scale that is no number.
    Result<BaseRow> row(int64_t w, int64_t j) const;

  private:
    MappedFile file_;
    Windows windows_;
    int64_t n_vocab_ = 0;
    size_t rows_at_ = 0, row_bytes_ = 0;
};

/// Writes, in the order of eval_windows. The file appears when it is complete.
class KlBaseWriter {
  public:
    static Result<std::unique_ptr<KlBaseWriter>> create(const std::string& path, const Windows& windows,
                                                        int64_t n_vocab);
    Result<void> append(const BaseRow& row);
    Result<void> finish() { return file_.commit(); }

  private:
    KlBaseWriter() = default;
    gguf::OutputFile file_;
};

}  // namespace tessera::engine
