// Moves floats between a file's rows and packed groups. Their meaning does not matter, only their size.
#include "quants/pack/floats.h"

#include <algorithm>
#include <cstring>

namespace tessera::kernels {

namespace {

/// k that all rows copy before the next ones: their part of the group stays in L1.
constexpr int64_t kStretch = 256;

template <class Element>
Element load_at(const void* p, int64_t i) {
    Element value;
    std::memcpy(&value, static_cast<const uint8_t*>(p) + static_cast<size_t>(i) * sizeof value, sizeof value);
    return value;
}

template <class Element>
void store_at(Element value, void* p, int64_t i) {
    std::memcpy(static_cast<uint8_t*>(p) + static_cast<size_t>(i) * sizeof value, &value, sizeof value);
}

template <class Element>
void pack(const void* w, size_t w_stride, int n_rows, int64_t n_k, void* group) {
    if (n_rows < kGroupRows) std::memset(group, 0, static_cast<size_t>(n_k) * kGroupRows * sizeof(Element));
    for (int64_t first = 0; first < n_k; first += kStretch) {
        const int64_t last = std::min(first + kStretch, n_k);
        for (int row = 0; row < n_rows; row++) {
            const uint8_t* from = static_cast<const uint8_t*>(w) + static_cast<size_t>(row) * w_stride;
            for (int64_t k = first; k < last; k++)
                store_at(load_at<Element>(from, k), group, kGroupRows * k + row);
        }
    }
}

template <class Element>
void unpack(const void* group, int n_rows, int64_t n_k, void* w, size_t w_stride) {
    for (int64_t first = 0; first < n_k; first += kStretch) {
        const int64_t last = std::min(first + kStretch, n_k);
        for (int row = 0; row < n_rows; row++) {
            uint8_t* to = static_cast<uint8_t*>(w) + static_cast<size_t>(row) * w_stride;
            for (int64_t k = first; k < last; k++)
                store_at(load_at<Element>(group, kGroupRows * k + row), to, k);
        }
    }
}

using F32 = uint32_t;
using F16 = uint16_t;
using BF16 = uint16_t;

}  // namespace

#define TSR_P8_FLOAT(Name, name)                                                               \
    void pack_##name(const void* w, size_t w_stride, int n_rows, int64_t n_k, void* group) {   \
        pack<Name>(w, w_stride, n_rows, n_k, group);                                           \
    }                                                                                          \
    void unpack_##name(const void* group, int n_rows, int64_t n_k, void* w, size_t w_stride) { \
        unpack<Name>(group, n_rows, n_k, w, w_stride);                                         \
    }
#include "quants/pack/floats.inc"
#undef TSR_P8_FLOAT

}  // namespace tessera::kernels
