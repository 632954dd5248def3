// Packing and unpacking with the codes of 8 rows transposed in registers: the formats of
// quants/pack/formats.h, the same bytes as the scalar functions, 5 to 20 times as fast. Included after
// packed_unpack.inl, over the operations of the unit that includes both.
namespace tessera::kernels {
namespace {

/// v[g] = the codes of group g of 8 rows.
template <int Bits>
void store_codes(const Int (&v)[8], uint8_t* block) {
    constexpr int kParts = code_parts(Bits);
    TSR_UNROLL
    for (int vector = 0; vector < Bits; vector++) {
        Int bytes = none();
        TSR_UNROLL
        for (int g = 0; g < 8; g++) {
            TSR_UNROLL
            for (int i = 0; i < kParts; i++) {
                const CodePart part = code_part<Bits>(g, i);
                if (part.bits == 0 || part.vector != vector) continue;
                bytes = with_field(bytes, v[g], part.bits, part.to, part.from);
            }
        }
        store(block + 32 * vector, bytes);
    }
}

/// Units of 32 weights go eight at a time: the transposition then loads bytes as vectors long after single
/// rows stored them, so store forwarding does not stall.
template <class F>
constexpr int kBatch = 256 / F::kUnitK;

template <class F>
void pack_units(const uint8_t* from, size_t w_stride, int n_rows, int n_units, uint8_t* unit) {
    using Disk = typename F::Disk;
    RowUnit u[kBatch<F>][kGroupRows];
    const Disk zeros = {};
    for (int row = 0; row < kGroupRows; row++) {
        const Disk* blocks = reinterpret_cast<const Disk*>(from + static_cast<size_t>(row) * w_stride);
        for (int i = 0; i < n_units; i++) F::read_disk(row < n_rows ? blocks[i] : zeros, u[i][row]);
    }
    for (int i = 0; i < n_units; i++, unit += F::kUnitBytes) {
        memset(unit, 0, F::kHeadBytes);
        for (int row = 0; row < kGroupRows; row++) F::write_head(u[i][row], unit, row);
        if constexpr (F::kBits != 0) {
            for (int b = 0; b < F::kBlocks; b++) {
                Int v[8];
                TSR_UNROLL
                for (int row = 0; row < kGroupRows; row++) v[row] = load(u[i][row].code + 32 * b);
                transpose_words(v);
                store_codes<F::kBits>(v, unit + codes_at<F>(b));
            }
        }
    }
}

template <class F>
void unpack_units(const uint8_t* unit, int n_rows, int n_units, uint8_t* to, size_t w_stride) {
    using Disk = typename F::Disk;
    RowUnit u[kBatch<F>][kGroupRows];
    for (int i = 0; i < n_units; i++, unit += F::kUnitBytes) {
        if constexpr (F::kBits != 0) {
            for (int b = 0; b < F::kBlocks; b++) {
                Int v[8];
                TSR_UNROLL
                for (int g = 0; g < 8; g++) v[g] = code_vector<F::kBits>(unit + codes_at<F>(b), g);
                transpose_words(v);
                TSR_UNROLL
                for (int row = 0; row < kGroupRows; row++) store(u[i][row].code + 32 * b, v[row]);
            }
        }
        for (int row = 0; row < n_rows; row++) F::read_head(unit, row, u[i][row]);
    }
    for (int row = 0; row < n_rows; row++) {
        Disk* blocks = reinterpret_cast<Disk*>(to + static_cast<size_t>(row) * w_stride);
        for (int i = 0; i < n_units; i++) F::write_disk(u[i][row], blocks[i]);
    }
}

template <class F>
void pack(const void* w, size_t w_stride, int n_rows, int64_t n_k, void* group) {
    const int64_t n_units = n_k / F::kUnitK;
    for (int64_t i = 0; i < n_units; i += kBatch<F>) {
        const int count = static_cast<int>(n_units - i < kBatch<F> ? n_units - i : kBatch<F>);
        pack_units<F>(static_cast<const uint8_t*>(w) + i * static_cast<int64_t>(sizeof(typename F::Disk)),
                      w_stride, n_rows, count, static_cast<uint8_t*>(group) + i * F::kUnitBytes);
    }
}

template <class F>
void unpack(const void* group, int n_rows, int64_t n_k, void* w, size_t w_stride) {
    const int64_t n_units = n_k / F::kUnitK;
    for (int64_t i = 0; i < n_units; i += kBatch<F>) {
        const int count = static_cast<int>(n_units - i < kBatch<F> ? n_units - i : kBatch<F>);
        unpack_units<F>(static_cast<const uint8_t*>(group) + i * F::kUnitBytes, n_rows, count,
                        static_cast<uint8_t*>(w) + i * static_cast<int64_t>(sizeof(typename F::Disk)),
                        w_stride);
    }
}

}  // namespace
}  // namespace tessera::kernels
