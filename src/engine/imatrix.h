#pragma once
// Collecting an importance matrix: the one forward pass, run through a backend that looks at what each matrix
// is about to be multiplied with.
#include <memory>
#include <span>

#include "src/convert/imatrix_file.h"
#include "src/engine/session.h"

namespace tessera::engine {

class ImatrixCollector {
  public:
    /// The session's passes are observed while this lives; it outlives this.
    explicit ImatrixCollector(Session& session);
    ~ImatrixCollector();
    ImatrixCollector(const ImatrixCollector&) = delete;
    ImatrixCollector& operator=(const ImatrixCollector&) = delete;

    /// Computes one piece of text from an empty cache, every row through to the head, and adds the squares of
    /// all inputs to imatrix(). Sums run over the tokens in order, so they do not depend on the number of
    /// threads. Errors, with nothing added: those of Session::eval, an input that is no finite number (the
    /// tensor is named).
    Result<void> add_chunk(std::span<const int32_t> tokens);

    /// By the names of the file's tensors; a fused one has one entry, the head's is output.weight, or that of
    /// the embedding table where both are one.
    convert::Imatrix& imatrix() { return imatrix_; }

  private:
    class Observer;

    Session& session_;
    std::unique_ptr<Observer> observer_;
    convert::Imatrix imatrix_;
};

}  // namespace tessera::engine
