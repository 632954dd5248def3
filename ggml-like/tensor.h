#pragma once
// Views of model parameters. Nothing here owns memory: the Model does (mapping and packed arena).
#include <cstddef>
#include <cstdint>

#include "quants/types.h"

namespace tessera {

/// A weight matrix: y[t, o] = sum_i w[o, i] x[t, i]. With n_expert > 0 it is a stack of such matrices. Valid
/// as long as the Model lives.
struct Weight {
    Type type = Type::F32;
    Layout layout = Layout::Rows;
    int64_t n_out = 0, n_in = 0;
    int64_t n_expert = 0;             // 0 = a single matrix
    const std::byte* data = nullptr;  // [n_expert?, n_out, n_in]
    size_t row_bytes = 0;             // of one row in the file; a packed group of 8 rows has 8 * row_bytes
    size_t expert_bytes = 0;          // distance between experts

    explicit operator bool() const { return data != nullptr; }

    /// The matrix of one expert.
    Weight expert(int64_t e) const {
        Weight w = *this;
        w.data += static_cast<size_t>(e) * expert_bytes;
        w.n_expert = 0;
        return w;
    }
    /// Whether products use int8 activations: for packed weights of quantized types.
    bool takes_int8() const { return layout == Layout::Packed && type_info(type).block > 1; }
    /// First byte of row r; in packed layout r is a multiple of 8.
    const std::byte* row(int64_t r) const { return data + static_cast<size_t>(r) * row_bytes; }
};

/// A vector parameter (norm weight, bias), always f32 after load.
struct Vector {
    const float* data = nullptr;  // [n]
    int64_t n = 0;
    explicit operator bool() const { return data != nullptr; }
};

/// One activation buffer [max_tok, dim], owned by Activations. The operation that produces it fills the
/// floats, the int8 image or both, as its consumers need (set once, when the buffers are laid out). Recorders
/// identify a buffer by its address.
struct ActBuffer {
    const char* name = "";
    int64_t dim = 0;
    bool needs_f32 = true;     // its producer always writes floats, or some consumer reads them
    bool needs_int8 = false;   // some consumer is an int8 kernel
    float* f32 = nullptr;      // [max_tok, dim], null unless needs_f32
    int8_t* q = nullptr;       // [max_tok, dim], this and the following null unless needs_int8
    float* d = nullptr;        // [max_tok, dim / 32]
    float* s = nullptr;        // [max_tok, dim / 32]
    int16_t* sum16 = nullptr;  // [max_tok, dim / 16]
    int16_t* sum8 = nullptr;   // [max_tok, dim / 8]

    float* row(int64_t t) const { return f32 + t * dim; }
    /// The floats of rows t and up.
    ActBuffer rows_from(int64_t t) const { return {.name = name, .dim = dim, .f32 = row(t)}; }
};

}  // namespace tessera
