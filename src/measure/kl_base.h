#pragma once
// A file with a model's predictions over a text, the base for the KL divergence of other models. The format
// is that of llama.cpp's perplexity tool: "_logits_", then int32 n_ctx, n_vocab, n_windows, then the tokens
// [n_windows, n_ctx], then for each evaluated token float scale, float least, uint16 steps[n_vocab rounded up
// to even] (BaseRow). Little endian.
#include <memory>
#include <string>

#include "common/mapped_file.h"
#include "ggml-like/gguf/output_file.h"
#include "src/measure/perplexity.h"

namespace tessera::measure {

/// Reads a base. Rows are views into the mapped file.
class KlBase {
  public:
    /// Errors name the file: another format, numbers out of range, a file size that does not match them,
    /// tokens outside the vocabulary.
    static Result<KlBase> open(const std::string& path);

    /// The windows of the text; `bos` is not stored in the file.
    const Windows& windows() const { return windows_; }
    int64_t n_vocab() const { return n_vocab_; }

    /// Row of evaluated token j of window w. Errors: a scale or offset that is not finite.
    Result<BaseRow> row(int64_t w, int64_t j) const;

  private:
    MappedFile file_;
    Windows windows_;
    int64_t n_vocab_ = 0;
    size_t rows_at_ = 0, row_bytes_ = 0;
};

/// Writes a base, in the order of eval_windows. The file appears when it is complete.
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

}  // namespace tessera::measure
