#pragma once
// Conversion of GGUF files to packed containers and back (docs/formats/packed-gguf.md). Both directions
// stream: they need a few MiB of memory for any file size.
#include <cstdint>
#include <string>

#include "common/progress.h"
#include "common/threads.h"
#include "ggml-like/gguf/file.h"
#include "quants/kernels/table.h"

namespace tessera {

/// Resources of a conversion. They do not affect the result.
struct RepackContext {
    ThreadPool& pool;  ///< its abort flag ends the conversion with Cancelled
    const kernels::KernelTable& kernels;
    /// Called with the bytes read and the total; may be empty.
    ByteProgress progress = {};
};

/// Writes `in`, which must load as a model, as a packed container: matrices that Model::load would pack are
/// packed, everything else is copied. `out` appears only when it is complete. Errors: `in` is packed already;
/// those of Model::load and gguf::Writer.
Result<void> pack_file(gguf::File in, const std::string& out, const RepackContext& context);

/// The exact inverse, for a packed container of any architecture: keys, tensors and their order are those of
/// the original file, written by gguf::Writer without the keys of a split.
Result<void> unpack_file(const gguf::File& in, const std::string& out, const RepackContext& context);

}  // namespace tessera
