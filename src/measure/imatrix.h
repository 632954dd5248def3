#pragma once
// Collects an importance matrix: runs the forward pass through a backend that observes the input of each
// weight matrix.
#include <memory>
#include <span>

#include "src/convert/imatrix_file.h"
#include "src/engine/session.h"

namespace tessera::measure {

class ImatrixCollector {
  public:
    /// Observes the session's passes as long as it lives. The session must outlive it and have
    /// SessionOptions::all_floats.
    explicit ImatrixCollector(engine::Session& session);
    ~ImatrixCollector();
    ImatrixCollector(const ImatrixCollector&) = delete;
    ImatrixCollector& operator=(const ImatrixCollector&) = delete;

    /// Computes one chunk of text from an empty cache, with logits for every row, and adds the squares of all
    /// inputs to imatrix(). Sums are in token order, so they do not depend on the number of threads. Errors,
    /// after which nothing was added: those of Session::eval; an input that is not finite (names the tensor).
    Result<void> add_chunk(std::span<const int32_t> tokens);

    /// Entries have the names of the file's tensors. A fused tensor has one entry; the head's is
    /// output.weight, or the embedding table's if embeddings are tied.
    convert::Imatrix& imatrix() { return imatrix_; }

  private:
    class Observer;

    engine::Session& session_;
    std::unique_ptr<Observer> observer_;
    convert::Imatrix imatrix_;
};

}  // namespace tessera::measure
