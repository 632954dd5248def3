#pragma once
// A Hugging Face folder as the GGUF file that it becomes: keys and tensors are those of the file, only that
// the tensors' bytes are made when they are asked for. What plans and writes files works on it as on any.
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
        std::string pre;  ///< pre-tokenizer instead of the recognised one; "": that
        /// For a plan alone: weights and tokenizer may be missing.
        bool plan_only = false;
    };

    /// Reads the folder's configuration, tokenizer and headers of weights, and checks that the result loads
    /// as a model. Errors name the file, key or tensor, what was expected and what was found.
    static Result<std::unique_ptr<HfModel>> open(const std::string& folder, ThreadPool& pool,
                                                 const kernels::KernelTable& kernels, const Options& options);
    ~HfModel();

    /// Its tensors' data are zeros but for those that are computed: rows() has the values.
    const gguf::File& file() const;
    /// Parallel to the file's tensors.
    std::span<const Recipe> recipes() const;
    const RowSource& rows() const;
    bool has_weights() const;
    /// Why there are no tokens in the file; plan_only.
    const std::optional<Error>& tokenizer_error() const;
    /// "LlamaForCausalLM"
    std::string_view class_name() const;
    /// The type that most of the checkpoint's weights have, as a mixture's name: "BF16", "F16".
    std::string_view own_mixture() const;
    /// Every file of the folder that is read, for who must not overwrite it.
    std::string folder() const;

  private:
    struct State;
    explicit HfModel(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace tessera::convert
