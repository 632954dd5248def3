#pragma once
// Executes the operations of the forward pass (ops.h). forward() is written once against this interface:
// CpuBackend executes each operation immediately, RecordBackend writes it down, others wrap a backend and
// observe or replace operations. Operations never fail and never allocate: shapes are checked when the model
// is bound, sizes when the activations are laid out. All activations are [n_tok, dim], row-major. When the
// pool's abort flag is set, an operation may leave its outputs undefined.
#include "ggml-like/ops.h"

namespace tessera {

/// An operation whose operands are in memory; valid during the call of Backend::run() only.
using Op = AnyOp<Direct>;

class Backend {
  public:
    virtual ~Backend() = default;

    virtual void run(const Op& op) = 0;

    // A function for each operation: be.norm({.x = ...}) reads like a call of it.
#define TSR_RUN_OP(Struct, name) \
    void name(const Struct<Direct>& op) { run(op); }
    TSR_OPS(TSR_RUN_OP)
#undef TSR_RUN_OP
};

}  // namespace tessera
