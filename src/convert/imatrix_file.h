#pragma once
// Importance matrices as collected and stored: sums of squares of the inputs of each weight matrix. The GGUF
// layout is llama.cpp's, so that either program reads the other's files.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/expected.h"
#include "ggml-like/gguf/file.h"

namespace tessera::convert {

struct Imatrix {
    /// The sums of one tensor; a stack of experts has one matrix per expert.
    struct Entry {
        int64_t n_in = 0;
        std::vector<double> sums;    // [n_matrices, n_in] of squares
        std::vector<double> counts;  // [n_matrices] rows that were summed

        int64_t n_matrices() const { return static_cast<int64_t>(counts.size()); }
        /// Fails, naming the tensor, if a sum is not finite, also when rounded to float.
        Result<void> check(const std::string& name) const;
    };
    std::map<std::string, Entry, std::less<>> entries;  // by the tensor's name
    std::vector<std::string> datasets;                  // names of the texts
    int64_t n_chunks = 0, chunk_size = 0;               // number of chunks of text, and tokens per chunk

    /// Tensors NAME.in_sum2 [n_matrices, n_in] and NAME.counts [n_matrices, 1] of type f32, keys
    /// imatrix.datasets, imatrix.chunk_count and imatrix.chunk_size, which may be absent. Errors: no such
    /// tensors, inconsistent shapes, sums or counts that are negative or not finite.
    static Result<Imatrix> read(const gguf::File& file);
    /// The file appears under its name when it is complete. Errors: those of Entry::check() and gguf::Writer.
    Result<void> write(const std::string& path) const;

    /// Adds another importance matrix, tensor by tensor. Errors, with nothing added: a tensor of another
    /// shape.
    Result<void> add(const Imatrix& other);
};

}  // namespace tessera::convert
