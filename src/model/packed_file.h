#pragma once
// Stock file to packed container and back (docs/formats/packed-gguf.md). Both read and write in a stream:
// memory is a few MiB, whatever the file's size.
#include <cstdint>
#include <string>

#include "common/progress.h"
#include "common/threads.h"
#include "ggml-like/gguf/file.h"
#include "quants/kernels/table.h"

namespace tessera {

/// What converting works with. The result does not depend on any of it.
struct RepackContext {
    ThreadPool& pool;  ///< its abort flag ends the conversion with Cancelled
    const kernels::KernelTable& kernels;
    /// Called with the bytes read and in all; may be empty.
    ByteProgress progress = {};
};

/// Writes `in`, which has to load as a model, as one packed container: the matrices that Model::load would
/// pack are packed, all else is copied. Errors: `in` is packed already, what Model::load and gguf::Writer
/// say. `out` appears only when it is complete.
Result<void> pack_file(gguf::File in, const std::string& out, const RepackContext& context);

/// The exact inverse, for a packed container of whatever architecture: keys, tensors and their order are
/// those of the stock file, written by gguf::Writer without the keys of a split.
Result<void> unpack_file(const gguf::File& in, const std::string& out, const RepackContext& context);

}  // namespace tessera
