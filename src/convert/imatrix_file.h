#pragma once
// Importance matrices as they are collected and stored: sums of squares of what each matrix is multiplied
// with. The GGUF layout is llama.cpp's, so that either program reads the other's files.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/expected.h"
#include "ggml-like/gguf/file.h"

namespace tessera::convert {

struct Imatrix {
    /// Of one tensor; a stack of experts has a matrix for each.
    struct Entry {
        int64_t n_in = 0;
        std::vector<double> sums;    // [n_matrices, n_in] of squares
        std::vector<double> counts;  // [n_matrices] rows that were summed

        int64_t n_matrices() const { return static_cast<int64_t>(counts.size()); }
        /// An error that names the tensor when a sum is no finite number, also as a float.
        Result<void> check(const std::string& name) const;
    };
    std::map<std::string, Entry, std::less<>> entries;  // by the tensor's name
    std::vector<std::string> datasets;                  // what the text was called
    int64_t n_chunks = 0, chunk_size = 0;               // pieces of text that were summed, and their tokens

    /// Tensors NAME.in_sum2 [n_matrices, n_in] and NAME.counts [n_matrices, 1] of type f32, keys
    /// imatrix.datasets, imatrix.chunk_count and imatrix.chunk_size, which may be absent. Errors: no such
    /// tensors, shapes that do not fit together, sums or counts that are negative or not finite.
    static Result<Imatrix> read(const gguf::File& file);
    /// Appears under its name when it is complete. Errors: as Entry::check(), and those of gguf::Writer.
    Result<void> write(const std::string& path) const;

    /// Adds what another one has, tensor by tensor. Errors, with nothing added: a tensor of another shape.
    Result<void> add(const Imatrix& other);
};

}  // namespace tessera::convert
