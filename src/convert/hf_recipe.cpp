// Reads rows of checkpoints in the order of Take and converts their elements. Rows stored in the wanted form
// are not copied. hf_model.cpp chooses the sources.
#include "src/convert/hf_recipe.h"

#include <algorithm>
#include <cstring>

#include "common/f16.h"
#include "common/strings.h"

namespace tessera::convert {

namespace {

constexpr int64_t kMxBlock = 32, kMxBytes = 16;

bool takes_half(Take take) {
    return take == Take::FirstHalf || take == Take::SecondHalf || take == Take::Even || take == Take::Odd ||
           take == Take::EvenColumns || take == Take::OddColumns;
}
bool takes_columns(Take take) {
    return take == Take::Columns || take == Take::EvenColumns || take == Take::OddColumns;
}

/// The recipe's rows for Take: each element of a vector is one.
struct Shape {
    int64_t rows, cols;  // of one matrix
    explicit Shape(const Recipe& recipe)
        : rows(recipe.is_vector() ? recipe.n_elements() : recipe.shape[recipe.shape.size() - 2]),
          cols(recipe.is_vector() ? 1 : recipe.n_cols()) {}
};

/// The row of the source for row `row` of one matrix; for Take::Columns the column.
int64_t row_in_source(const Recipe& recipe, int64_t row, int64_t n_rows) {
    switch (recipe.take) {
        case Take::All:
        case Take::PlusOne:
        case Take::FirstHalf:
        case Take::Columns:
            return row;
        case Take::Heads: {
            if (recipe.head_dim == 0) return row;
            // Elements of a head's two halves become adjacent pairs.
            const int64_t in_head = row % recipe.head_dim;
            return row - in_head + in_head % 2 * (recipe.head_dim / 2) + in_head / 2;
        }
        case Take::SecondHalf:
            return n_rows + row;
        case Take::Even:
        case Take::EvenColumns:
            return 2 * row;
        case Take::Odd:
        case Take::OddColumns:
            return 2 * row + 1;
    }
    return row;
}

/// S.EEEE.MMM, bias 7; no infinities, all ones is NaN.
float e4m3_to_f32(uint8_t code) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    float value;
    if (exponent == 15 && mantissa == 7)
        value = std::bit_cast<float>(0x7fc00000u);
    else if (exponent == 0)
        value = static_cast<float>(mantissa) * 0x1p-9f;
    else
        value = std::bit_cast<float>(static_cast<uint32_t>(exponent + 120) << 23 |
                                     static_cast<uint32_t>(mantissa) << 20);
    return code & 0x80 ? -value : value;
}

template <class T>
T load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

/// Element i of a row of that type.
double element(Dtype dtype, const std::byte* row, int64_t i) {
    switch (dtype) {
        case Dtype::F64:
            return load<double>(row + 8 * i);
        case Dtype::F32:
            return static_cast<double>(load<float>(row + 4 * i));
        case Dtype::F16:
            return static_cast<double>(f16_to_f32(load<uint16_t>(row + 2 * i)));
        case Dtype::BF16:
            return static_cast<double>(bf16_to_f32(load<uint16_t>(row + 2 * i)));
        case Dtype::F8_E4M3:
            return static_cast<double>(e4m3_to_f32(load<uint8_t>(row + i)));
        case Dtype::F8_E5M2:
            // The upper half of a half float.
            return static_cast<double>(f16_to_f32(static_cast<uint16_t>(load<uint8_t>(row + i) << 8)));
        case Dtype::U8:
        case Dtype::Other:
            break;
    }
    return 0;
}

bool is_float(Dtype dtype) { return dtype != Dtype::U8 && dtype != Dtype::Other; }
bool is_f8(Dtype dtype) { return dtype == Dtype::F8_E4M3 || dtype == Dtype::F8_E5M2; }

Type type_of(Dtype dtype) {
    switch (dtype) {
        case Dtype::F16:
            return Type::F16;
        case Dtype::BF16:
            return Type::BF16;
        case Dtype::U8:
            return Type::MXFP4;
        default:
            return Type::F32;
    }
}

std::vector<int64_t> without_ones(std::span<const int64_t> shape) {
    std::vector<int64_t> out;
    for (const int64_t n : shape)
        if (n != 1) out.push_back(n);
    return out;
}

Result<void> check_shape(const SafeTensor& source, const std::vector<int64_t>& expected) {
    if (without_ones(source.shape) == without_ones(expected)) return {};
    SafeTensor wanted;
    wanted.shape = expected;
    return fail(ErrorCode::Malformed, "tensor '%s': expected shape %s, found %s",
                printable(source.name).c_str(), wanted.shape_string().c_str(), source.shape_string().c_str());
}

/// The required shape of each source.
std::vector<int64_t> shape_of_source(const Recipe& recipe) {
    const int64_t times = takes_half(recipe.take) ? 2 : 1;
    std::vector<int64_t> expected = recipe.shape;
    if (recipe.is_vector()) {
        expected.back() *= times;
        return expected;
    }
    const Shape shape(recipe);
    expected.clear();
    if (recipe.sources.size() == 1 && recipe.shape.size() == 3) expected.push_back(recipe.shape[0]);
    if (takes_columns(recipe.take))
        expected.insert(expected.end(), {shape.cols, shape.rows * times});
    else
        expected.insert(expected.end(), {shape.rows * times, shape.cols});
    return expected;
}

Result<void> settle_mxfp4(Recipe& recipe) {
    recipe.type = Type::MXFP4;
    const SafeTensor& source = *recipe.sources[0];
    const SafeTensor* scales = recipe.scales[0];
    if (recipe.sources.size() != 1 || takes_columns(recipe.take) || recipe.n_cols() % kMxBlock != 0 ||
        !scales || scales->dtype != Dtype::U8)
        return fail(ErrorCode::Unsupported,
                    "tensor '%s' (U8): expected the blocks of an MXFP4 matrix with a tensor of scales",
                    printable(source.name).c_str());
    std::vector<int64_t> expected = shape_of_source(recipe);
    expected.back() /= kMxBlock;
    TSR_TRY_VOID(check_shape(*scales, expected));
    expected.push_back(kMxBytes);
    return check_shape(source, expected);
}

/// Decodes the factors of one F8 source and determines their layout.
Result<void> settle_factors(Recipe& recipe, const SafeTensor& source, const SafeTensor* scale,
                            int64_t block_rows, int64_t block_cols) {
    const Shape shape(recipe);
    const int64_t n_rows = shape.rows * (takes_half(recipe.take) ? 2 : 1);
    std::vector<float>& factors = recipe.factors.emplace_back();
    int64_t rows = n_rows, cols = shape.cols;
    if (!scale) {
        factors = {1.0f};
    } else {
        const auto n = scale->n_elements();
        const auto cut = [](int64_t n_all, int64_t block) { return (n_all + block - 1) / block; };
        if (n == n_rows && n != 1)
            rows = 1;
        else if (n != 1 && block_rows > 0 && block_cols > 0 &&
                 without_ones(scale->shape) ==
                     without_ones(std::vector{cut(n_rows, block_rows), cut(shape.cols, block_cols)}))
            rows = block_rows, cols = block_cols;
        else if (n != 1 || !is_float(scale->dtype))
            return fail(ErrorCode::Unsupported,
                        "tensor '%s': expected one factor, one per row or one per block of %lld x %lld "
                        "weights of '%s', found %s %s",
                        printable(scale->name).c_str(), static_cast<long long>(block_rows),
                        static_cast<long long>(block_cols), printable(source.name).c_str(),
                        scale->dtype_text.c_str(), scale->shape_string().c_str());
        factors.resize(static_cast<size_t>(n));
        for (int64_t i = 0; i < n; i++)
            factors[static_cast<size_t>(i)] =
                static_cast<float>(element(scale->dtype, scale->data.data(), i));
    }
    if (recipe.factors.size() > 1 && (recipe.factor_rows != rows || recipe.factor_cols != cols))
        return fail(ErrorCode::Unsupported,
                    "tensor '%s': its factors have another layout than those of earlier experts",
                    printable(source.name).c_str());
    recipe.factor_rows = rows;
    recipe.factor_cols = cols;
    return {};
}

/// Converts Hugging Face's order (elements 2k and 2k + 1 in byte k) to GGUF's (k and k + 16).
void repack_mxfp4(const std::byte* blocks, const std::byte* scales, int64_t n_blocks, std::byte* out) {
    for (int64_t b = 0; b < n_blocks; b++, blocks += kMxBytes, out += kMxBytes + 1) {
        out[0] = scales[b];
        for (size_t k = 0; k < kMxBytes; k++) {
            const std::byte low = blocks[k / 2], high = blocks[8 + k / 2];
            const int shift = k % 2 ? 4 : 0;
            out[1 + k] = (low >> shift & std::byte{15}) | (high >> shift & std::byte{15}) << 4;
        }
    }
}

/// Writes consecutive rows of one matrix.
class MatrixReader {
  public:
    MatrixReader(const Recipe& recipe, int64_t matrix)
        : recipe_(recipe),
          shape_(recipe),
          at_(recipe.sources.size() > 1 ? static_cast<size_t>(matrix) : 0),
          source_(*recipe.sources[at_]),
          bytes_(dtype_bytes(source_.dtype)) {
        const int64_t n_in_source = shape_.rows * (takes_half(recipe.take) ? 2 : 1);
        base_ = recipe.sources.size() > 1 ? 0 : matrix * n_in_source;
        // Columns: the source's rows have one element per row of the result.
        width_ = n_in_source;
    }

    void row(int64_t row, std::byte* out) {
        const int64_t from = row_in_source(recipe_, row, shape_.rows);
        if (recipe_.type == Type::MXFP4) {
            const int64_t n_blocks = shape_.cols / kMxBlock, first = (base_ + from) * n_blocks;
            return repack_mxfp4(source_.data.data() + first * kMxBytes,
                                recipe_.scales[at_]->data.data() + first, n_blocks, out);
        }
        const std::byte* in = takes_columns(recipe_.take)
                                  ? gather(from)
                                  : source_.data.data() + (base_ + from) * shape_.cols * bytes_;
        if (recipe_.take != Take::PlusOne && type_of(source_.dtype) == recipe_.type &&
            bytes_ == type_info(recipe_.type).block_bytes) {
            std::memcpy(out, in, static_cast<size_t>(shape_.cols * bytes_));
            return;
        }
        const std::vector<float>* factors = recipe_.factors.empty() ? nullptr : &recipe_.factors[at_];
        const int64_t per_row = (shape_.cols + recipe_.factor_cols - 1) / recipe_.factor_cols;
        for (int64_t i = 0; i < shape_.cols; i++) {
            double exact = element(source_.dtype, in, i);
            if (recipe_.take == Take::PlusOne) exact += 1;
            auto value = static_cast<float>(exact);
            if (factors)
                value *= (*factors)[static_cast<size_t>(from / recipe_.factor_rows * per_row +
                                                        i / recipe_.factor_cols)];
            std::memcpy(out + 4 * i, &value, sizeof value);
        }
    }

  private:
    /// A column of the source as a row.
    const std::byte* gather(int64_t column) {
        gathered_.resize(static_cast<size_t>(shape_.cols * bytes_));
        // base_ counts rows of the result; earlier matrices have the same number of elements in either order.
        const std::byte* in = source_.data.data() + (base_ * shape_.cols + column) * bytes_;
        for (int64_t i = 0; i < shape_.cols; i++, in += width_ * bytes_)
            std::memcpy(gathered_.data() + i * bytes_, in, static_cast<size_t>(bytes_));
        return gathered_.data();
    }

    const Recipe& recipe_;
    const Shape shape_;
    const size_t at_;
    const SafeTensor& source_;
    const int64_t bytes_;
    int64_t base_ = 0, width_ = 0;
    std::vector<std::byte> gathered_;
};

}  // namespace

int64_t Recipe::n_elements() const {
    int64_t n = 1;
    for (const int64_t dim : shape) n *= dim;
    return n;
}

uint64_t Recipe::n_bytes() const { return static_cast<uint64_t>(type_info(type).row_bytes(n_elements())); }

Result<void> settle(Recipe& recipe, int64_t block_rows, int64_t block_cols) {
    if (recipe.sources.empty()) return {};
    recipe.scales.resize(recipe.sources.size());
    const Dtype dtype = recipe.sources[0]->dtype;
    if (dtype == Dtype::U8 && recipe.quantizes) return settle_mxfp4(recipe);
    const std::vector<int64_t> expected = shape_of_source(recipe);
    recipe.type = recipe.quantizes ? type_of(dtype) : Type::F32;
    for (size_t i = 0; i < recipe.sources.size(); i++) {
        const SafeTensor& source = *recipe.sources[i];
        if (!is_float(source.dtype))
            return fail(
                ErrorCode::Unsupported,
                "tensor '%s': expected F64, F32, F16, BF16, F8_E4M3, F8_E5M2 or blocks of MXFP4, found "
                "%s",
                printable(source.name).c_str(), source.dtype_text.c_str());
        TSR_TRY_VOID(check_shape(source, expected));
        if (source.dtype != dtype) recipe.type = Type::F32;
    }
    if (std::none_of(recipe.sources.begin(), recipe.sources.end(),
                     [](const SafeTensor* source) { return is_f8(source->dtype); }))
        return {};
    for (size_t i = 0; i < recipe.sources.size(); i++) {
        if (recipe.scales[i] &&
            (recipe.n_matrices() > static_cast<int64_t>(recipe.sources.size()) || takes_columns(recipe.take)))
            return fail(ErrorCode::Unsupported,
                        "tensor '%s': factors of stacked F8 matrices are not supported",
                        printable(recipe.sources[i]->name).c_str());
        TSR_TRY_VOID(settle_factors(recipe, *recipe.sources[i], recipe.scales[i], block_rows, block_cols));
    }
    return {};
}

const std::byte* RecipeRows::rows(size_t index, int64_t first, int64_t count,
                                  std::vector<std::byte>& scratch) const {
    const Recipe& recipe = recipes_[index];
    if (!recipe.values.empty())
        return std::as_bytes(std::span(recipe.values)).data() + 4 * first * recipe.n_cols();
    const Shape shape(recipe);
    // A row of a vector in the file is many rows of the recipe.
    const int64_t times = recipe.n_cols() / shape.cols;
    const int64_t begin = first * times, end = (first + count) * times;
    const SafeTensor& source = *recipe.sources[0];
    const auto row_bytes = static_cast<size_t>(type_info(recipe.type).row_bytes(shape.cols));
    const bool is_stored_so =
        recipe.take == Take::All || (recipe.take == Take::Heads && recipe.head_dim == 0);
    if (is_stored_so && recipe.sources.size() == 1 && recipe.type != Type::MXFP4 &&
        type_of(source.dtype) == recipe.type &&
        dtype_bytes(source.dtype) == type_info(recipe.type).block_bytes)
        return source.data.data() + static_cast<size_t>(begin) * row_bytes;
    scratch.resize(static_cast<size_t>(end - begin) * row_bytes);
    std::byte* out = scratch.data();
    for (int64_t at = begin; at < end;) {
        const int64_t matrix = at / shape.rows, stop = std::min(end, (matrix + 1) * shape.rows);
        for (MatrixReader reader(recipe, matrix); at < stop; at++, out += row_bytes)
            reader.row(at - matrix * shape.rows, out);
    }
    return scratch.data();
}

void RecipeRows::release(size_t index, int64_t first, int64_t count) const {
    const Recipe& recipe = recipes_[index];
    if (recipe.sources.empty() || recipe.is_vector()) return;
    const int64_t n_rows = Shape(recipe).rows;
    // Releases proportional shares of a matrix: if rows are in another order, pages released too early are
    // only read again.
    for (int64_t at = first; at < first + count;) {
        const int64_t matrix = at / n_rows, stop = std::min(first + count, (matrix + 1) * n_rows);
        const bool is_stack = recipe.sources.size() == 1;
        const SafeTensor& source = *recipe.sources[is_stack ? 0 : static_cast<size_t>(matrix)];
        const size_t matrix_bytes =
            source.data.size() / static_cast<size_t>(is_stack ? recipe.n_matrices() : 1);
        const std::span matrix_data =
            source.data.subspan(is_stack ? static_cast<size_t>(matrix) * matrix_bytes : 0, matrix_bytes);
        const auto share = [&](int64_t row) {
            return static_cast<size_t>(static_cast<double>(matrix_bytes) * static_cast<double>(row) /
                                       static_cast<double>(n_rows));
        };
        const int64_t from = at - matrix * n_rows, to = stop - matrix * n_rows;
        if (takes_columns(recipe.take)) {
            if (to == n_rows) checkpoint_.release(matrix_data);
        } else {
            checkpoint_.release(matrix_data.subspan(share(from), share(to) - share(from)));
        }
        at = stop;
    }
}

}  // namespace tessera::convert
