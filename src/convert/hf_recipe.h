#pragma once
// How one of our tensors is made from those of a checkpoint, row by row.
#include <span>
#include <string>
#include <vector>

#include "quants/types.h"
#include "src/convert/hf_arch.h"
#include "src/convert/row_source.h"

namespace tessera::convert {

/// A tensor to be made. Refers to tensors of a checkpoint, which outlives it.
struct Recipe {
    std::string gguf;            ///< our name
    std::string hf;              ///< theirs, for reports; empty where the values are computed
    std::vector<int64_t> shape;  ///< ours, outermost first
    bool quantizes = false;      ///< a matrix, whose type a mixture may choose
    Take take = Take::All;
    int64_t head_dim = 0;  ///< of Take::Heads where neighbours rotate together; 0: rows stay
    std::vector<const SafeTensor*> sources;  ///< one, or one for each matrix of a stack
    /// Of F8 and MXFP4, parallel to the sources; null where there is none.
    std::vector<const SafeTensor*> scales;
    std::vector<float> values;  ///< where there is no source

    Type type = Type::F32;  ///< of the rows that it gives; settle() chooses it for sources
    /// F8: factors of each source, and how many rows and columns share one. Of settle().
    std::vector<std::vector<float>> factors;
    int64_t factor_rows = 1, factor_cols = 1;

    /// A bias or another list of numbers: its elements are what Take calls rows.
    bool is_vector() const { return shape.size() == 1 || gguf.ends_with(".bias"); }
    int64_t n_elements() const;
    int64_t n_cols() const { return shape.back(); }
    int64_t n_matrices() const { return shape.size() == 3 ? shape[0] : 1; }
    uint64_t n_bytes() const;
};

/// Checks dtypes and shapes of the sources and chooses the recipe's type: that of the source where it is one
/// of ours, F32 for vectors and for what has no type here. `block_rows` x `block_cols` weights share a factor
/// where F8 has a matrix of them. Errors name the source, what was expected and what was found.
Result<void> settle(Recipe& recipe, int64_t block_rows, int64_t block_cols);

/// Rows of recipes in their order; they and the checkpoint outlive it.
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
