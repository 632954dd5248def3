#pragma once
// Maps the names of a file to their positions in O(1) each, also for hostile files: the hash is keyed with a
// random key of this process, so that colliding names cannot be prepared. Internal to gguf/.
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera::gguf {

/// SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012) of `text`.
uint64_t siphash(std::array<uint64_t, 2> key, std::string_view text);

/// An open-addressing table of 32-bit positions; the names stay in the file and are read through
/// `name_of(position)`. At most 10.7 bytes per name.
class NameIndex {
  public:
    static constexpr uint32_t kNone = UINT32_MAX;
    /// Most names a table can hold.
    static constexpr uint64_t kMaxNames = UINT32_MAX - 1;

    NameIndex() : NameIndex(0) {}
    /// Room for n_max <= kMaxNames names.
    explicit NameIndex(uint64_t n_max);

    /// The position of an equal name that is already there; else kNone, and `name` is added at `position`.
    template <class NameOf>
    uint32_t insert(std::string_view name, uint32_t position, const NameOf& name_of) {
        uint32_t& slot = slots_[slot_of(name, name_of)];
        const uint32_t before = slot;
        if (before == kNone) slot = position;
        return before;
    }

    /// kNone when absent.
    template <class NameOf>
    uint32_t find(std::string_view name, const NameOf& name_of) const {
        return slots_[slot_of(name, name_of)];
    }

  private:
    template <class NameOf>
    size_t slot_of(std::string_view name, const NameOf& name_of) const {
        const size_t mask = slots_.size() - 1;
        size_t at = siphash(key_, name) & mask;
        while (slots_[at] != kNone && name_of(slots_[at]) != name) at = (at + 1) & mask;
        return at;
    }

    std::array<uint64_t, 2> key_;
    std::vector<uint32_t> slots_;  // [power of two], a quarter or more of it kNone
};

}  // namespace tessera::gguf
