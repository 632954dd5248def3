#pragma once
// A Hugging Face folder presented as the converted GGUF file: it has the file's keys and tensors, whose bytes
// are computed on demand. Planning and writing work on it as on any file.
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/threads.h"
#include "ggml-like/gguf/file.h"
#include "quants/kernels/table.h"
#include "src/convert/hf_recipe.h"

namespace tessera::convert {

class HfModel {
  public:
    struct Options {
        std::string pre;  ///< pre-tokenizer that replaces the recognized one; "": none
        /// For memory estimates only: weights and tokenizer may be missing.
        bool plan_only = false;
    };

    /// Reads the folder's configuration, tokenizer and headers of weights, and checks that the result loads
    /// as a model. Errors name the file, key or tensor, the expected value and the value found.
    static Result<std::unique_ptr<HfModel>> open(const std::string& folder, ThreadPool& pool,
                                                 const kernels::KernelTable& kernels, const Options& options);
    ~HfModel();

    /// The tensors' data are zeros, except for computed ones; rows() gives the values.
    const gguf::File& file() const;
    /// Parallel to the file's tensors.
    std::span<const Recipe> recipes() const;
    const RowSource& rows() const;
    bool has_weights() const;
    /// With plan_only: why the file has no tokens.
    const std::optional<Error>& tokenizer_error() const;
    /// "LlamaForCausalLM"
    std::string_view class_name() const;
    /// The type of most of the checkpoint's weights, as the name of a quantization type: "BF16", "F16".
    std::string_view own_mixture() const;
    /// The folder, whose files must not be overwritten.
    std::string folder() const;

  private:
    struct State;
    explicit HfModel(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace tessera::convert
