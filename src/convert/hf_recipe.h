#pragma once
// Recipes that compute GGUF tensors from those of a checkpoint, row by row.
#include <span>
#include <string>
#include <vector>

#include "quants/types.h"
#include "src/convert/hf_arch.h"
#include "src/convert/row_source.h"

namespace tessera::convert {

/// The recipe of one tensor. Refers to tensors of a checkpoint, which must outlive it.
struct Recipe {
    std::string gguf;            ///< GGUF name
    std::string hf;              ///< name in the checkpoint, for reports; empty if the values are computed
    std::vector<int64_t> shape;  ///< GGUF shape, outermost first
    bool quantizes = false;      ///< a matrix that may be quantized
    Take take = Take::All;
    int64_t head_dim = 0;  ///< for Take::Heads if adjacent pairs rotate; 0: rows keep their order
    std::vector<const SafeTensor*> sources;  ///< one, or one per matrix of a stack
    /// Scales of F8 and MXFP4, parallel to the sources; null if there are none.
    std::vector<const SafeTensor*> scales;
    std::vector<float> values;  ///< used if there is no source

    Type type = Type::F32;  ///< type of the resulting rows; set by settle() if there are sources
    /// F8: factors of each source, and how many rows and columns share one. Set by settle().
    std::vector<std::vector<float>> factors;
    int64_t factor_rows = 1, factor_cols = 1;

    /// A bias or another vector: its elements count as rows for Take.
    bool is_vector() const { return shape.size() == 1 || gguf.ends_with(".bias"); }
    int64_t n_elements() const;
    int64_t n_cols() const { return shape.back(); }
    int64_t n_matrices() const { return shape.size() == 3 ? shape[0] : 1; }
    uint64_t n_bytes() const;
};

/// Checks dtypes and shapes of the sources and chooses the recipe's type: that of the source if GGUF has it,
/// F32 for vectors and other dtypes. `block_rows` x `block_cols` weights share an F8 factor. Errors name the
/// source, the expected value and the value found.
Result<void> settle(Recipe& recipe, int64_t block_rows, int64_t block_cols);

/// The rows of recipes in order. Recipes and checkpoint must outlive it.
class RecipeRows : public RowSource {
  public:
    RecipeRows(std::span<const Recipe> recipes, const HfCheckpoint& checkpoint)
        : recipes_(recipes), checkpoint_(checkpoint) {}

    const std::byte* rows(size_t index, int64_t first, int64_t count,
                          std::vector<std::byte>& scratch) const override;
    void release(size_t index, int64_t first, int64_t count) const override;

  private:
    std::span<const Recipe> recipes_;
    const HfCheckpoint& checkpoint_;
};

}  // namespace tessera::convert
