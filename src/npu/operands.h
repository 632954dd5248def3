#pragma once
// The memory that an instruction accesses, and checks of its fields. Used by stream checks, wait placement
// and tests.
#include <array>
#include <cstddef>

#include "src/npu/instruction.h"

namespace tessera::npu {

/// The passes that a stream supports: n_valid rows from 1 to n_tok after n_past positions, with n_past +
/// n_valid <= n_ctx.
struct PassBounds {
    int64_t n_tok = 1, n_ctx = 1;
};

/// A byte range that an instruction reads or writes; may be empty. `space`: 0 VTCM, 1 and up the regions.
struct Access {
    int space;
    uint64_t begin, end;
    bool is_write;

    bool overlaps(const Access& other) const {
        return space == other.space && begin < other.end && other.begin < end;
    }
};

struct Accesses {
    std::array<Access, 5> list;
    size_t n = 0;

    void add(int space, uint64_t begin, uint64_t bytes, bool is_write) {
        if (bytes > 0) list[n++] = {space, begin, begin + bytes, is_write};
    }
    const Access* begin() const { return list.data(); }
    const Access* end() const { return list.data() + n; }
};

/// The accesses in any of the passes. Strided rows count including their gaps.
Accesses accesses(const Instruction& instruction, const PassBounds& bounds);

/// A description of the first invalid field, or null.
const char* wrong_fields(const Instruction& instruction);

/// "load", "expand", ... of a valid opcode.
const char* opcode_name(Opcode op);

/// Bytes of activations in the layout of vector instructions.
constexpr uint64_t act_rows_bytes(const Encoding& encoding, uint64_t rows, uint64_t dim) {
    return static_cast<uint64_t>(encoding.bits / 8) * ((dim + 31) / 32) * rows * 32;
}

}  // namespace tessera::npu
